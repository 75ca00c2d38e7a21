"""A node's side of remote workers, over a cluster that commits at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from raftsched.core.commands import (
    Accepted,
    Answer,
    Assign,
    CreateJob,
    Form,
    OpenLeadership,
    RunNow,
)
from raftsched.core.model import Instance, OutputRef, Overlap, Policy, Trigger, TriggerKind
from raftsched.core.rows import decode_instance
from raftsched.core.subjects.leasing import WorkerBeat, WorkerGrants, decode_beats, encode
from raftsched.core.tables import Table
from raftsched.errors import RaftschedError
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.output.keeping.owner_record import OutputOwner
from raftsched.remote.gateway import Gateway
from raftsched.surface.worker_sessions import (
    OutputPlace,
    PollAnswer,
    PollIn,
    Printed,
    WorkerSessionIn,
    WorkerSessionOut,
)
from tests.unit.worker.world import FakeRaft, LoopClock, Tables

TTL_MS = 10_000
TOUCH = b'{"handler":{"shell":"touch x","env":{"A":"b"}},"params":{"n":1}}'
SECRETIVE = b'{"handler":{"shell":"x","env":{"A":{"$secret":"word"}}},"params":{"b":[{"$secret":"word"}]}}'


class Kept:
    """Outputs of reports that are remembered, and no more."""

    def __init__(self) -> None:
        self.texts: list[tuple[int, str]] = []

    async def store(
        self, token: int, run: OutputOwner | None, ended_at_ms: int, output: str | Sequence[Printed]
    ) -> OutputRef | None:
        if output == "full":
            raise RaftschedError("disk-full")
        if output == "long":
            raise RaftschedError("invalid-body", "it is too long")
        self.texts.append((token, output if isinstance(output, str) else "".join(one.text for one in output)))
        return OutputRef(1, len(self.texts), 1, b"x" * 32)

    def verify(self, place: OutputPlace) -> tuple[str, OutputRef]:
        if place.node == "nobody":
            raise RaftschedError("invalid-body", "there is no such place")
        return place.node, OutputRef(place.segment, place.offset, place.size, bytes.fromhex(place.sha256))


class Raft(FakeRaft):
    """With a leader that grants what is asked of it, while `grants`. `before`: called before something is applied."""

    def __init__(self, tables: Tables, clock: LoopClock) -> None:
        super().__init__(tables, clock)
        self.grants = True
        self.before: Callable[[], None] = lambda: None

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        if self.reachable:
            self.before()
        return await super().propose(commands, timeout)

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        if kind == "worker_beats" and self.grants:
            asyncio.get_running_loop().call_soon(self.grant_all, decode_beats(payload).beats)
        return super().send(peer, kind, payload)

    def grant_all(self, beats: Sequence[WorkerBeat]) -> None:
        self.deliver("worker_grants", encode(WorkerGrants(tuple((b.session, b.request, TTL_MS) for b in beats))))

    def beats(self) -> list[tuple[str, WorkerBeat]]:
        return [(peer, b) for peer, kind, raw in self.sent if kind == "worker_beats" for b in decode_beats(raw).beats]


class World:
    def __init__(
        self, tables: Tables | None = None, trace: Callable[[Instance], Mapping[str, str]] | None = None
    ) -> None:
        self.clock = LoopClock()
        self.tables = tables or Tables()
        self.raft = Raft(self.tables, self.clock)
        self.kept = Kept()
        self.rules = OutputRules(self.read)
        about = {"raft": self.raft, "read": self.read, "clock": self.clock}
        self.gateway = Gateway(node_id="n1", **about, outputs=self.kept, output_rules=self.rules, trace=trace)
        self.gateway.start()
        if tables is None:
            self.raft.commit(Form(b"c" * 16, ()), OpenLeadership(1, "n2"))

    @contextmanager
    def read(self) -> Iterator[Tables]:
        yield self.tables

    async def open(self, name: str = "w1", **more: Any) -> WorkerSessionOut:
        return await self.gateway.open(
            WorkerSessionIn(name=name, **{"handlers": ["shell"], "incarnation": "i", "opening": 1} | more)
        )

    def poll(self, session: WorkerSessionOut | str, **said: Any) -> asyncio.Task[PollAnswer]:
        text = session if isinstance(session, str) else session.session
        request = PollIn(**said)
        return asyncio.ensure_future(self.gateway.poll(text, request, self.clock.boot_ms()))

    def give(self, session: WorkerSessionOut, body: bytes = TOUCH, **policy: Any) -> int:
        """Returns the token of one more run that is given to the session."""
        content = Policy(trigger=Trigger(kind=TriggerKind.MANUAL), overlap=Overlap.ALLOW, **policy)
        job = self.accepted(CreateJob("default", None, content, body)).job
        assert job is not None
        self.key = self.accepted(RunNow(job.id, 1)).instance
        assert self.key is not None
        token = self.accepted(Assign(self.key, number_of(session))).number
        assert token is not None
        return token

    def accepted(self, command: Any) -> Accepted:
        (answer,) = self.raft.commit(command)
        assert isinstance(answer, Accepted), answer
        return answer

    def instance(self) -> Instance:
        assert self.key is not None
        row = self.tables.get(Table.INSTANCES, self.key)
        assert row is not None
        return decode_instance(row)


def number_of(session: WorkerSessionOut) -> int:
    return int(session.session.partition("-")[0])


@asynccontextmanager
async def started(
    tables: Tables | None = None, trace: Callable[[Instance], Mapping[str, str]] | None = None
) -> AsyncIterator[World]:
    """A world of which nothing is left."""
    world = World(tables, trace)
    try:
        yield world
    finally:
        world.gateway.stop()
