"""One replica by itself, fed with hand-made frames: what it sends is recorded, its clock is moved by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from raftsched.core.commands import RunNow, encode
from raftsched.core.entry import decode_entry, encode_entry
from raftsched.raft import codec, snapshots
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.membership.incarnations import Met
from raftsched.raft.options import RaftOptions
from raftsched.raft.replica import Replica
from tests.support.clock import ManualClock
from tests.support.inline_writer import InlineWriter
from tests.support.raft_store import MemoryStore

START = b"start"  # of every peer
OPTIONS = RaftOptions(election_min_ms=300, election_max_ms=600, heartbeat_ms=50)


class ManualWriter:
    """Jobs wait until `run`: a disk as slow as the test wants."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((job, done))

    def run(self) -> None:
        while self.jobs:
            self.run_one()

    def run_one(self) -> None:
        job, done = self.jobs.pop(0)
        InlineWriter().submit(job, done)


def unique(number: int, size: int = 0) -> bytes:
    """A command that changes nothing and can be told apart from every other one."""
    return encode(RunNow(job_id=number, request=1, params=b"x" * size or None))


def entry(number: int) -> bytes:
    """A log entry with one such command."""
    return encode_entry(1, [(9, number, [unique(number)])])


def numbers(data: bytes) -> list[int]:
    """Which of these commands an entry holds."""
    if not data:
        return []
    return [c.job_id for b in decode_entry(data).batches for c in b.commands if isinstance(c, RunNow)]


class Solo:
    """Node "b" of a, b, c (or of `peers`), connected with all of them, allowed to vote."""

    def __init__(
        self,
        tmp_path: Path,
        guards: Guards = ALL,
        *,
        node: str = "b",
        peers: str = "abc",
        store: MemoryStore | None = None,
        options: RaftOptions = OPTIONS,
        writer: ManualWriter | InlineWriter | None = None,
        side: ManualWriter | InlineWriter | None = None,
        checkpoint_writer: ManualWriter | InlineWriter | None = None,
        is_member: bool = True,
        clock: ManualClock | None = None,
        at: str | None = None,
    ) -> None:
        """`at`: where it is; None: where the others have it."""
        self.node = node
        self.store = store or MemoryStore()
        self.clock = clock or ManualClock()
        self.sent: list[tuple[str, codec.Frame]] = []
        self.fatal: list[BaseException] = []
        self.flushed = 0  # frames sent before the last flush
        self.writing_at_flush = False
        self._awake = False
        self.writer = writer or InlineWriter()
        if is_member and "remembered" not in self.store.own:
            self.store.own["node_id"] = node.encode()
            self.store.own["store_id"] = disk(node)
            self.store.own["remembered"] = msgspec.msgpack.encode({p: disk(p) for p in peers})
            self.store.own["agreed"] = b"1"
            met = {p: Met(disk(p), 1, START) for p in peers if p != node}
            self.store.own["met"] = msgspec.msgpack.encode(met)
        self.replica = Replica(
            store=self.store,  # type: ignore[arg-type]
            node_id=node,
            peers={p: at if at and p == node else f"127.0.0.1:{4000 + ord(p)}" for p in peers},
            http="",
            links=self,
            clock=self.clock,
            rng=random.Random(),
            options=options,
            guards=guards,
            writer=self.writer,
            side=side or InlineWriter(),
            checkpoint_writer=checkpoint_writer or InlineWriter(),
            snapshot_dir=tmp_path,
            on_fatal=self.fatal.append,
        )
        self.engine = self.replica.engine
        self.journal = self.replica.journal
        self.settle()
        if is_member:
            if isinstance(self.writer, ManualWriter):
                self.writer.run()  # this start is on the disk
            for peer in peers:
                if peer != node:
                    self.replica.connected(hello(peer), 1)
        self.settle()

    # ---- Links

    def send(self, peer: str, frame: codec.Frame) -> bool:
        if peer not in self.replica.connections:
            return False
        self.sent.append((peer, codec.decode(codec.payload(frame))))
        return True

    def members_changed(self) -> None:
        self.wake()

    def flush(self) -> None:
        self.flushed = len(self.sent)
        self.writing_at_flush = self.replica.driver.busy

    def wake(self) -> None:
        self._awake = True

    # ---- driving

    @property
    def awake(self) -> bool:
        """A pump was asked for, and has not run."""
        return self._awake

    def settle(self) -> None:
        self._awake = True
        while self._awake:
            self._awake = False
            self.replica.pump()

    def feed(self, peer: str, *frames: codec.Frame, connection: int = 1) -> None:
        for frame in frames:
            self.replica.receive(peer, connection, frame)
            self.settle()

    def pass_time(self, seconds: float) -> None:
        """Ticks every 20 ms."""
        end = self.clock.boot + round(seconds * 1000)
        while self.clock.boot < end:
            self.clock.forward(20)
            self.replica.tick()
            self.settle()

    def lead(self) -> int:
        """Becomes leader with the votes of all; returns the term."""
        self.engine.campaign()
        self.settle()
        term = self.engine.term
        for peer in self.engine.peers:
            self.feed(peer, codec.VoteAnswer(term, True))
        assert self.engine.is_leader
        return term

    def propose(self, *numbers_: int, timeout: float = 5.0) -> list[Any]:
        """Proposes unique commands; the list gets what comes back: answers or an error."""
        got: list[Any] = []
        self.replica.propose(
            [unique(n) for n in numbers_],
            self.clock.monotonic() + timeout,
            lambda answers, error: got.append(error or answers),
        )
        self.settle()
        return got

    def take(self, kind: type, peer: str | None = None) -> list[Any]:
        """Frames of this kind sent since the last call, which are forgotten with all others."""
        found = [f for p, f in self.sent if isinstance(f, kind) and peer in (None, p)]
        self.sent.clear()
        return found

    def log(self) -> list[tuple[int, int]]:
        """(index, term) of all entries that are kept."""
        first = self.journal.first_index
        return [(e.index, e.term) for e in self.journal.entries(first, 1 << 30)]

    def crash(self, tmp_path: Path, guards: Guards = ALL) -> Solo:
        """Kill -9: another replica over what the disk has."""
        self.replica.stopped = True
        self.store.crash()
        snapshots.clear(tmp_path)
        return Solo(tmp_path, guards, node=self.node, store=self.store, clock=self.clock)


def disk(node: str) -> bytes:
    return node.encode() * 16


def hello(node: str, peers: str = "abc", **changes: Any) -> codec.Hello:
    base = codec.Hello(
        protocol=codec.PROTOCOL,
        node=node,
        store_id=disk(node),
        cluster_id=b"",
        formed=False,
        empty=True,
        peers_hash=b"",
        http="",
        remembered={},
        incarnation=1,
        starts=[START],
    )
    return msgspec.structs.replace(base, **changes)


def append(term: int, prev: int, prev_term: int, terms: list[int], commit: int = 0) -> codec.Append:
    """An append whose entries are those of `entry`, numbered by index."""
    entries = [(t, entry(prev + 1 + i)) for i, t in enumerate(terms)]
    return codec.Append(term, prev, prev_term, commit, entries)
