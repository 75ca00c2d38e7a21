"""One member, without sockets, threads or timers of its own: everything comes in as calls and goes out through
Links.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from raftsched.core.actions import ClusterFormed, LevelRaised, MembersChanged
from raftsched.core.commands import Form, OpenLeadership, encode
from raftsched.core.entry import EntryResult, check_level, encode_entry
from raftsched.core.levels import fitted, is_later, newest_level
from raftsched.core.rows import read_meta
from raftsched.core.subjects.cluster import Meta
from raftsched.errors import NoLeader
from raftsched.raft import codec
from raftsched.raft.checkpoints import Checkpoints
from raftsched.raft.consensus.engine import Engine
from raftsched.raft.consensus.journal import Journal
from raftsched.raft.guards import Guards
from raftsched.raft.membership.configuration import Membership
from raftsched.raft.membership.formation import Formation
from raftsched.raft.membership.forming import Forming
from raftsched.raft.membership.peer_set import PeerSet
from raftsched.raft.membership.requests import Done, Request
from raftsched.raft.options import RaftOptions
from raftsched.raft.ports import Links
from raftsched.raft.proposals.forwarding import Forwarding
from raftsched.raft.proposals.proposer import Proposer, Reply, contained
from raftsched.raft.proposals.queue import ProposalQueue
from raftsched.raft.snapshots import Installer, Sender
from raftsched.raft.timestamps import Timestamps
from raftsched.raft.writer import Action, ContainedWriter, WriteDriver, Writer
from raftsched.store import Store
from raftsched.system import background
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

SUBMIT_TTL_MS = 30_000  # a proposal without a reply is sent again for so long

_OF_META = frozenset({ClusterFormed, MembersChanged, LevelRaised})
_ANSWERS = (codec.AppendAnswer, codec.VoteAnswer, codec.PreVoteAnswer, codec.Pong)

OnApplied = Callable[[list[EntryResult]], None]


class Replica:
    """Engine, journal, writes, proposals, formation and snapshots of one member."""

    def __init__(
        self,
        *,
        store: Store,
        node_id: str,
        peers: dict[str, str],
        http: str,
        join: bool = False,
        links: Links,
        clock: Clock,
        rng: random.Random,
        options: RaftOptions,
        guards: Guards,
        writer: Writer,
        side: Writer,
        checkpoint_writer: Writer,
        snapshot_dir: Path,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.node_id = node_id
        self.options = options
        self.guards = guards
        self.formation = Formation(node_id, peers, http, rng, guards, join)
        meta = self._read_meta(store)
        self.level = meta.level  # of the cluster (core.levels), as far as this node has applied the log
        first_records = self.formation.load(store.local, meta)
        self.membership = Membership(node_id, self.formation.applied_members(meta), guards, meta.members_at)
        self.journal = Journal(store, options, guards, self.membership)
        self.engine = Engine(self.membership, self, self.journal, store.hard_state(), clock, rng, options, guards)
        self.timestamps = Timestamps(clock)
        self.driver = WriteDriver(
            store,
            self.journal,
            writer,
            guards,
            clock,
            on_written=self._on_written,
            on_fatal=self._fatal,
            times=self.engine.measures.writes,
        )
        self.proposer = Proposer(rng.getrandbits(63) or 1, options, guards)
        self.queue = ProposalQueue(options)
        side = ContainedWriter(side, self._safely)
        self.checkpoints = Checkpoints(
            store, ContainedWriter(checkpoint_writer, self._safely), clock, on_fatal=self._fatal
        )
        self.sender = Sender(
            store,
            self.journal,
            snapshot_dir,
            side,
            clock,
            options,
            guards,
            send=links.send,
            failed=self.engine.snapshot_failed,
            measures=self.engine.measures,
        )
        self.installer = Installer(
            store,
            self.engine,
            self.journal,
            self.driver,
            snapshot_dir,
            side,
            options,
            guards,
            send=links.send,
            hold=self.hold,
            wake=links.wake,
            installed=self._installed,
        )
        self.leading = False
        self.stopped = False
        self.peer_set = PeerSet(
            self.engine,
            self.formation,
            links,
            self.timestamps,
            clock,
            options,
            guards,
            origin=self.proposer.origin,
            is_leading=lambda: self.leading,
            drop=self._disconnected,
        )
        self.changes = self.peer_set.changes
        self.connections: dict[str, int] = {}  # peer -> number of its newest connection
        self.forwarding = Forwarding(
            self.engine, self.proposer, self.queue, self.peer_set, links, self.connections, clock, options
        )
        self._store = store
        self._links = links
        self._clock = clock
        self._rng = rng
        self._writer = writer
        self._on_fatal = on_fatal
        self._on_applied: list[OnApplied] = []
        self._on_role: list[Action] = []
        self._role: tuple[int, str | None, bool] = (self.engine.term, None, False)
        self._forming = Forming(
            self.formation,
            note=self.journal.put_local,
            hold=self.hold,
            introduce=self._introduce_again,
            may_vote=self.engine.try_soon,
        )
        self._forming.note(first_records)
        if (moved := self.formation.moves.advice) is not None and self.formation.formed:
            log.warning("%s", moved)

    @staticmethod
    def _read_meta(store: Store) -> Meta:
        with store.read() as view:
            return read_meta(view)

    # ------------------------------------------------------------ the engine's host

    def send(self, peer: str, frame: codec.Frame) -> bool:
        if type(frame) is codec.Ping:
            frame = msgspec.structs.replace(frame, taken=self.forwarding.taken(peer))
        return self._links.send(peer, frame)

    def hold(self, action: Action) -> None:
        self.driver.hold(partial(self._safely, action))

    def may_vote(self) -> bool:
        return self.formation.may_vote or not self.guards.wiped_disk_refused

    def opening(self, term: int) -> bytes:
        """Returns the leadership's first entry; the cluster's first one also forms it."""
        commands = [encode(OpenLeadership(epoch=term, leader=self.node_id))]
        if not self.formation.formed:
            commands.append(encode(Form(self._rng.randbytes(16), self.formation.member_rows(), newest_level())))
        self.timestamps.begin()
        return encode_entry(self.timestamps.now_ms(), [(self._rng.getrandbits(63) or 1, 1, commands)])

    def log_ms(self) -> int:
        return self.timestamps.shown_ms()

    def heard_log_ms(self, now_ms: int) -> None:
        self.timestamps.heard(now_ms)

    def need_snapshot(self, peer: str) -> None:
        log.info("%s needs a snapshot: its next entry is compacted away", peer, extra={"peer": peer})
        self.sender.begin(peer, self.engine.term)

    def lost_entries(self, peer: str, last: int, acknowledged: int) -> None:
        self._forming.note(self.peer_set.lost_entries(peer, last, acknowledged))
        self._introduce_again()

    # ------------------------------------------------------------ input

    def hello(self) -> codec.Hello:
        """Returns this node's introduction as of now."""
        return self.formation.hello(
            self.journal.last_index == 0 and self.engine.term == 0, self.options.election_min_ms
        )

    def connected(self, hello: codec.Hello, connection: int) -> None:
        """Takes a new connection with a peer that was not refused; its older connection counts no more."""
        self._safely(partial(self._connected, hello, connection))

    def _connected(self, hello: codec.Hello, connection: int) -> None:
        self.connections[hello.node] = connection
        self.peer_set.connected(hello)
        self._heard(hello)
        self.sender.finished(hello.node)
        self.forwarding.connected(hello.node)
        self.engine.connected(hello.node)

    def _heard(self, hello: codec.Hello) -> None:
        """Takes the hello of a connected peer, or a newer one."""
        self._forming.heard(hello)
        self.formation.compare_elections(hello, self.options.election_min_ms)
        if self.formation.hears_where(hello):
            self._links.members_changed()
            self._introduce_again()

    def disconnected(self, peer: str, connection: int) -> None:
        if self.connections.get(peer) == connection:
            self._safely(partial(self._disconnected, peer))

    def _disconnected(self, peer: str) -> None:
        self.connections.pop(peer, None)
        self.peer_set.disconnected(peer)
        self.formation.disconnected(peer)
        self.engine.disconnected(peer)
        self.sender.finished(peer)

    def receive(self, peer: str, connection: int, frame: codec.Frame) -> None:
        """Handles a frame of a connection; frames of older connections are dropped."""
        if self.guards.old_connections_dropped and self.connections.get(peer) != connection:
            return
        self._safely(partial(self._receive, peer, frame), wake=False)
        # Mostly the acknowledgement of the follower whose disk was the slower one leaves nothing to do.
        if type(frame) is not codec.AppendAnswer or self.changes.handing_over or not self.engine.is_told_all(peer):
            self._links.wake()

    def _receive(self, peer: str, frame: codec.Frame) -> None:
        if isinstance(frame, _ANSWERS) and not self.peer_set.counts(peer):
            return
        if isinstance(frame, codec.OF_CONSENSUS):
            self.engine.receive(peer, frame)
            if isinstance(frame, codec.Ping) and peer == self.engine.leader_id:
                self.forwarding.arrived(frame.taken)
            if isinstance(frame, codec.AppendAnswer) and not self.engine.takes_snapshot(peer):
                self.sender.finished(peer)
            return
        match frame:
            case codec.Propose():
                self.forwarding.proposed(peer, frame)
            case codec.ProposeRefused():
                self.forwarding.refused(frame)
            case codec.ProposeRejected():
                self.forwarding.rejected_by(peer, frame)
            case codec.SnapshotOffer() | codec.SnapshotChunk():
                self.installer.receive(peer, frame)
            case codec.ChangeMembers() | codec.TransferLeadership():
                self.peer_set.asked(peer, frame)
            case codec.Answered():
                self.peer_set.answered(frame)
            case codec.SnapshotAnswer():
                self.sender.answered(peer, frame)
            case codec.Hello() if frame.node == peer:
                self._heard(frame)
            case _:
                log.warning("%s sent a %s out of place", peer, type(frame).__name__, extra={"peer": peer})

    def tick(self) -> None:
        """Runs all timers that are due; to be called as ticks.py says."""
        self._safely(self._tick)

    def _tick(self) -> None:
        now, engine = self._clock.monotonic(), self.engine
        engine.tick()
        self.sender.tick()
        self.installer.tick()
        self.proposer.expire(now, engine.leader_id is not None)
        self.peer_set.tick()
        self.forwarding.tick(now)
        if not engine.installing:  # then the tables are about to be replaced
            self.checkpoints.tick()

    def propose(self, commands: Sequence[bytes], deadline: float, reply: Reply | None) -> None:
        """Proposes a batch; `deadline` in monotonic seconds.

        Raises Overloaded, NoLeader when stopped, RaftschedError("too-large")."""
        if self.stopped:
            raise NoLeader("This node has stopped.")
        if self.guards.contain_callback_errors and reply is not None:
            reply = partial(contained, reply)
        self.proposer.add(commands, deadline, reply, now=self._clock.monotonic())
        self._links.wake()

    def submit(self, commands: Sequence[bytes]) -> None:
        """Proposes without an answer. Raises Overloaded."""
        if not self.stopped:
            self.propose(commands, self._clock.monotonic() + SUBMIT_TTL_MS / 1000, None)

    def step_down(self) -> None:
        self._safely(self.engine.step_down)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._on_applied.append(on_applied)

    def subscribe_role(self, on_role: Action) -> None:
        self._on_role.append(on_role)

    def stop(self) -> None:
        """Takes no part any more; waiting callers get an answer."""
        self.stopped = True
        self.driver.stopped = True
        self.sender.cancel()
        self.installer.cancel()
        self.proposer.stop(NoLeader("This node is stopping."))
        self.peer_set.requests.stop()

    # ------------------------------------------------------------ the end of a loop iteration

    def pump(self) -> None:
        """Forms an entry, sends, starts a write batch, applies: whatever is due after the events at hand."""
        self._safely(self._pump, wake=False)

    def _pump(self) -> None:
        """Runs the steps in an order that each of them needs. A leadership that was lost drops its queue before any of
        it is sent in its name. What was proposed is in the queue before the entry is formed, and that before it is
        sent. Followers write while this node does: an entry counts for no majority here before `write_done`. A handover
        waits until the next leader was sent everything. What was sent leaves before this node's thread for the log
        wakes and competes with it for the interpreter. The write comes behind all that puts something into the journal,
        so that one flush does for it. To apply takes longest, and is done while the disk writes."""
        self._follow_role()
        if self.peer_set.take_news():
            self._introduce_again()
        self.forwarding.pump()
        engine = self.engine
        if engine.is_leader:
            gathers = not self.changes.handing_over
            # One entry per write batch: it gathers the more the longer the batch before it takes to write.
            if gathers and self.queue and not self.driver.busy:
                engine.append(encode_entry(self.timestamps.now_ms(), self.queue.take(engine.entry_bytes)))
            engine.replicate(more_soon=gathers and bool(self.queue))
            self.changes.pump()
        self._links.flush()
        if self.driver.pump() and not self.driver.busy:
            self._links.wake()  # it ran at once
        self._apply()

    def _apply(self) -> None:
        """Applies what is committed, a bounded part of it: other events have their turn between."""
        if self.engine.installing:
            return
        entries = self.journal.to_apply(self.options.apply_max_bytes)
        if not entries:
            return
        results = self._store.apply(entries)
        self.journal.applied(entries[-1])
        self._applied(results)
        if self.journal.has_to_apply or self.journal.dirty or self.proposer.waiting:
            self._links.wake()

    def _follow_role(self) -> None:
        engine = self.engine
        role = (engine.term, engine.leader_id, engine.is_leader)
        if role == self._role and (engine.is_leader or not self.leading):
            return
        if not engine.is_leader or role[0] != self._role[0]:
            self.leading = False
            self.changes.lost()
            self.sender.cancel()
            if self.queue:
                self.queue.clear()
        if engine.leader_id is not None and role[:2] != self._role[:2]:
            engine.measures.leaders += 1
        self._role = role
        self._notify_role()

    def _notify_role(self) -> None:
        self._links.wake()  # for what subscribers change by it
        for on_role in self._on_role:
            self._call(on_role)

    # ------------------------------------------------------------ after a write batch

    def _on_written(self) -> None:
        self._safely(self.engine.write_done)

    # ------------------------------------------------------------ after entries were applied

    def _applied(self, entries: list[EntryResult]) -> None:
        engine = self.engine
        was_leading = self.leading
        for entry in entries:
            if entry.index == engine.opening_index and entry.term == engine.term and engine.is_leader:
                self.leading = True
            if not _OF_META.isdisjoint(map(type, entry.actions)):
                self._follow_meta()
            for batch in entry.batches:
                if batch.origin == self.proposer.origin:
                    self.forwarding.arrived(batch.seq)
                    self.proposer.applied(batch)
        self.peer_set.applied()
        self._notify_applied(entries)
        if self.leading != was_leading:
            self._notify_role()

    def _notify_applied(self, entries: list[EntryResult]) -> None:
        for on_applied in self._on_applied:
            self._call(on_applied, entries)

    # ------------------------------------------------------------ members

    def _follow_meta(self, *, log_gone: bool = False) -> None:
        meta = self._read_meta(self._store)
        check_level(meta.level)  # of a snapshot: entries were checked
        self.level = meta.level
        self.formation.follow_state(meta)
        self.membership.reset(meta.members, meta.members_at, log_gone=log_gone)
        self._links.wake()

    def request(self, frame: Request, timeout: float, done: Done) -> None:
        """Asks the leader. Raises Overloaded, NoLeader when stopped."""
        if self.stopped:
            raise NoLeader("This node has stopped.")
        self.peer_set.request(frame, timeout, done)

    def fitted(self, commands: Sequence[bytes]) -> Sequence[bytes] | None:
        """Returns these as the cluster's level has them; None: one is of a later level, so that a member may not know
        it."""
        if self.level >= newest_level():
            return commands
        commands = [fitted(raw, self.level) for raw in commands]
        return None if any(is_later(raw, self.level) for raw in commands) else commands

    def _introduce_again(self) -> None:
        hello = self.hello()
        for peer in self.connections:
            self._links.send(peer, hello)

    # ------------------------------------------------------------ snapshots

    def _installed(self) -> None:
        """Follows another state that a snapshot put in place."""
        self._follow_meta(log_gone=True)
        if self.guards.jumped_proposals_answered:
            self.proposer.jumped()
        self._notify_applied([])  # state changed without entries

    # ------------------------------------------------------------ containment

    def _call(self, callback: Callable[..., None], *args: object) -> None:
        """Calls a subscriber and contains its exceptions, so that consensus goes on. MemoryError is not contained: the
        subscriber has lost what it was told, and nobody repeats it."""
        if not self.guards.contain_callback_errors:
            callback(*args)
            return
        try:
            callback(*args)
        except MemoryError:
            raise
        except Exception as error:
            background.note("other", error)

    def _safely(self, step: Action, *, wake: bool = True) -> None:
        """Runs a step. An exception in it is a bug or a damaged disk: the node stops rather than go on wrongly."""
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
