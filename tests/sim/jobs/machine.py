"""A machine whose node process has all its rooms but the API, composed as node.py does it, and its other processes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from raftsched.config.addresses import Address
from raftsched.config.node import NodeConfig
from raftsched.core.entry import EntryResult
from raftsched.core.model import OutputRef
from raftsched.core.subjects.cluster import OpenSession
from raftsched.handlers import KINDS
from raftsched.leader.leader import Leader
from raftsched.node.disk import DiskSpace
from raftsched.node.wiring import NodePorts, boot_of, store_moves
from raftsched.raft.facade import Raft
from raftsched.remote.gateway import Gateway
from raftsched.store import WriteBatch
from raftsched.surface.worker_sessions import CloseIn, PollAnswer, PollIn, WorkerSessionIn, WorkerSessionOut
from raftsched.version import __version__
from raftsched.worker.conditions.probes import ConditionProbes
from raftsched.worker.session.own_node import OwnNode
from raftsched.worker.session.worker import Worker
from raftsched.worker.tasks.permits import Permits
from tests.sim.clocks import MachineClock
from tests.sim.jobs.keepers import Site
from tests.sim.jobs.runner import SimKeptEnds, SimRunner
from tests.sim.machine import Machine

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

NOWHERE = Address("127.0.0.1", 1)  # the API is not simulated


class NothingKept:
    """raftsched.remote.reports.ReportedOutputs: what a worker says of an output that it could not send is not kept."""

    async def store(self, token: int, run: object, ended_at_ms: int, output: object) -> None: ...

    def verify(self, place: object) -> tuple[str, OutputRef]:
        raise AssertionError("nothing is sent here")


class JobsMachine(Machine):
    def __init__(self, world: JobsWorld, name: str, rng: random.Random, directory: Path) -> None:
        super().__init__(world, name, rng, directory)
        slew = world.profile.slew
        if slew:
            self.clock = MachineClock(
                world.scheduler,
                boot_s=rng.uniform(1, 1_000_000),
                rate=1 + rng.choice([-slew, slew]),
                wall_offset_ms=self.clock.wall_offset_ms,
                wall_rate=1.0,
            )
        self.site = Site(world, self, random.Random(rng.random()))
        self.wall_offset_ms = self.clock.wall_offset_ms  # as long as nobody sets it wrong
        self.worker: Worker | None = None
        self.runner: SimRunner | None = None
        self.leader: Leader | None = None
        self.gateway: Gateway | None = None
        self.slots = rng.choice(world.profile.slots)
        self.labels = (("disk", "ssd"),) if name == "n1" or rng.random() < 0.5 else ()
        self._jobs_world = world

    def furnish(self, raft: Raft, rng: random.Random) -> None:
        store, loop, world = self.store, self.loop, self._jobs_world
        assert store is not None
        assert loop is not None
        self.runner = SimRunner(world, self.site, loop, self.clock)
        self.leader = Leader(raft, store.read, self.clock)
        self.gateway = Gateway(
            node_id=self.name,
            raft=raft,
            read=store.read,
            clock=self.clock,
            outputs=NothingKept(),
            random_bytes=rng.randbytes,
        )
        own = OwnNode(
            raft=raft,
            read=store.read,
            clock=self.clock,
            opening=OpenSession(
                self.name,
                0,
                boot_of(self.site.boot, raft),
                b"",
                self.slots,
                labels=self.labels,
                handlers=KINDS,
                http=f"{self.name}:80",
                version=__version__,
            ),
            rng=rng,
            permits=Permits(),
            store_moves=partial(store_moves, raft),
        )
        loop.thread_s = self.disk.latency_s
        kept_ends = SimKeptEnds(self.directory / "ends", raft.store_id, self.runner.told)
        self.worker = Worker(name=self.name, link=own, runner=self.runner, clock=self.clock, kept_ends=kept_ends)
        self.checks = ConditionProbes(node_id=self.name, raft=raft, read=store.read)
        config = NodeConfig(
            id=self.name,
            data=self.directory,
            http=NOWHERE,
            raft=NOWHERE,
            peers={},
            advertise_http=NOWHERE,
            advertise_raft=NOWHERE,
            slots=self.slots,
        )
        disk = DiskSpace(store, self.clock)
        NodePorts(config, self.clock, store, raft, self.worker, own, self.leader, disk).connect()

    async def open_rooms(self, raft: Raft) -> None:
        assert self.leader is not None
        assert self.worker is not None
        assert self.runner is not None
        assert self.gateway is not None
        leader, worker, checks, gateway = self.leader, self.worker, self.checks, self.gateway
        await self.runner.start()
        await raft.start()
        leader.start()
        await worker.start()
        checks.start()
        gateway.start()

    async def serve(
        self, session: str, request: object, gone: Callable[[], bool]
    ) -> WorkerSessionOut | PollAnswer | None:
        """Answers what a remote worker asks. Raises RaftschedError."""
        assert self.gateway is not None
        match request:
            case WorkerSessionIn():
                return await self.gateway.open(request)
            case PollIn():
                return await self.gateway.poll(session, request, self.clock.boot_ms(), gone=gone)
            case CloseIn():
                await self.gateway.close(session, request)
                return None
            case _:
                raise AssertionError(request)

    def stop(self) -> None:
        """SIGTERM: the node stops in an orderly way."""
        if self.loop is not None and self.worker is not None and self.serving and not self.stopping:
            self.stopping = True
            self.loop.create_task(self._stop(self.incarnation))

    stopping = False

    async def _stop(self, incarnation: int) -> None:
        assert self.leader is not None
        assert self.worker is not None
        self._jobs_world.trace.event(self.name, "stops")
        if self.gateway is not None:
            self.gateway.stop()
        await self.leader.stop()
        self.checks.stop()
        await self.worker.stop()
        self._jobs_world.scheduler.after(0.0, self._stopped, incarnation)

    def _stopped(self, incarnation: int) -> None:
        if self.incarnation == incarnation:
            self.kill()

    def kill(self, power: bool = False) -> None:
        if self.running:
            super().kill(power)
            self.stopping = False
            self.worker = self.runner = self.leader = self.gateway = None
            self.site.node_gone()
            if not power:
                self._jobs_world.ways.node_gone(self.name)
        if power:
            self.site.power_gone()

    def wipe(self) -> None:
        super().wipe()
        self.site.new_disk()

    def calm(self) -> None:
        super().calm()
        self.site.calm()

    def written(self, batch: WriteBatch) -> None:
        super().written(batch)
        self._jobs_world.ledger.written(batch)

    def applied(self, results: list[EntryResult]) -> None:
        super().applied(results)
        self._jobs_world.ledger.applied(self, results)
