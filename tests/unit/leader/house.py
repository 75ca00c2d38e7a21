"""One leader over a world in memory, with a clock of its own and a Raft room that answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from raftsched.core import commands as c
from raftsched.core.commands import Answer, Command
from raftsched.core.entry import EntryResult, encode_entry
from raftsched.core.levels import newest_level
from raftsched.core.model import Policy
from raftsched.core.rules.executors import worker_key
from raftsched.core.subjects.checking import Check
from raftsched.core.subjects.checking import decode as decode_check
from raftsched.core.subjects.leasing import WorkerBeat, WorkerBeats
from raftsched.core.subjects.leasing import encode as encode_beats
from raftsched.core.tables import Table
from raftsched.errors import RaftschedError
from raftsched.leader.dispatch.placement import NodeLoad, candidates, choose
from raftsched.leader.leader import Leader
from tests.support.clock import BOOT_MS, ManualClock
from tests.support.memory_view import T0, MemoryView, World

TTL = 5_000


class View(MemoryView):
    applied_index = 0


def place(nodes: Iterable[NodeLoad], policy: Policy, avoid: str = "") -> NodeLoad | None:
    """Who is given it."""
    return choose(candidates(nodes, policy, "default"), avoid, policy.prefer)


class House:
    """A Raft that applies what is proposed at once, unless told otherwise."""

    node_id = "n1"

    def __init__(self, level: int = newest_level(), **limits: Any) -> None:
        self.clock = ManualClock(T0)
        self.world = World(View(), level=level)
        self.term = 1
        self.leading = False
        self.proposed: list[list[Command]] = []
        self.brought: list[c.PromoteDue] = []  # proposed too, one by one: each leadership begins so
        self.sent: list[tuple[str, tuple[int, int, int]]] = []
        self.checks: list[tuple[str, Check]] = []  # whom it asked to look at conditions
        self.stepped_down = 0
        self.handed_to: list[str | None] = []
        self.ahead = 0  # of the time that the leader before showed, ms
        self.offsets: list[int | None] = [0, 0]
        self.remeasured: list[int | None] = [0, 0]  # what the others' clocks say after ours was set
        self.turn_age = 0
        self.trusted = 0
        self.quorum: int | None = BOOT_MS
        self.connections: dict[str, int] = {}
        self.fail: RaftschedError | None = None
        self.apply_though_failing = False
        self.stuck: asyncio.Event | None = None
        self.on_read: Callable[[], None] | None = None
        self.seq = 0
        self.leader = Leader(self, self.read, self.clock, **limits)

    # ------------------------------------------------------------ the facade

    @contextmanager
    def read(self) -> Iterator[Any]:
        self.world.view.applied_index = self.world.index
        yield self.world.view
        if self.on_read is not None:
            self.on_read()

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        decoded = [c.decode(raw) for raw in commands]
        if isinstance(decoded[0], c.PromoteDue):
            self.brought.append(decoded[0])
        else:
            self.proposed.append(decoded)
        await asyncio.sleep(0)
        if self.stuck is not None:
            await self.stuck.wait()
        if self.fail is not None and not self.apply_though_failing:
            raise self.fail
        result = self.commit(commands)
        if self.fail is not None:
            raise self.fail
        answers = result.batches[0].answers
        assert answers is not None
        return answers

    def commit(self, commands: Sequence[bytes], *, tell: bool = True) -> EntryResult:
        self.seq += 1
        self.world.now = self.clock.wall
        result = self.world.entry(encode_entry(self.clock.wall, [(3, self.seq, list(commands))]))
        if tell:
            self.leader.on_applied([result])
        return result

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        if kind == "check":
            self.checks.append((peer, decode_check(payload)))
            return True
        if kind == "worker_grants":
            return True
        assert kind == "grant"
        session, sent_ms, granted, _ = msgspec.msgpack.decode(payload, type=tuple[int, int, int, bool])
        self.sent.append((peer, (session, sent_ms, granted)))
        return True

    def connection(self, peer: str) -> int | None:
        return self.connections.get(peer)

    def quorum_sent_at_ms(self) -> int | None:
        return self.quorum

    def clock_offsets_ms(self) -> list[int | None]:
        return list(self.offsets)

    def measure_clocks_again(self) -> None:
        self.offsets = list(self.remeasured)

    def clock_ahead_ms(self) -> int:
        return self.ahead

    def trust_clock(self, ahead_of_boot_ms: int) -> None:
        self.trusted += 1

    def write_age_ms(self) -> int:
        return self.turn_age

    def step_down(self) -> None:
        self.stepped_down += 1

    async def transfer(self, to: str | None = None, timeout: float = 10.0) -> str:
        self.handed_to.append(to)
        if self.fail is not None:
            raise self.fail
        return to or ""

    # ------------------------------------------------------------ the test's hands

    def do(self, command: Command) -> c.Accepted:
        """Somebody else's command, through the log."""
        answers = self.commit([c.encode(command)]).batches[0].answers
        assert answers is not None
        assert isinstance(answers[0], c.Accepted), answers[0]
        return answers[0]

    def create(self, trigger: Any, **fields: Any) -> int:
        from tests.support.memory_view import policy

        job = self.do(c.CreateJob("d", None, policy(trigger, **fields), b"{}")).job
        assert job is not None
        return job.id

    def session(self, node: str = "n2", slots: int = 100) -> int:
        raw = self.world.view.get(Table.NODES, node.encode())
        replaces = 0 if raw is None else int.from_bytes(raw, "big")
        number = self.do(c.OpenSession(node, replaces, "b", b"", slots)).number
        assert number is not None
        return number

    def worker(self, name: str = "w1", slots: int = 100) -> int:
        """Returns a new session of a remote worker."""
        number = self.do(c.OpenWorker(worker_key(name), 0, b"n" * 16, slots)).number
        assert number is not None
        return number

    def worker_beats(self, *sessions: int, node: str = "n2", left: tuple[tuple[int, int], ...] = ()) -> None:
        """A node passes on polls of these sessions, and says which have none open any more."""
        self.quorum = self.clock.boot
        beats = tuple(WorkerBeat(session, 1) for session in sessions)
        self.leader.on_worker_beats(node, encode_beats(WorkerBeats(beats, left)))

    def lead(self) -> None:
        self.leading = True
        self.quorum = self.clock.boot
        self.leader.on_role()
        assert self.leader.established

    def beat(self, session: int, node: str = "n2", *, holds: bool = True) -> None:
        self.quorum = self.clock.boot
        self.leader.on_heartbeat(node, msgspec.msgpack.encode((session, holds, 77, self.clock.wall)))

    async def tick(self) -> float:
        state = self.leader.current
        assert state is not None
        delay = state.tick()
        await self.quiet()
        return delay

    async def quiet(self) -> None:
        """Until nothing is on its way any more (or all of it is stuck)."""
        for _ in range(200):
            await asyncio.sleep(0)
            if not self.leader._tasks:
                return

    async def until(self, done: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if done():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came to that")

    async def until_idle(self, ticks: int = 200) -> None:
        for _ in range(ticks):
            if await self.tick() > 0 and not self.leader._tasks:
                return

    def commands(self, kind: type) -> list[Any]:
        return [command for batch in self.proposed for command in batch if isinstance(command, kind)]


def play(scene: Callable[[House], Coroutine[Any, Any, None]], **limits: Any) -> House:
    house = House(**limits)

    async def run() -> None:
        await scene(house)
        await house.leader.stop()

    asyncio.run(run())
    return house
