"""Cuts, of one direction or both; connections that are reset; links that are slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import permutations

from harness.machine import Machine
from harness.nemesis import Fault
from harness.world import PATIENT_S, World

Link = tuple[str, str]  # source, destination
SECONDS = (3.0, 12.0)


class Partition:
    whole: bool = False
    network: bool = True

    def __init__(self, name: str, choose: Callable[[World, list[str], str | None], list[Link]], least: int = 3) -> None:
        self.name = name
        self._choose = choose
        self._least = least
        self._cut: list[Link] = []

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None if nodes >= self._least else f"it takes {self._least} nodes"

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        nodes = world.rng.sample(list(world.cluster.network.nodes), len(world.cluster.nodes))
        leader = await world.cluster.leader(PATIENT_S)
        self._cut = self._choose(world, nodes, None if leader is None else leader.name)
        if not self._cut:
            return None
        for source, dest in self._cut:
            await world.cluster.network.cut(source, dest)
        await asyncio.sleep(world.rng.uniform(*SECONDS))
        return sorted({name for link in self._cut for name in link})

    async def heal(self, world: World) -> None:
        for source, dest in self._cut:
            await world.cluster.network.mend(source, dest)
        self._cut = []


def between(some: list[str], others: list[str]) -> list[Link]:
    return [link for a in some for b in others for link in ((a, b), (b, a))]


def halves(world: World, nodes: list[str], leader: str | None) -> list[Link]:
    few = len(nodes) // 2
    return between(nodes[:few], nodes[few:])


def one(world: World, nodes: list[str], leader: str | None) -> list[Link]:
    return between(nodes[:1], nodes[1:])


def ring(world: World, nodes: list[str], leader: str | None) -> list[Link]:
    """Each sees a majority, and no two see the same one."""
    size, reach = len(nodes), len(nodes) // 4 or 1
    near = {(nodes[i], nodes[(i + step) % size]) for i in range(size) for step in range(-reach, reach + 1) if step}
    return [link for link in permutations(nodes, 2) if link not in near]


def one_way(world: World, nodes: list[str], leader: str | None) -> list[Link]:
    """One hears the others, who do not hear it; or the other way round."""
    deaf = [(other, nodes[0]) for other in nodes[1:]]
    return deaf if world.rng.random() < 0.5 else [(b, a) for a, b in deaf]


def leader_alone(world: World, nodes: list[str], leader: str | None) -> list[Link]:
    return [] if leader is None else between([leader], [name for name in nodes if name != leader])


class ResetStorm:
    name: str = "reset-storm"
    whole: bool = False
    network: bool = True

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        links = list(permutations(world.cluster.network.nodes, 2))
        for _ in range(world.rng.randint(10, 40)):
            await world.cluster.network.reset(*world.rng.choice(links))
            await asyncio.sleep(world.rng.uniform(0.02, 0.3))
        return list(world.cluster.network.nodes)

    async def heal(self, world: World) -> None:
        return None


class SlowLinks:
    """One node is far away: up to 150 ms each way, or a thin line."""

    name: str = "slow-links"
    whole: bool = False
    network: bool = True

    def __init__(self) -> None:
        self._slow: list[Link] = []

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        nodes = world.rng.sample(list(world.cluster.network.nodes), len(world.cluster.nodes))
        self._slow = between(nodes[:1], nodes[1:])
        delay_s, bytes_per_s = (world.rng.uniform(0.02, 0.15), 0.0) if world.rng.random() < 0.6 else (0.0, 200_000.0)
        for link in self._slow:
            await world.cluster.network.slow(*link, delay_s, bytes_per_s)
        await asyncio.sleep(world.rng.uniform(*SECONDS))
        return nodes[:1]

    async def heal(self, world: World) -> None:
        for link in self._slow:
            await world.cluster.network.slow(*link, 0.0, 0.0)
        self._slow = []


FAULTS: tuple[Fault, ...] = (
    Partition("partition-halves", halves),
    Partition("partition-one", one),
    Partition("partition-ring", ring, least=4),
    Partition("partition-one-way", one_way),
    Partition("partition-leader", leader_alone),
    ResetStorm(),
    SlowLinks(),
)
