"""Faults. Each is a class that says on what it can be done, does it for a while, and makes it good again."""

from __future__ import annotations

from typing import Protocol

from harness.machine import Machine
from harness.world import World


class Fault(Protocol):
    """`whole`: it needs the others to be well before and after, and nothing beside it. `network`: it may come while
    processes are hurt, and they while it is on."""

    name: str
    whole: bool
    network: bool

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        """Why it cannot be done here; None: it can."""

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        """Hurts some of the nodes that are free (others are hurt already). Returns whom; None: nobody suited."""

    async def heal(self, world: World) -> None: ...


def named() -> dict[str, Fault]:
    from harness.nemesis import clocks, disks, members, network, power, processes, workers

    rooms = (
        *(processes.FAULTS, network.FAULTS, clocks.FAULTS, disks.FAULTS, power.FAULTS, members.FAULTS),
        workers.FAULTS,
    )
    return {fault.name: fault for room in rooms for fault in room}
