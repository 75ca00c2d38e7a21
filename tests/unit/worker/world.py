"""A worker among fakes: the real apply over tables in memory, a leader played by the test, time that only jumps.

Nothing sleeps: the event loop's clock jumps to the next timer when nothing else is to be done.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from bisect import bisect_left, insort
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from raftsched.core.apply import apply_entry
from raftsched.core.commands import (
    Accepted,
    Answer,
    Assign,
    Command,
    CreateJob,
    Form,
    OpenLeadership,
    OpenSession,
    RunNow,
    SelfReport,
    decode,
    encode,
)
from raftsched.core.entry import EntryResult, encode_entry
from raftsched.core.model import Instance, InstanceState, Outcome, Overlap, Policy, Trigger, TriggerKind
from raftsched.core.subjects.cluster import Member, Session
from raftsched.core.tables import ReadView, Table, from_u64
from raftsched.errors import NoLeader
from raftsched.handlers import KINDS
from raftsched.output.keeping.output_rules import OutputRules
from raftsched.worker.ports import Applied
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.session.kept_ends import KeptEnds
from raftsched.worker.session.own_node import OwnNode
from raftsched.worker.session.worker import Worker
from raftsched.worker.tasks.permits import Permits

WALL_MS = 1_800_000_000_000
BOOT_MS = 5_000_000
GRACE_MS = 3_000
NODE = "n1"


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            assert timeout is not None, "nothing will ever happen again"
            self.now += max(timeout, 0)
        return events


def run_jumping(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs it in an event loop whose clock jumps."""
    selector = _JumpingSelector()

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: selector.now  # type: ignore[method-assign]
        return loop

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def run(body: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = World()
        await world.worker.start()
        try:
            await body(world)
        finally:
            await world.worker.stop()

    run_jumping(main)


class Tables:
    """core.tables.View in memory."""

    def __init__(self) -> None:
        self._rows: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self._keys: dict[Table, list[bytes]] = {table: [] for table in Table}

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self._rows[table].get(key)

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        if key not in self._rows[table]:
            insort(self._keys[table], key)
        self._rows[table][key] = value

    def delete(self, table: Table, key: bytes) -> bool:
        if self._rows[table].pop(key, None) is None:
            return False
        self._keys[table].remove(key)
        return True

    def scan(
        self, table: Table, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        keys = self._keys[table]
        picked = keys[bisect_left(keys, low) : len(keys) if high is None else bisect_left(keys, high)]
        for key in reversed(picked) if reverse else picked:
            yield key, self._rows[table][key]

    def count(self, table: Table) -> int:
        return len(self._rows[table])


class LoopClock:
    """The loop's time; `jump` moves it without running any timer, as for a machine or process that was stopped."""

    def __init__(self) -> None:
        self._jumped = 0

    def jump(self, ms: int) -> None:
        self._jumped += ms

    def _ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000) + self._jumped

    def wall_ms(self) -> int:
        return WALL_MS + self._ms()

    def monotonic(self) -> float:
        return self._ms() / 1000

    def boot_ms(self) -> int:
        return BOOT_MS + self._ms()


class FakeRaft:
    """A cluster whose entries commit at once, while `reachable`."""

    def __init__(self, tables: Tables, clock: LoopClock) -> None:
        self._tables = tables
        self._clock = clock
        self._index = 0
        self._seq = 0
        self._subscribers: list[Callable[[Sequence[Applied]], None]] = []
        self._handlers: dict[str, Callable[[str, bytes], None]] = {}
        self.leader_id: str | None = "n2"
        self.reachable = True
        self.sent: list[tuple[str, str, bytes]] = []
        self.on_heartbeat: Callable[[int, bool, int], None] = lambda session, holds, sent_ms: None
        self.proposed: list[Command] = []  # by the worker

    def commit(self, *commands: Command, quiet: bool = False) -> list[Answer]:
        """As from anybody. `quiet`: nobody is told, as when the state comes by a snapshot."""
        return self._commit([encode(command) for command in commands], quiet)

    def _commit(self, commands: Sequence[bytes], quiet: bool = False) -> list[Answer]:
        self._index += 1
        self._seq += 1
        data = encode_entry(self._clock.wall_ms(), [(1, self._seq, commands)])
        result: EntryResult = apply_entry(self._tables, self._index, 1, data)
        if not quiet:
            for subscriber in self._subscribers:
                subscriber([result])
        answers = result.batches[0].answers
        assert answers is not None
        return answers

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        await asyncio.sleep(0.001)
        if not self.reachable:
            raise NoLeader
        self.proposed += [decode(raw) for raw in commands]
        return self._commit(commands)

    def submit(self, commands: Sequence[bytes]) -> None:
        self.proposed += [decode(raw) for raw in commands]
        if self.reachable:
            self._commit(commands)

    def subscribe(self, on_applied: Callable[[Sequence[Applied]], None]) -> None:
        self._subscribers.append(on_applied)

    def forget_subscribers(self) -> None:
        self._subscribers.clear()

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        self.sent.append((peer, kind, payload))
        if kind == "heartbeat":
            session, holds, sent_ms, *_ = msgspec.msgpack.decode(payload)
            self.on_heartbeat(session, holds, sent_ms)
        return True

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None:
        self._handlers[kind] = handler

    def grant(self, session: int, sent_ms: int, d_ms: int) -> None:
        self._handlers["grant"]("n2", msgspec.msgpack.encode((session, sent_ms, d_ms)))

    def deliver(self, kind: str, payload: bytes) -> None:
        self._handlers[kind]("n2", payload)


class FakeRunner:
    def __init__(self) -> None:
        self.on_started: Callable[[int, int], None] = lambda token, at_ms: None
        self.on_ended: Callable[[int, RunEnd], None] = lambda token, end: None
        self.on_self_report: Callable[[int, SelfReport], None] = lambda token, said: None
        self.on_died: Callable[[], None] = lambda: None
        self.events: list[tuple[Any, ...]] = []
        self.launched: dict[int, RunSpec] = {}
        self.killed: list[int] = []
        self.lease = (0, 0)
        self.fenced = asyncio.Event()  # cleared: fences wait
        self.fenced.set()
        self.moving = True
        self.stopping: Callable[[], Coroutine[Any, Any, Any]] | None = None  # what stop waits for

    async def start(self) -> None:
        self.events.append(("start",))

    async def stop(self) -> None:
        if self.stopping is not None:
            await self.stopping()
        self.events.append(("stop",))

    def moves(self, within_ms: int) -> bool:
        return self.moving

    def ping(self) -> None:
        pass

    def launch(self, spec: RunSpec) -> None:
        assert spec.token not in self.launched, f"token {spec.token} launched twice"
        self.launched[spec.token] = spec
        self.events.append(("launch", spec.token))

    def kill(self, token: int, reason: str = "") -> None:
        self.killed.append(token)

    def wind_down(self, grace_ms: int) -> None:
        self.events.append(("wind down", grace_ms))

    def set_lease(self, session: int, deadline_boot_ms: int) -> None:
        self.lease = (session, deadline_boot_ms)

    async def fence(self) -> None:
        self.events.append(("fence",))
        await self.fenced.wait()


class World:
    def __init__(self, boot_id: str = "boot-1") -> None:
        self.seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {self.seed}")  # shown when the test fails
        self.clock = LoopClock()
        self.tables = Tables()
        self.raft = FakeRaft(self.tables, self.clock)
        self.runner = FakeRunner()
        self.d_ms: int | None = 5_000  # what each heartbeat is granted; None: nothing
        self.store_moves = True
        self.raft.on_heartbeat = self._on_heartbeat
        self.raft.commit(Form(b"c", (Member("n1", "h:1", b"1"), Member("n2", "h:2", b"2"))), OpenLeadership(1, "n2"))
        self.kept_ends: KeptEnds | None = None
        self.worker = self._make(boot_id)

    def _make(self, boot_id: str) -> Worker:
        self.own = OwnNode(
            raft=self.raft,
            read=self.read,
            clock=self.clock,
            opening=OpenSession(NODE, 0, boot_id, b"", 4, handlers=KINDS, limits_whole_runs=True),
            rng=random.Random(self.seed),
            permits=Permits(),
            store_moves=lambda: self.store_moves,
            output_rules=OutputRules(self.read),
        )
        return Worker(
            name=NODE,
            link=self.own,
            clock=self.clock,
            runner=self.runner,
            grace_ms=GRACE_MS,
            kept_ends=self.kept_ends,
        )

    async def start_again(self, boot_id: str = "boot-1") -> None:
        """In another process, after the one before was killed or has stopped."""
        self.raft.forget_subscribers()
        await self.worker._close()
        if self.worker._tick_timer is not None:
            self.worker._tick_timer.cancel()
        self.runner = FakeRunner()
        self.worker = self._make(boot_id)
        await self.worker.start()

    @contextmanager
    def read(self) -> Iterator[ReadView]:
        yield self.tables

    def _on_heartbeat(self, session: int, holds: bool, sent_ms: int) -> None:
        if self.d_ms is not None:
            self.raft.grant(session, sent_ms, self.d_ms)

    async def until(self, true: Callable[[], Any], seconds: float = 60) -> None:
        """Lets time pass until this holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not true():
            assert loop.time() < end, "it did not come to pass"
            await asyncio.sleep(0.01)

    async def failed(self, key: bytes) -> None:
        await self.until(lambda: self.instance(key).state is InstanceState.FAILED)

    async def leased(self) -> int:
        """Until the worker holds its lease; returns the session."""
        await self.until(lambda: self.worker.holds_lease)
        return self.worker.session

    def session(self) -> Session:
        """The node's newest."""
        number = self.tables.get(Table.NODES, NODE.encode())
        assert number is not None
        row = self.tables.get(Table.SESSIONS, number)
        assert row is not None
        return msgspec.msgpack.decode(row, type=Session)

    def session_number(self) -> int:
        number = self.tables.get(Table.NODES, NODE.encode())
        return from_u64(number) if number is not None else 0

    def job(self, body: bytes = b'{"handler":{"exec":["true"]}}', **policy: Any) -> int:
        """Creates a manual job; returns its id."""
        content = Policy(trigger=Trigger(kind=TriggerKind.MANUAL), overlap=Overlap.ALLOW, **policy)
        (answer,) = self.raft.commit(CreateJob("default", None, content, body))
        assert isinstance(answer, Accepted)
        assert answer.job is not None
        return answer.job.id

    def ready(self, job_id: int, request: int = 1, params: bytes | None = None) -> bytes:
        """A run of it that waits for a worker; returns the instance key."""
        (answer,) = self.raft.commit(RunNow(job_id, request, params))
        assert isinstance(answer, Accepted)
        assert answer.instance is not None
        return answer.instance

    def assign(self, key: bytes, session: int, *, quiet: bool = False) -> int:
        """Returns the token."""
        (answer,) = self.raft.commit(Assign(key, session), quiet=quiet)
        assert isinstance(answer, Accepted), answer
        assert answer.number is not None
        return answer.number

    def instance(self, key: bytes) -> Instance:
        row = self.tables.get(Table.INSTANCES, key)
        assert row is not None
        return msgspec.msgpack.decode(row, type=Instance)

    def end(self, token: int, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        """The run is over."""
        self.runner.on_ended(token, RunEnd(outcome=outcome, started_at_ms=WALL_MS, ended_at_ms=self.clock.wall_ms()))
