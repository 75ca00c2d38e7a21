"""The wall clock of one node is set wrong (by a shim); its monotonic clocks are left alone."""

from __future__ import annotations

import asyncio

from harness.cluster import Node
from harness.machine import Machine
from harness.nemesis import Fault
from harness.world import PATIENT_S, World

SKEW_S = (0.6, 5.0, 60.0, 3_600.0, 86_400.0 * 30)
SECONDS = (4.0, 12.0)
STROBE_S = (0.1, 1.5)


class Clock:
    whole: bool = False
    network: bool = False

    def __init__(self, name: str, strobes: bool) -> None:
        self.name = name
        self._strobes = strobes
        self._node: Node | None = None

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return machine.lacks("clock")

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        leader = await world.cluster.leader(PATIENT_S)
        names = [leader.name] if leader is not None and world.rng.random() < 0.5 else free
        names = [name for name in names if name in free]
        if not names:
            return None
        node = self._node = world.cluster.node(world.rng.choice(names))
        offset = world.rng.choice(SKEW_S) * world.rng.choice((-1, 1))
        left = world.rng.uniform(*SECONDS)
        if not self._strobes:
            node.shift_clock(offset)
            await asyncio.sleep(left)
            return [node.name]
        wrong = False
        while left > 0:
            wrong = not wrong
            node.shift_clock(offset if wrong else 0.0)
            step = world.rng.uniform(*STROBE_S)
            await asyncio.sleep(step)
            left -= step
        return [node.name]

    async def heal(self, world: World) -> None:
        if self._node is not None:
            self._node.shift_clock(0.0)
            self._node = None


FAULTS: tuple[Fault, ...] = (Clock("clock-skew", False), Clock("clock-strobe", True))
