"""Processes are killed and stopped. Of keeper, supervisor and sentinel at most two are hurt at once: a run whose three
guards are all stopped by somebody is outside what is promised."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from harness.cluster import Node
from harness.machine import Machine
from harness.nemesis import Fault
from harness.processes import guards, private_bytes, send
from harness.world import PATIENT_S, World

BRIEF_S = (0.2, 3.0)
LONG_S = (6.5, 12.0)  # longer than a lease: what ran there runs elsewhere before it ends
LONG_SHARE = 0.6
LISTS = 8
Choose = Callable[[World, list[str]], Awaitable[Node | None]]


class _OnNodes:
    """On one node or all, for as long as the strike takes."""

    whole: bool = False
    network: bool = False

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None

    async def heal(self, world: World) -> None:
        return None


async def leader(world: World, free: list[str]) -> Node | None:
    found = await world.cluster.leader(PATIENT_S)
    return found if found is not None and found.name in free else None


async def follower(world: World, free: list[str]) -> Node | None:
    leads = await world.cluster.leader(PATIENT_S)
    names = [name for name in free if leads is None or name != leads.name]
    return world.cluster.node(world.rng.choice(names)) if names else None


async def busiest(world: World, free: list[str]) -> Node | None:
    """The one with the most runs: they are what its end is about."""
    count = {name: sum(len(g.keepers) for g in guards(_pid(world, name))) for name in free}
    return world.cluster.node(max(count, key=lambda name: count[name])) if count else None


def _pid(world: World, name: str) -> int:
    node = world.cluster.node(name)
    return node.pid if node.alive else -1


class Kill(_OnNodes):
    """kill -9 of the node process, and a start after a while."""

    def __init__(self, name: str, choose: Choose) -> None:
        self.name = name
        self._choose = choose

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        node = await self._choose(world, free)
        if node is None:
            return None
        await node.kill()
        await asyncio.sleep(duration(world))
        await node.start()
        return [node.name]


class KillAll(_OnNodes):
    """All at once, as when the room loses its power for a moment."""

    name: str = "kill-all"
    whole: bool = True

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        await world.cluster.kill(world.cluster.nodes)
        await asyncio.sleep(world.rng.uniform(0.2, 3.0))
        for node in world.rng.sample(world.cluster.nodes, len(world.cluster.nodes)):
            await node.start()
        return [node.name for node in world.cluster.nodes]


class KillGuards(_OnNodes):
    """kill -9 of what stands between a node and its runs: the supervisor, or it and all keepers in one moment."""

    def __init__(self, name: str, with_keepers: bool) -> None:
        self.name = name
        self._with_keepers = with_keepers

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        node = await busiest(world, [name for name in free if world.cluster.node(name).alive])
        if node is None or not (found := guards(node.pid)):
            return None
        pids = [pid for g in found for pid in (g.supervisor, *(g.keepers if self._with_keepers else ()))]
        send(signal.SIGSTOP, pids)  # so that none sees the other go
        send(signal.SIGKILL, pids)
        return [node.name]


class Stop(_OnNodes):
    """SIGSTOP and, after a while, SIGCONT: a machine that swaps, a virtual machine that moves."""

    def __init__(self, name: str, choose: Choose, node: bool, supervisor: bool) -> None:
        self.name = name
        self._choose = choose
        self._node = node
        self._supervisor = supervisor
        self._stopped: list[int] = []

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        node = await self._choose(world, [name for name in free if world.cluster.node(name).alive])
        if node is None:
            return None
        self._stopped = [node.pid] if self._node else []
        if self._supervisor:
            self._stopped += [g.supervisor for g in guards(node.pid)]
        world.rng.shuffle(self._stopped)
        send(signal.SIGSTOP, self._stopped)
        await asyncio.sleep(duration(world))
        return [node.name]

    async def heal(self, world: World) -> None:
        send(signal.SIGCONT, self._stopped)
        self._stopped = []


class StopAll(_OnNodes):
    """All stand still, and wake up at once: nobody's lease, vote or clock is what it was."""

    name: str = "stop-all"
    whole: bool = True

    def __init__(self) -> None:
        self._stopped: list[int] = []

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        nodes = [node for node in world.cluster.nodes if node.alive]
        self._stopped = [node.pid for node in nodes]
        send(signal.SIGSTOP, self._stopped)
        await asyncio.sleep(duration(world))
        return [node.name for node in nodes]

    async def heal(self, world: World) -> None:
        send(signal.SIGCONT, self._stopped)
        self._stopped = []


class Slow(_OnNodes):
    """A node that gets a tenth of its time."""

    name: str = "slow-node"

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        node = await busiest(world, [name for name in free if world.cluster.node(name).alive])
        if node is None:
            return None
        for _ in range(int(world.rng.uniform(3.0, 8.0) / 0.1)):
            send(signal.SIGSTOP, [node.pid])
            await asyncio.sleep(0.09)
            send(signal.SIGCONT, [node.pid])
            await asyncio.sleep(0.01)
        return [node.name]


class Memory(_OnNodes):
    """A node that gets no more memory (RLIMIT_DATA); what it says, or that it ends, is its own choice. Then it is
    started anew."""

    name: str = "memory-limit"
    HEADROOM = 1 << 20

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        import resource

        node = await follower(world, [name for name in free if world.cluster.node(name).alive])
        if node is None or (size := private_bytes(node.pid)) == 0:
            return None
        node.expected = True
        resource.prlimit(node.pid, resource.RLIMIT_DATA, (size + self.HEADROOM, size + self.HEADROOM))
        end = asyncio.get_running_loop().time() + world.rng.uniform(3.0, 8.0)
        while node.alive and asyncio.get_running_loop().time() < end:  # long answers need memory
            await asyncio.gather(*(node.get("/v1/instances?limit=1000") for _ in range(LISTS)))
            await asyncio.sleep(0.2)
        reached = private_bytes(node.pid) - size > self.HEADROOM * 0.9
        world.history.note("memory", node=node.name, ended=not node.alive, reached=reached)
        await node.kill()
        await node.start()
        return [node.name]


class Roll(_OnNodes):
    """Every node is stopped in an orderly way and started again, one after the other, as for an upgrade."""

    name: str = "rolling-restart"
    whole: bool = True

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        for node in world.rng.sample(world.cluster.nodes, len(world.cluster.nodes)):
            code = await node.terminate()
            if code != 0:
                world.history.note("bad-stop", node=node.name, code=code)
            await node.start()
            await world.cluster.wait_well(20.0)
        return [node.name for node in world.cluster.nodes]


def duration(world: World) -> float:
    return world.rng.uniform(*(LONG_S if world.rng.random() < LONG_SHARE else BRIEF_S))


FAULTS: tuple[Fault, ...] = (
    Kill("kill-leader", leader),
    Kill("kill-follower", follower),
    Kill("kill-worker", busiest),
    KillAll(),
    KillGuards("kill-supervisor", False),
    KillGuards("kill-supervisor-and-keepers", True),
    Stop("stop-leader", leader, True, False),
    Stop("stop-follower", follower, True, False),
    Stop("stop-worker", busiest, True, False),
    Stop("stop-supervisor", busiest, False, True),
    Stop("stop-node-and-supervisor", busiest, True, True),
    StopAll(),
    Slow(),
    Memory(),
    Roll(),
)
