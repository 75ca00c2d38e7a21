"""Power loss: a process is killed, and what it wrote and did not sync is taken back.

A real disk keeps any part of what was not synced. So either all of it vanishes, or a random part."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Sequence
from pathlib import Path

from harness.cluster import Node
from harness.machine import Machine
from harness.nemesis import Fault
from harness.world import World

TRIES, TRY_S = 200, 0.005
PASSING_MAX = 2  # syncs of each node before the one that waits
TOLD_S = 0.05  # what was answered before the power went has arrived
HEAD = struct.Struct("=4Q")  # offset, length of the old bytes, size of the file before, length of the path


class PowerLoss:
    network: bool = False

    def __init__(self, name: str, everybody: bool) -> None:
        self.name = name
        self.whole = everybody
        self._everybody = everybody

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return machine.lacks("shim")

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        nodes = world.cluster.nodes if self._everybody else [world.cluster.node(n) for n in free[:1]]
        nodes = [node for node in nodes if node.alive]
        if not nodes:
            return None
        await until_writing(nodes, world.rng.randint(0, PASSING_MAX))
        await world.cluster.kill(nodes)
        await asyncio.sleep(1.0)  # what the node had started ends with it, and writes no more
        share = world.rng.choice((1.0, 1.0, world.rng.random()))
        for node in nodes:
            world.history.note("power-loss", node=node.name, **lose(node, world.rng, share))
        await asyncio.sleep(world.rng.uniform(0.1, 3.0))
        for node in nodes:
            node.hold.unlink(missing_ok=True)
            await node.start()
        return [node.name for node in nodes]

    async def heal(self, world: World) -> None:
        for node in world.cluster.nodes:
            node.hold.unlink(missing_ok=True)


async def until_writing(nodes: Sequence[Node], passing: int = 0) -> None:
    """Power goes at the worst moment: when most have written what they have not synced. A sync is over too soon to be
    met, so that it waits; so many pass first. What those were for is acknowledged by then, also where it rests on
    bytes that they did not bring onto the disk."""
    for node in nodes:
        node.hold.write_text(str(passing))
    for _ in range(TRIES):
        if sum(at_risk(node) for node in nodes) * 2 > len(nodes):
            break
        await asyncio.sleep(TRY_S)
    await asyncio.sleep(TOLD_S)


def at_risk(node: Node) -> bool:
    """A sync of it waits."""
    return node.waits.exists()


def lose(node: Node, rng: random.Random, share: float) -> dict[str, int]:
    """Takes back such a share of the node's unsynced writes. How many there were, and how many are gone."""
    found = gone = 0
    for file in node.undo.iterdir():
        records = parse(file.read_bytes())
        found += len(records)
        for path, offset, old, size in reversed(records):
            if rng.random() < share:
                gone += 1
                undo(Path(path), offset, old, size)
    return {"unsynced": found, "lost": gone}


def parse(raw: bytes) -> list[tuple[str, int, bytes, int]]:
    """(path, offset, the bytes that were there, size of the file then) of each write; one that was cut short by the
    kill is left out: the write itself never happened."""
    records = []
    at = 0
    while at + HEAD.size <= len(raw):
        offset, length, size, name = HEAD.unpack_from(raw, at)
        end = at + HEAD.size + name + length
        if end > len(raw):
            break
        path = raw[at + HEAD.size : at + HEAD.size + name].decode()
        records.append((path, offset, raw[end - length : end], size))
        at = end
    return records


def undo(path: Path, offset: int, old: bytes, size: int) -> None:
    try:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(old)
            if size < path.stat().st_size:
                file.truncate(size)
    except FileNotFoundError:
        return  # renamed or deleted since


FAULTS: tuple[Fault, ...] = (PowerLoss("power-loss", False), PowerLoss("power-loss-of-all", True))
