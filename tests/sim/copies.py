"""A copy of a machine's disk that is put back later."""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from raftsched.raft.membership.incarnations import Met
from tests.sim.checks import DurableLog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sim.machine import Machine
    from tests.sim.world import World

_met = msgspec.msgpack.Decoder(dict[str, Met])


@dataclass(frozen=True)
class Copy:
    """As of a moment between two writes; the process may have been running."""

    path: Path
    disk: DurableLog
    start: int  # the last one that it knows of


def take(machine: Machine, world: World) -> Copy:
    assert machine.raft is not None
    path = machine.directory.with_name(f"{machine.name}-copy")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(machine.directory / "db", path)
    world.trace.event(machine.name, "copied disk", f"at {world.checks.disks[machine.name].last}")
    number = machine.raft._replica.formation.incarnations.number
    return Copy(path, deepcopy(world.checks.disks[machine.name]), number)


def is_outdated(copy: Copy, machine: Machine, world: World) -> bool:
    """The disk is the same one and has been started again, and every other member has that on its own disk."""
    if world.checks.disks[machine.name].store_id != copy.disk.store_id:
        return False
    for other in world.members():
        if other is not machine:
            raw = None if other.store is None else other.store.local("met")
            met = None if raw is None else _met.decode(raw).get(machine.name)
            if met is None or met.store_id != copy.disk.store_id or met.number <= copy.start:
                return False
    return True


def put_back(copy: Copy, machine: Machine, world: World) -> None:
    """The process must not run."""
    shutil.rmtree(machine.directory)
    machine.directory.mkdir()
    shutil.copytree(copy.path, machine.directory / "db")
    machine.unsynced.forget()
    machine.unsynced_tables.forget()
    world.checks.rolled_back(machine.name, copy.disk)
    world.trace.event(machine.name, "went back", f"to {copy.disk.last}")
