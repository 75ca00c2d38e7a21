"""Disks that are full, that fail to sync, that come back damaged or empty."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from harness.cluster import Node, tail
from harness.machine import Machine
from harness.nemesis import Fault
from harness.nemesis.members import admit
from harness.nemesis.processes import follower
from harness.world import World

PAGE = 4096


class FullDisk:
    name: str = "full-disk"
    whole: bool = False
    network: bool = False

    def __init__(self) -> None:
        self._filler: Path | None = None
        self._node: Node | None = None

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return machine.lacks("namespaces")

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        if not free:
            return None
        node = self._node = world.cluster.node(world.rng.choice(free))
        node.expected = True  # a node whose turn cannot be written ends
        self._filler = node.data / "filler"
        await asyncio.to_thread(fill, self._filler)
        await asyncio.sleep(world.rng.uniform(2.0, 8.0))
        return [node.name]

    async def heal(self, world: World) -> None:
        if self._filler is not None and self._node is not None:
            self._filler.unlink(missing_ok=True)
            await asyncio.sleep(0.5)
            if not self._node.alive:
                world.history.note("ended", node=self._node.name, of=self.name, log=tail(self._node.log, 400))
                await self._node.start()
            self._node.expected = False
            self._filler = self._node = None


def fill(file: Path) -> None:
    """Until there is no room left."""
    block = b"\0" * (1 << 20)
    with file.open("wb", buffering=0) as out:
        while block:
            try:
                out.write(block)
            except OSError:
                block = block[: len(block) // 2]


class SyncError(FullDisk):
    """fdatasync answers EIO, as a dying disk does. The node must end rather than go on."""

    name: str = "sync-error"

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return machine.lacks("strace")

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        alive = [name for name in free if world.cluster.node(name).alive]
        if not alive:
            return None
        node = world.cluster.node(world.rng.choice(alive))
        node.expected = True
        strace = world.cluster.machine.strace
        assert strace is not None
        # the write of LMDB's meta page is O_DSYNC, and so a sync of its own
        wrong = ("trace=fdatasync,fsync", "inject=fdatasync,fsync:error=EIO")
        tracer = await asyncio.create_subprocess_exec(
            *(strace, "-f", "-qq", "-o", os.devnull, "-p", str(node.pid)),
            *(part for w in wrong for part in ("-e", w)),
            start_new_session=True,
        )
        for _ in range(100):
            if not node.alive:
                break
            await asyncio.sleep(0.1)
        ended = not node.alive
        if tracer.returncode is None:
            tracer.send_signal(signal.SIGTERM)
        await tracer.wait()
        world.history.note("sync-error", node=node.name, ended=ended, log=tail(node.log, 400))
        await node.kill()
        await asyncio.sleep(world.rng.uniform(0.1, 2.0))
        await node.start()
        return [node.name]

    async def heal(self, world: World) -> None:
        return None


class Wiped:
    """A machine comes back with an empty disk, and is let in again."""

    name: str = "wiped-disk"
    whole: bool = True
    network: bool = False

    def impossible(self, machine: Machine, nodes: int) -> str | None:
        return None

    async def strike(self, world: World, free: list[str]) -> list[str] | None:
        node = await follower(world, free)
        if node is None:
            return None
        await node.kill()
        await self.hurt(world, node)
        node.wipe()
        await node.start()
        await admit(world, node)
        return [node.name]

    async def hurt(self, world: World, node: Node) -> None:
        await asyncio.sleep(world.rng.uniform(0.1, 3.0))

    async def heal(self, world: World) -> None:
        return None


class Damaged(Wiped):
    """Bytes of a node's store are changed while it is down. It has to see that when it starts, or live with it
    harmlessly (the page was a free one); then its disk is replaced."""

    name: str = "damaged-file"

    async def hurt(self, world: World, node: Node) -> None:
        store = world.rng.choice(sorted((node.data / "store").glob("*/data.mdb")))
        size = store.stat().st_size
        with store.open("r+b") as file:
            for _ in range(world.rng.randint(1, 8)):
                file.seek(world.rng.randrange(2 * PAGE, max(2 * PAGE + 1, size - 64)))
                file.write(world.rng.randbytes(world.rng.randint(1, 64)))
        await node.start()
        node.expected = True
        for _ in range(40):
            if not node.alive:
                break
            await asyncio.sleep(0.1)
        world.history.note("damaged", node=node.name, refused=not node.alive, log=tail(node.log, 400))
        await node.kill()


FAULTS: tuple[Fault, ...] = (FullDisk(), SyncError(), Wiped(), Damaged())
