"""One member, without sockets, threads or timers of its own: everything comes in as calls and goes out through Links.

The facade gives it an event loop; the tests give it a network of their own making and virtual time.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from raftsched.clock import Clock
from raftsched.core.commands import ClusterFormed, Form, OpenLeadership, encode
from raftsched.core.entry import EntryResult, encode_entry
from raftsched.core.model import Meta
from raftsched.core.tables import Table
from raftsched.errors import NoLeader, RaftschedError
from raftsched.raft import codec
from raftsched.raft.engine import Engine
from raftsched.raft.formation import Formation
from raftsched.raft.guards import Guards
from raftsched.raft.journal import Journal
from raftsched.raft.options import RaftOptions
from raftsched.raft.proposals import Intake, Proposer, Reply
from raftsched.raft.snapshots import Receiver, Sender
from raftsched.raft.turns import Action, TurnDriver, Writer
from raftsched.store import SnapshotMeta, Store, TurnResult

log = logging.getLogger(__name__)

CLOCK_JUMP_MS = 500  # a wall clock that moved this far against the boot clock was set by somebody
SUBMIT_TTL_MS = 30_000  # how long a proposal nobody waits for is sent again
_PROPOSE_BYTES = 2 * 1024 * 1024  # of batches in one message to the leader

_ENGINE = (
    codec.Append,
    codec.AppendAnswer,
    codec.VoteRequest,
    codec.VoteAnswer,
    codec.PreVoteRequest,
    codec.PreVoteAnswer,
    codec.Ping,
    codec.Pong,
    codec.TimeoutNow,
)

OnApplied = Callable[[list[EntryResult]], None]


class Links(Protocol):
    """The way to the other members."""

    def send(self, peer: str, frame: codec.Frame) -> bool:
        """False: not connected. Order is kept as long as the connection lives."""

    def wake(self) -> None:
        """Asks for a call of `pump` once the events at hand are dealt with."""


class Replica:
    """Engine, journal, turns, proposals, formation and snapshots of one member."""

    def __init__(
        self,
        *,
        store: Store,
        node_id: str,
        peers: dict[str, str],
        http: str,
        links: Links,
        clock: Clock,
        rng: random.Random,
        options: RaftOptions,
        guards: Guards,
        writer: Writer,
        side: Writer,
        snapshot_dir: Path,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.node_id = node_id
        self.options = options
        self.guards = guards
        self.formation = Formation(node_id, peers, http, rng, guards)
        self._first_records = self.formation.load(store.local, self._read_meta(store))
        self.journal = Journal(store, options, guards)
        members = [member for member in self.formation.members if member != node_id]
        self.engine = Engine(node_id, members, self, self.journal, store.hard_state(), clock, rng, options, guards)
        self.driver = TurnDriver(
            store, self.journal, writer, guards, clock, on_turn=self._on_turn, on_fatal=self._fatal
        )
        self.proposer = Proposer(rng.getrandbits(63) or 1, options)
        self.intake = Intake(options)
        self.sender = Sender(
            store,
            snapshot_dir,
            side,
            clock,
            options,
            guards,
            send=links.send,
            failed=self.engine.snapshot_failed,
            pin=self._pin,
        )
        self.receiver = Receiver(snapshot_dir, side, guards, complete=self._install, send=links.send)
        self.leading = False
        self._trusted_ms: int | None = None  # wall clock minus boot clock, when this leadership last trusted it
        self.stopped = False
        self.connections: dict[str, int] = {}  # peer -> number of its newest connection
        self._store = store
        self._links = links
        self._clock = clock
        self._rng = rng
        self._writer = writer
        self._on_fatal = on_fatal
        self._on_applied: list[OnApplied] = []
        self._on_role: list[Action] = []
        self._role: tuple[int, str | None, bool] = (self.engine.term, None, False)
        self._route: tuple[str | None, int, int] = (None, 0, 0)
        self._retry_at: float | None = None
        for name, value in self._first_records.items():
            self.journal.put_local(name, value)

    @staticmethod
    def _read_meta(store: Store) -> Meta:
        with store.read() as view:
            raw = view.get(Table.META, b"meta")
        return Meta() if raw is None else msgspec.msgpack.decode(raw, type=Meta)

    # ------------------------------------------------------------ the engine's host

    def send(self, peer: str, frame: codec.Frame) -> bool:
        return self._links.send(peer, frame)

    def hold(self, action: Action) -> None:
        self.driver.hold(partial(self._safely, action))

    def may_vote(self) -> bool:
        return self.formation.armed or not self.guards.wiped_disk_refused

    def opening(self, term: int) -> bytes:
        """The leadership's first entry; the cluster's first one also forms it."""
        commands = [encode(OpenLeadership(epoch=term, leader=self.node_id))]
        if not self.formation.formed:
            commands.append(encode(Form(self._rng.randbytes(16), self.formation.member_rows())))
        self._trusted_ms = None
        return encode_entry(self._stamp_ms(), [(self._rng.getrandbits(63) or 1, 1, commands)])

    # ------------------------------------------------------------ the log's time

    def trust_clock(self) -> None:
        """The wall clock of this moment was compared with the others'."""
        self._trusted_ms = self._clock.wall_ms() - self._clock.boot_ms()

    def _stamp_ms(self) -> int:
        """The time of a new entry. After a jump the wall clock goes on from where it was until it is trusted again."""
        wall, boot = self._clock.wall_ms(), self._clock.boot_ms()
        if self._trusted_ms is not None and abs(wall - boot - self._trusted_ms) > CLOCK_JUMP_MS:
            return boot + self._trusted_ms
        return wall

    def need_snapshot(self, peer: str) -> None:
        log.info("%s needs a snapshot: its next entry is compacted away", peer)
        self.sender.begin(peer, self.engine.term, self.journal.applied_index, self.journal.first_index)

    def _pin(self, index: int | None) -> None:
        self.journal.pinned_index = index

    # ------------------------------------------------------------ input

    def hello(self) -> codec.Hello:
        """How this node introduces itself now."""
        return self.formation.hello(self.journal.last_index == 0 and self.engine.term == 0)

    def connected(self, hello: codec.Hello, connection: int) -> None:
        """A peer that was not refused; its older connection, if any, counts no more."""
        self._safely(partial(self._connected, hello, connection))

    def _connected(self, hello: codec.Hello, connection: int) -> None:
        self.connections[hello.node] = connection
        self._known(hello)
        self.sender.finished(hello.node)
        self.engine.connected(hello.node)

    def disconnected(self, peer: str, connection: int) -> None:
        if self.connections.get(peer) == connection:
            del self.connections[peer]
            self._safely(partial(self._disconnected, peer))

    def _disconnected(self, peer: str) -> None:
        self.formation.disconnected(peer)
        self.engine.disconnected(peer)
        self.sender.finished(peer)

    def receive(self, peer: str, connection: int, frame: codec.Frame) -> None:
        """A frame of a connection; those of older connections are dropped."""
        if self.guards.old_connections_dropped and self.connections.get(peer) != connection:
            return
        self._safely(partial(self._receive, peer, frame))

    def _receive(self, peer: str, frame: codec.Frame) -> None:
        if isinstance(frame, _ENGINE):
            self.engine.receive(peer, frame)
            if isinstance(frame, codec.AppendAnswer) and not self.engine.takes_snapshot(peer):
                self.sender.finished(peer)
            return
        match frame:
            case codec.Propose():
                self._on_propose(peer, frame)
            case codec.ProposeRefused():
                if frame.term == self.engine.term:
                    self._retry_at = self._clock.monotonic() + self.options.heartbeat_ms / 1000
            case codec.SnapshotChunk():
                self._on_chunk(peer, frame)
            case codec.SnapshotAnswer():
                self.sender.answered(peer, frame)
            case codec.Hello() if frame.node == peer:
                self._known(frame)
            case _:
                log.warning("%s sent a %s out of place", peer, type(frame).__name__)

    def tick(self) -> None:
        """Looks at all timers; to be called every options.tick_ms."""
        self._safely(self._tick)

    def _tick(self) -> None:
        now = self._clock.monotonic()
        self.engine.tick()
        self.sender.tick()
        self.proposer.expire(now)
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self.proposer.rerouted()

    def propose(self, commands: Sequence[bytes], deadline: float, reply: Reply | None) -> None:
        """`deadline` in monotonic seconds. Raises Overloaded, NoLeader when stopped, RaftschedError("too-large")."""
        if self.stopped:
            raise NoLeader("This node has stopped.")
        if self.guards.contain_callback_errors and reply is not None:
            reply = partial(_contained, reply)
        self.proposer.add(commands, deadline, reply)
        self._links.wake()

    def submit(self, commands: Sequence[bytes]) -> None:
        """The same without an answer. Raises Overloaded."""
        if not self.stopped:
            self.propose(commands, self._clock.monotonic() + SUBMIT_TTL_MS / 1000, None)

    def step_down(self) -> None:
        self._safely(self.engine.step_down)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._on_applied.append(on_applied)

    def subscribe_role(self, on_role: Action) -> None:
        self._on_role.append(on_role)

    def stop(self) -> None:
        """Takes no part any more; who waits gets an answer."""
        self.stopped = True
        self.driver.stopped = True
        self.sender.cancel()
        self.receiver.discard()
        self.proposer.stop(NoLeader("This node is stopping."))

    # ------------------------------------------------------------ the end of a loop iteration

    def pump(self) -> None:
        """Forms an entry, sends, starts a turn: whatever is due after the events at hand."""
        self._safely(self._pump, wake=False)

    def _pump(self) -> None:
        self._follow_role()
        self._forward()
        engine = self.engine
        if not self.driver.busy and self.intake and engine.is_leader:
            engine.append(encode_entry(self._stamp_ms(), self.intake.take()))
        if engine.is_leader:
            engine.replicate(more_soon=bool(self.intake))
        if self.driver.pump() and not self.driver.busy:
            self._links.wake()  # it ran at once

    def _follow_role(self) -> None:
        engine = self.engine
        role = (engine.term, engine.leader_id, engine.is_leader)
        if role == self._role and (engine.is_leader or not self.leading):
            return
        if not engine.is_leader or role[0] != self._role[0]:
            self.leading = False
            self.sender.cancel()
            if self.intake:
                self.intake.clear()
        self._role = role
        self._tell_role()

    def _tell_role(self) -> None:
        for on_role in self._on_role:
            self._call(on_role)

    def _forward(self) -> None:
        """This node's proposals on their way: into the own intake, or to the leader."""
        engine, proposer = self.engine, self.proposer
        leader = engine.leader_id
        if leader is None:
            return
        route = (leader, engine.term, self.connections.get(leader, 0))
        if route != self._route:
            self._route = route
            proposer.rerouted()
        if not proposer.waiting or self._retry_at is not None:
            return
        if leader == self.node_id:
            while proposer.waiting and self.intake.room > 0:
                for batch in proposer.batches(self.intake.room):
                    self.intake.add(batch)
        elif leader in self.connections:
            while proposer.waiting:
                if not self._links.send(leader, codec.Propose(engine.term, proposer.batches(_PROPOSE_BYTES))):
                    break

    def _on_propose(self, peer: str, m: codec.Propose) -> None:
        if not self.engine.is_leader or m.term != self.engine.term or self.intake.room <= 0:
            self._links.send(peer, codec.ProposeRefused(m.term))
            return
        for batch in m.batches:
            self.intake.add(batch)

    # ------------------------------------------------------------ after a turn

    def _on_turn(self, result: TurnResult) -> None:
        self._safely(partial(self._turned, result))

    def _turned(self, result: TurnResult) -> None:
        engine = self.engine
        engine.turn_done()
        led = self.leading
        for entry in result.applied:
            if entry.index == engine.opening_index and entry.term == engine.term and engine.is_leader:
                self.leading = True
            if any(isinstance(action, ClusterFormed) for action in entry.actions):
                self.formation.read_members(self._read_meta(self._store))
            for batch in entry.batches:
                if batch.origin == self.proposer.origin:
                    self.proposer.applied(batch)
        if result.applied:
            self._tell_applied(result.applied)
        if self.leading != led:
            self._tell_role()

    def _tell_applied(self, entries: list[EntryResult]) -> None:
        for on_applied in self._on_applied:
            self._call(partial(on_applied, entries))

    # ------------------------------------------------------------ formation

    def _known(self, hello: codec.Hello) -> None:
        disks = self.formation.connected(hello)
        if disks is None:
            return
        for name, value in self.formation.arm(disks).items():
            self.journal.put_local(name, value)
        self.hold(self._armed)

    def _armed(self) -> None:
        self.formation.armed = True
        hello = self.hello()
        for peer in self.connections:
            self._links.send(peer, hello)

    # ------------------------------------------------------------ snapshots

    def _on_chunk(self, peer: str, m: codec.SnapshotChunk) -> None:
        engine = self.engine
        if m.term < engine.term:
            self._links.send(peer, codec.AppendAnswer(engine.term, 0, False, False))
            return
        engine.follow(peer, m.term)
        if engine.installing:
            return
        if not self._has_snapshot(peer, m.index, m.snapshot_term):
            self.receiver.chunk(peer, m)

    def _has_snapshot(self, peer: str, index: int, term: int) -> bool:
        """True when this node has all that a snapshot holds: its sender is told where to go on."""
        engine, journal = self.engine, self.journal
        if not self.guards.snapshot_never_rewinds:
            return False
        if index > journal.commit_index:
            if journal.term(index) != term:
                return False
            engine.commit_to(index)  # a snapshot holds what is committed, and here is the same entry
        answer = codec.AppendAnswer(engine.term, journal.commit_index + 1, True, False)
        self.hold(lambda: self._answer(peer, answer))
        return True

    def _answer(self, peer: str, frame: codec.Frame) -> None:
        self._links.send(peer, frame)

    def _install(self, peer: str, path: Path, meta: SnapshotMeta) -> None:
        if self._has_snapshot(peer, meta.index, meta.term):  # entries went on while it was on its way
            path.unlink(missing_ok=True)
            return
        self.engine.installing = True

        def job() -> None:
            self._store.install(path, meta)
            path.unlink(missing_ok=True)

        self.driver.exclusive(job, lambda _: self._installed(peer, meta))
        self._links.wake()

    def _installed(self, peer: str, meta: SnapshotMeta) -> None:
        log.info("%s loaded a snapshot of entry %d from %s", self.node_id, meta.index, peer)
        self.journal.reset(meta)
        self.engine.installed(peer)
        self.formation.read_members(self._read_meta(self._store))
        if self.guards.jumped_proposals_answered:
            self.proposer.jumped()
        self._tell_applied([])  # state changed without entries
        self._links.wake()

    # ------------------------------------------------------------ containment

    def _call(self, callback: Callable[[], None]) -> None:
        """A subscriber's exception is its own: consensus goes on."""
        if not self.guards.contain_callback_errors:
            callback()
            return
        try:
            callback()
        except Exception:
            log.exception("a subscriber failed")

    def _safely(self, step: Action, *, wake: bool = True) -> None:
        """An exception in here is a bug or a damaged disk: the node stops rather than go on wrongly."""
        if self.stopped:
            return
        try:
            step()
        except Exception as error:
            self._fatal(error)
        if wake:
            self._links.wake()

    def _fatal(self, error: BaseException) -> None:
        if self.stopped:
            return
        log.critical("%s stops: %s: %s", self.node_id, type(error).__name__, error)
        self.stop()
        self._on_fatal(error)


def _contained(reply: Reply, answers: list[object] | None, error: RaftschedError | None) -> None:
    try:
        reply(answers, error)  # type: ignore[arg-type]
    except Exception:
        log.exception("a caller's reply failed")
