"""A worker among fakes: the real apply over tables in memory, a leader played by the test, time that only jumps.

`World` is what a test does to a worker and sees of it, whichever way it reaches its cluster: node_world.py has a node's
own worker, tests/unit/remote/polls_world.py a remote one. Nothing sleeps: the event loop's clock jumps to the next
timer when nothing else is to be done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from raftsched.core.apply import apply_entry
from raftsched.core.commands import (
    Accepted,
    Answer,
    Assign,
    Command,
    CreateJob,
    Ended,
    Form,
    OpenLeadership,
    RunNow,
    SelfReport,
    decode,
    encode,
)
from raftsched.core.entry import EntryResult, encode_entry
from raftsched.core.model import (
    Attempt,
    Instance,
    InstanceState,
    Outcome,
    OutputRef,
    Overlap,
    Policy,
    Trigger,
    TriggerKind,
)
from raftsched.core.rows import decode_instance, newest_session
from raftsched.core.subjects.cluster import Member, Session
from raftsched.core.subjects.leasing import Heartbeat, WorkerBeat
from raftsched.core.tables import ReadView, Table
from raftsched.errors import NoLeader
from raftsched.worker.ports import Applied
from raftsched.worker.processes.runner import RunEnd, RunSpec
from raftsched.worker.session.kept_ends import KeptEnds
from raftsched.worker.session.link import Link
from raftsched.worker.session.worker import Worker
from tests.support.memory_view import MemoryView

WALL_MS = 1_800_000_000_000
BOOT_MS = 5_000_000
GRACE_MS = 3_000
STORE = b"store"
OUTPUT = OutputRef(1, 2, 3, b"d" * 32)
TRUE = b'{"handler":{"exec":["true"]}}'

Tables = MemoryView


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
        self.on_sent: Callable[[str, bytes], None] = lambda kind, payload: None
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

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        self.sent.append((peer, kind, payload))
        self.on_sent(kind, payload)
        return True

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None:
        self._handlers[kind] = handler

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
        self.leases = [(0, 0)]  # all that it was given
        self.fenced = asyncio.Event()  # cleared: fences wait
        self.fenced.set()
        self.moving = True
        self.stopping: Callable[[], Coroutine[Any, Any, Any]] | None = None  # what stop waits for

    @property
    def lease(self) -> tuple[int, int]:
        return self.leases[-1]

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
        self.leases.append((session, deadline_boot_ms))

    async def fence(self) -> None:
        self.events.append(("fence",))
        await self.fenced.wait()


class Given(NamedTuple):
    """A run that the worker's session was given."""

    key: bytes
    token: int


class World:
    name: str
    key: str  # of it in the tables
    ttl_ms: int
    output: OutputRef  # that the log has of a run which was ended with OUTPUT

    def __init__(self, directory: Path) -> None:
        self.seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {self.seed}")  # shown when the test fails
        self.directory = directory
        self.clock = LoopClock()
        self.form()
        self.grant_ms: int | None = self.ttl_ms  # of the lease, each time it is asked for; None: nothing
        self.answers = asyncio.Event()  # cleared: whoever asks for the lease waits for the answer
        self.answers.set()
        self.asked: list[int] = []  # when it was asked for (boot ms)
        self.kept = directory / "ends"
        self.make("boot-1")

    def form(self) -> None:
        """A cluster in which nothing has happened yet."""
        self.tables = Tables()
        self.raft = FakeRaft(self.tables, self.clock)
        self.raft.on_sent = self._on_sent
        self.raft.commit(Form(b"c", (Member("n1", "h:1", b"1"), Member("n2", "h:2", b"2"))), OpenLeadership(1, "n2"))

    def make(self, boot: str) -> Worker:
        """A worker of another process. `boot`: that of its machine."""
        self.runner = FakeRunner()
        self.worker = Worker(
            name=self.name,
            link=self._link(boot),
            clock=self.clock,
            runner=self.runner,
            grace_ms=GRACE_MS,
            kept_ends=KeptEnds(self.kept, STORE),
        )
        return self.worker

    def _link(self, boot: str) -> Link:
        raise NotImplementedError

    def close(self) -> None:
        """The test is over, and the worker has stopped."""

    def _on_sent(self, kind: str, payload: bytes) -> None:
        """The leader gets a message."""
        raise NotImplementedError

    def beats(self) -> Sequence[Heartbeat | WorkerBeat]:
        """What the leader has heard of the worker."""
        raise NotImplementedError

    def see_again(self) -> None:
        """The worker is shown once more what its session was given."""
        raise NotImplementedError

    @contextmanager
    def read(self) -> Iterator[ReadView]:
        yield self.tables

    # ------------------------------------------------------------ what befalls the worker

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """It reaches nobody."""
        self.raft.reachable = False
        yield
        self.raft.reachable = True

    @contextmanager
    def answers_late(self) -> Iterator[None]:
        self.answers.clear()
        yield
        self.answer_all()

    def answer_all(self) -> None:
        self.answers.set()

    def die(self) -> None:
        """Its process is killed."""
        worker = self.worker
        worker._stopping = True
        if worker._opener is not None:
            worker._opener.cancel()
        for timer in (worker._tick_timer, worker._flush_timer):
            if timer is not None:
                timer.cancel()
        worker.lease.lapse()
        worker._link.lapsed()

    async def start_again(self, boot: str = "boot-1") -> None:
        """In another process, after the one before was killed or has stopped."""
        self.die()
        await self.make(boot).start()

    def begin(self, token: int) -> None:
        self.runner.on_started(token, self.clock.wall_ms())

    def end(self, token: int, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
        """The run is over."""
        now = self.clock.wall_ms()
        self.runner.on_ended(token, RunEnd(**{"outcome": outcome, "started_at_ms": now, "ended_at_ms": now} | fields))

    # ------------------------------------------------------------ what the cluster does

    def job(self, body: bytes = TRUE, **policy: Any) -> int:
        """Creates a manual job; returns its id."""
        content = Policy(trigger=Trigger(kind=TriggerKind.MANUAL), overlap=Overlap.ALLOW, **policy)
        job = self.accepted(CreateJob("default", None, content, body)).job
        assert job is not None
        return job.id

    def ready(self, job: int, params: bytes | None = None) -> bytes:
        """A run of it that waits for a worker; returns the instance key."""
        key = self.accepted(RunNow(job, random.randrange(1 << 60), params)).instance
        assert key is not None
        return key

    def assign(self, key: bytes, *, quiet: bool = False) -> Given:
        token = self.accepted(Assign(key, self.session().id), quiet=quiet).number
        assert token is not None
        return Given(key, token)

    def give(self, body: bytes = TRUE, params: bytes | None = None, *, quiet: bool = False, **policy: Any) -> Given:
        return self.assign(self.ready(self.job(body, **policy), params), quiet=quiet)

    def accepted(self, command: Command, *, quiet: bool = False) -> Accepted:
        (answer,) = self.raft.commit(command, quiet=quiet)
        assert isinstance(answer, Accepted), answer
        return answer

    # ------------------------------------------------------------ what comes of it

    async def until(self, true: Callable[[], Any], seconds: float = 60) -> None:
        """Lets time pass until this holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not true():
            assert loop.time() < end, "it did not come to pass"
            await asyncio.sleep(0.005)

    async def leased(self) -> int:
        """Until the worker holds its lease; returns the session."""
        await self.until(lambda: self.worker.holds_lease)
        return self.worker.session

    async def lapsed(self) -> None:
        await self.until(lambda: not self.worker.session)
        assert self.runner.lease == (0, 0)

    async def launched(self, *given: Given) -> None:
        await self.until(lambda: self.runner.launched.keys() >= {one.token for one in given})

    async def running(self, count: int = 1, **policy: Any) -> list[Given]:
        """So many runs, which were started."""
        await self.leased()
        given = [self.give(**policy) for _ in range(count)]
        await self.launched(*given)
        return given

    async def settled(self) -> None:
        await self.until(lambda: not self.worker.running)

    def instance(self, given: Given) -> Instance:
        row = self.tables.get(Table.INSTANCES, given.key)
        assert row is not None
        return decode_instance(row)

    def state(self, given: Given) -> InstanceState:
        return self.instance(given).state

    async def becomes(self, given: Given, state: InstanceState) -> Attempt | None:
        """Returns its last attempt that has ended."""
        await self.until(lambda: self.state(given) is state)
        return next(reversed(self.instance(given).attempts), None)

    def was_lost(self, given: Given) -> bool:
        return self.instance(given).lost > 0

    def session(self) -> Session:
        """The worker's newest."""
        _, row = newest_session(self.tables, self.key)
        assert row is not None
        return row

    def is_open(self) -> bool:
        """Whether it has a session, as the log says."""
        _, row = newest_session(self.tables, self.key)
        return row is not None and row.open

    def proposed(self, kind: type[Any] = Ended) -> list[Any]:
        return [command for command in self.raft.proposed if isinstance(command, kind)]


async def _at_once(work: Callable[..., Any], *given: Any) -> Any:
    return work(*given)


@asynccontextmanager
async def started(world: Callable[[], World]) -> AsyncIterator[Any]:
    """A world with a worker, of which nothing is left."""
    made = world()
    with patch.object(asyncio, "to_thread", _at_once):  # time jumps where nothing is waited for, and a thread would be
        await made.worker.start()
        try:
            yield made
        finally:
            await made.worker.stop()
            made.close()
