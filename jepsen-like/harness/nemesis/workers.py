"""Faults of remote workers. They come beside all others: a worker holds no vote, so any number of them may be hurt.
As with nodes, keeper, supervisor and sentinel of one run are never all stopped at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from harness.machine import Machine
from harness.nemesis import Fault
from harness.nemesis.clocks import SKEW_S
from harness.nemesis.network import Link, between
from harness.nemesis.processes import duration
from harness.processes import guards, send
from harness.workers import RemoteWorker
from harness.world import World

SHARE = (0.1, 0.5)  # of the workers that are hurt at once
CUT_S = (3.0, 20.0)  # longer than a lease, often


def some(world: World) -> list[RemoteWorker]:
    """Returns workers that live, at random; those with the most runs are as likely as idle ones."""
    alive = [worker for worker in world.cluster.workers if worker.alive]
    count = max(1, round(len(alive) * world.rng.uniform(*SHARE)))
    return world.rng.sample(alive, min(count, len(alive)))


class OnWorkers:
    """On some of the remote workers."""

    whole: bool = False
    network: bool = False
    needs: str | None = None  # of the machine

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None if self.needs is None else machine.lacks(self.needs)

    async def heal(self, world: World) -> None:
        return None


class Kill(OnWorkers):
    """kill -9 of workers in one moment, and a start under the same names after a while."""

    name: str = "kill-remote-workers"

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        chosen = some(world)
        for worker in chosen:
            await worker.kill()
        await asyncio.sleep(duration(world))
        for worker in chosen:
            await worker.start()
        return [worker.name for worker in chosen] or None


class Drain(OnWorkers):
    """SIGTERM: they hand back what does not end in time, and are started anew."""

    name: str = "drain-remote-workers"

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        # One that was started a moment ago does not listen to signals yet; who has guards does.
        chosen = [worker for worker in some(world) if guards(worker.pid)]
        codes = await asyncio.gather(*(worker.terminate() for worker in chosen))
        for worker, code in zip(chosen, codes, strict=True):
            if code != 0:
                world.history.note("bad-stop", node=worker.name, code=code)
            await worker.start()
        return [worker.name for worker in chosen] or None


class Stop(OnWorkers):
    """SIGSTOP, of the workers' own processes, of their supervisors, or of both; after a while SIGCONT."""

    def __init__(self, name: str, worker: bool, supervisor: bool) -> None:
        self.name = name
        self._worker = worker
        self._supervisor = supervisor
        self._stopped: list[int] = []

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        chosen = some(world)
        for worker in chosen:
            self._stopped += [worker.pid] if self._worker else []
            self._stopped += [g.supervisor for g in guards(worker.pid)] if self._supervisor else []
        world.rng.shuffle(self._stopped)
        send(signal.SIGSTOP, self._stopped)
        await asyncio.sleep(duration(world))
        return [worker.name for worker in chosen] or None

    async def heal(self, world: World) -> None:
        send(signal.SIGCONT, self._stopped)
        self._stopped = []


class KillGuards(OnWorkers):
    """kill -9 of supervisors and all their keepers in one moment."""

    name: str = "kill-remote-guards"

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        chosen = some(world)
        found = [g for worker in chosen for g in guards(worker.pid)]
        pids = [pid for g in found for pid in (g.supervisor, *g.keepers)]
        send(signal.SIGSTOP, pids)  # so that none sees the other go
        send(signal.SIGKILL, pids)
        return [worker.name for worker in chosen] if pids else None


class Cut(OnWorkers):
    """Cut off from nodes, by blackholes: requests hang, and answers are lost."""

    needs = "namespaces"

    def __init__(self, name: str, choose: Callable[[World, str, list[str]], list[Link]]) -> None:
        self.name = name
        self._choose = choose
        self._cut: list[Link] = []

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        chosen = some(world)
        nodes = [node.name for node in world.cluster.nodes]
        self._cut = [link for worker in chosen for link in self._choose(world, worker.name, nodes)]
        for source, dest in self._cut:
            await world.cluster.network.cut(source, dest)
        await asyncio.sleep(world.rng.uniform(*CUT_S))
        return [worker.name for worker in chosen] or None

    async def heal(self, world: World) -> None:
        for source, dest in self._cut:
            await world.cluster.network.mend(source, dest)
        self._cut = []


def from_all(world: World, worker: str, nodes: list[str]) -> list[Link]:
    return between([worker], nodes)


def from_some(world: World, worker: str, nodes: list[str]) -> list[Link]:
    return between([worker], world.rng.sample(nodes, world.rng.randint(1, len(nodes) - 1)))


def one_way(world: World, worker: str, nodes: list[str]) -> list[Link]:
    """Its requests arrive and the answers do not, or it is the other way round."""
    deaf = [(node, worker) for node in nodes]
    return deaf if world.rng.random() < 0.5 else [(b, a) for a, b in deaf]


class Clock(OnWorkers):
    """Wall clocks that are wrong, each by something else."""

    name: str = "skew-remote-workers"
    needs = "clock"

    def __init__(self) -> None:
        self._chosen: list[RemoteWorker] = []

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        self._chosen = some(world)
        for worker in self._chosen:
            worker.shift_clock(world.rng.choice(SKEW_S) * world.rng.choice((-1, 1)))
        await asyncio.sleep(world.rng.uniform(*CUT_S))
        return [worker.name for worker in self._chosen] or None

    async def heal(self, world: World) -> None:
        for worker in self._chosen:
            worker.shift_clock(0.0)
        self._chosen = []


FAULTS: tuple[Fault, ...] = (
    Kill(),
    Drain(),
    Stop("stop-remote-workers", True, False),
    Stop("stop-remote-supervisors", False, True),
    Stop("stop-remote-workers-and-supervisors", True, True),
    KillGuards(),
    Cut("cut-remote-workers", from_all),
    Cut("cut-remote-workers-from-some", from_some),
    Cut("cut-remote-workers-one-way", one_way),
    Clock(),
)
