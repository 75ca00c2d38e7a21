"""Opens the raft room to others: the replica with an event loop, a writer thread and TCP around it."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from raftsched.core.commands import UNKNOWN, Answer
from raftsched.core.entry import EntryResult
from raftsched.errors import RaftschedError, StartupError
from raftsched.raft import codec, snapshots
from raftsched.raft.consensus import library_check
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.measures import Measured
from raftsched.raft.membership.admission import Admission
from raftsched.raft.membership.requests import Request
from raftsched.raft.options import RaftOptions
from raftsched.raft.proposals.barrier import Barriers
from raftsched.raft.proposals.proposer import Reply, check_all, settle
from raftsched.raft.pump import Pump
from raftsched.raft.replica import Replica
from raftsched.raft.status import JoinRequest, MemberStatus, PeerStatus, measured, member_statuses, peer_statuses
from raftsched.raft.ticks import Ticks
from raftsched.raft.transport.tls import KeyTls, Plain, Wire
from raftsched.raft.transport.transport import Transport, only_loopback, split_address
from raftsched.raft.writer import ThreadWriter, Writer
from raftsched.security.keyring import Keyring
from raftsched.store import Store
from raftsched.system import background
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

Change = Literal["add", "remove", "replace"]


class Raft:
    """One member of the cluster.

    `peers` are all nodes, id -> host:port, this one included. Callbacks run on the event loop; an exception in one is
    logged and goes no further. When the node must stop (disk error, damaged log, a bug), `on_fatal` is called once with
    the exception, and nothing is answered or sent any more. `writers(post, name)` makes the three writers, for write
    batches, for work on snapshots and for checkpoints; `nonce(n)` returns the n random bytes of a handshake. `wire`
    seals connections; None: by certificates made at this start, or not at all without a key. The constructor and
    `start` raise StartupError."""

    def __init__(
        self,
        store: Store,
        node_id: str,
        bind: str | socket.socket,
        peers: dict[str, str],
        advertise: str | None,
        keys: Keyring,
        clock: Clock,
        rng: random.Random,
        http_address: str,
        guards: Guards = ALL,
        options: RaftOptions | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        join: bool = False,
        writers: Callable[[Callable[..., object], str], Writer] = ThreadWriter,
        nonce: Callable[[int], bytes] = secrets.token_bytes,
        wire: Wire | None = None,
    ) -> None:
        library_check.check()
        self.node_id = node_id
        self.options = options or RaftOptions()
        addresses = dict(peers)
        if advertise is not None and node_id in addresses:
            addresses[node_id] = advertise
        for address in addresses.values():
            split_address(address)
        if not keys:
            only_loopback([*addresses.values(), *([bind] if isinstance(bind, str) else [])])
        self._clock = clock
        self._on_fatal = on_fatal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._durable: asyncio.Future[None] | None = None  # the identity is on the disk
        self._pump = Pump()
        self._handlers: dict[str, Callable[[str, bytes], None]] = {}
        self._own_dir = self.options.snapshot_dir is None
        self._directory = self.options.snapshot_dir or Path(tempfile.mkdtemp(prefix="raftsched-"))
        self._writer = writers(self._pump.post, f"raft-writer-{node_id}")
        self._side = writers(self._pump.post, f"raft-snapshots-{node_id}")
        self._checkpoint_writer = writers(self._pump.post, f"raft-checkpoints-{node_id}")
        self._barriers = Barriers(self.propose)
        self._stopped = False
        try:
            snapshots.clear(self._directory)
            self._replica = Replica(
                store=store,
                node_id=node_id,
                peers=addresses,
                http=http_address,
                join=join,
                links=_Links(self),
                clock=clock,
                rng=rng,
                options=self.options,
                guards=guards,
                writer=self._writer,
                side=self._side,
                checkpoint_writer=self._checkpoint_writer,
                snapshot_dir=self._directory,
                on_fatal=self._fatal,
            )
        except BaseException:
            self._remove_directory()
            raise
        self._ticks = Ticks(self._replica, clock, self._tick)
        self._admission = Admission(self._replica.formation, clock, self._replica.peer_set.join_requests)
        self._transport = Transport(
            node_id,
            bind,
            keys,
            wire or (KeyTls(clock.wall_ms()) if keys else Plain()),
            clock,
            rng,
            self.options,
            guards,
            hello=self._replica.hello,
            refusal=self._refusal,
            on_connected=self._replica.connected,
            on_disconnected=self._replica.disconnected,
            on_frame=self._on_frame,
            flushes=lambda: self._pump.flushes,
            nonce=nonce,
        )

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Makes this node's identity durable, listens, and dials the peers."""
        self._loop = asyncio.get_running_loop()
        self._pump.start(self._do_pump, self._transport.flush)
        self._durable = self._loop.create_future()
        self._replica.hold(partial(self._durable.set_result, None))
        self._pump.wake()
        try:
            await self._durable
            await self._transport.start()
        except BaseException:
            await self.stop()
            raise
        self._follow_members()
        self._tick()

    async def stop(self) -> None:
        """Stops this node's part; idempotent. Proposals without an answer get one."""
        if self._stopped:
            return
        self._stopped = True
        self._ticks.stop()
        self._replica.stop()
        await self._transport.stop()
        await asyncio.to_thread(self._writer.close)
        await asyncio.to_thread(self._side.close)
        await asyncio.to_thread(self._checkpoint_writer.close)
        with suppress(OSError):
            snapshots.clear(self._directory)
        self._remove_directory()

    def _remove_directory(self) -> None:
        if self._own_dir:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _tick(self) -> None:
        self._replica.tick()
        try:
            self._transport.tick()
            self._admission.tick(self.leader_id)
            self._ticks.again()
        except Exception as error:  # without ticks it would stay a member that does nothing
            log.critical("%s stops: %s: %s", self.node_id, type(error).__name__, error)
            self._replica.stop()
            self._fatal(error)

    def _do_pump(self) -> None:
        self._replica.pump()
        self._ticks.pumped()

    def _refusal(self, hello: codec.Hello) -> str | None:
        self._admission.heard(hello)
        if self._replica.formation.learn_addresses(hello):
            self.members_changed()
        reason = self._replica.formation.refusal(hello)
        if reason is not None:
            self._replica.peer_set.join_refused(hello)
        if (wrong_cluster := self._replica.formation.wrong_cluster) is not None:
            self._fatal(StartupError(wrong_cluster))
        return reason

    def _fatal(self, error: BaseException) -> None:
        if self._durable is not None and not self._durable.done():
            self._durable.set_exception(StartupError(f"The store cannot be written: {error}."))
        elif self._on_fatal is not None:
            self._on_fatal(error)

    # ------------------------------------------------------------ state

    @property
    def term(self) -> int:
        return self._replica.engine.term

    @property
    def leader_id(self) -> str | None:
        """The leader that this node follows; it may be out of date."""
        return self._replica.engine.leader_id

    @property
    def role(self) -> str:
        """follower, candidate or leader."""
        return self._replica.engine.role

    @property
    def is_leader(self) -> bool:
        return self._replica.engine.is_leader and not self._replica.stopped

    @property
    def leading(self) -> bool:
        """Returns whether this node leads, and has applied the opening entry of its leadership."""
        return self._replica.leading and self.is_leader

    @property
    def waits_for(self) -> str | None:
        """The reason why this node has no leader, with advice for its operator; None: it has one."""
        if self.leader_id is not None:
            return None
        return self._admission.waits_for(list(self._replica.connections), self._replica.membership.voters)

    @property
    def outside(self) -> str | None:
        """The reason why the members do not let this node in, with advice; None: no member said so lately."""
        return None if self.leader_id is not None else self._admission.refusal

    @property
    def formed(self) -> bool:
        """The cluster has its members."""
        return self._replica.formation.formed

    @property
    def cluster_id(self) -> bytes:
        """Empty until formed."""
        return self._replica.formation.cluster_id

    @property
    def commit_index(self) -> int:
        return self._replica.journal.commit_index

    @property
    def applied_index(self) -> int:
        return self._replica.journal.applied_index

    @property
    def last_index(self) -> int:
        return self._replica.journal.last_index

    @property
    def last_term(self) -> int:
        return self._replica.journal.last_term

    def refused(self) -> dict[str, int]:
        """Returns the number of refused connections and messages since this node started, by reason (refusals.WHY)."""
        return {**self._transport.refusals.counts, "no-command": self._replica.forwarding.rejected}

    def measured(self) -> Measured:
        """Returns what this member counts of its part in consensus, and how far its followers are."""
        return measured(self._replica, self.write_age_ms())

    def write_age_ms(self) -> int:
        """Returns the time for which the current write batch has been written; 0 when none is."""
        since = self._replica.driver.busy_since_ms
        return 0 if since is None else self._clock.boot_ms() - since

    def measure_clocks_again(self) -> None:
        """Forgets the offsets of the clocks, because this node's wall clock was set."""
        self._replica.engine.heartbeats.forget_offsets()

    def clock_ahead_ms(self) -> int:
        """Returns the lead of this node's wall clock over the log's time, as the previous leader showed it."""
        return self._replica.timestamps.ahead_ms()

    def trust_clock(self, ahead_of_boot_ms: int) -> None:
        """Stamps entries by this node's wall clock from now on, as long as it goes on from there: it was compared with
        the others' when it was so far ahead of the boot clock."""
        self._replica.timestamps.trust(ahead_of_boot_ms)

    def clock_offsets_ms(self) -> list[int | None]:
        """Returns the other voters' wall clocks minus ours, as measured by this leadership's heartbeats; None:
        not yet."""
        engine = self._replica.engine
        return [engine.heartbeats.offset_ms(v) for v in engine.membership.voters if v != self.node_id]

    def quorum_sent_at_ms(self) -> int | None:
        """Leader: returns the boot_ms at which the newest heartbeat round answered by a majority in this term was
        sent."""
        engine = self._replica.engine
        if not self.is_leader:
            return None
        return engine.heartbeats.quorum_sent_at_ms(self._clock.boot_ms())

    def connection(self, peer: str) -> int | None:
        """Returns the number of the newest connection with a member; None: there is none, or it is this node."""
        return self._replica.connections.get(peer)

    def peers(self) -> list[PeerStatus]:
        """Returns the other members."""
        return peer_statuses(self._replica, self._transport.is_connected)

    # ------------------------------------------------------------ proposing

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        """Proposes a batch of encoded commands, on any node. Returns one answer per command, as applied on this node,
        whose reads show the result.

        `timeout` in seconds. Raises NoLeader (nothing was passed on), UnknownOutcome, Overloaded, ValueError for bytes
        that are no command, and RaftschedError("too-large") for a batch over the limits of one entry."""
        assert self._loop is not None, "start first"
        check_all(commands)
        known = self._replica.fitted(commands)
        if known is None:
            return [UNKNOWN] * len(commands)
        future: asyncio.Future[list[Answer]] = self._loop.create_future()
        self._replica.propose(known, self._clock.monotonic() + timeout, partial(settle, future))
        return await future

    def propose_then(self, commands: Sequence[bytes], timeout: float, reply: Reply) -> None:
        """Proposes without a task that waits: `reply` is called from the event loop, when the batch is applied here.
        Raises at once as `propose` would."""
        check_all(commands)
        known = self._replica.fitted(commands)
        if known is None:
            reply([UNKNOWN] * len(commands), None)
            return
        self._replica.propose(known, self._clock.monotonic() + timeout, reply)

    def submit(self, commands: Sequence[bytes]) -> None:
        """Proposes without an answer. Raises Overloaded."""
        check_all(commands)
        known = self._replica.fitted(commands)
        if known is None:
            log.error("a command is not proposed: the cluster's level, %d, does not have it", self._replica.level)
            return
        self._replica.submit(known)

    async def barrier(self, timeout: float = 10.0) -> None:
        """Waits until everything that was committed before the call is applied here: the base of a linearizable read.
        Concurrent calls share a barrier. `timeout` in seconds. Raises NoLeader, Overloaded."""
        await self._barriers.wait(timeout)

    # ------------------------------------------------------------ members

    @property
    def store_id(self) -> bytes:
        """Identity of this node's disk."""
        return self._replica.formation.store_id

    def members(self) -> list[MemberStatus]:
        """Returns the newest configuration in this node's log; a member without a vote is catching up."""
        return member_statuses(self._replica)

    def join_requests(self) -> list[JoinRequest]:
        """Returns the nodes that asked this one to be let in within the last seconds."""
        recent = self._replica.peer_set.join_requests.recent()
        return [JoinRequest(h.node, h.raft, h.http, h.store_id, age_ms, back) for h, age_ms, back in recent]

    async def change_members(
        self, change: Change, node: str, *, store_id: bytes | None = None, timeout: float = 10.0
    ) -> None:
        """Adds, removes or replaces a member; committed when it returns. `timeout` in seconds.

        A node that is added, or whose disk is replaced, must be asking the leader to be let in (`join_requests`), with
        the disk `store_id` where that is given. It gets the whole log first and then becomes a voter by itself. Asking
        for what is already so succeeds. Raises NoLeader, UnknownOutcome, RaftschedError: membership-busy, not-waiting,
        no-such-member, last-member, not-possible."""
        number = self._replica.peer_set.requests.next_number()
        await self._request(codec.ChangeMembers(number, change, node, store_id or b""), timeout)

    async def transfer(self, to: str | None = None, timeout: float = 10.0) -> str:
        """Hands leadership over, to `to` or to the follower that has most; returns the leader's id afterwards. No
        command is lost: waiting proposals go to the next leader. `timeout` in seconds. Raises NoLeader, UnknownOutcome,
        RaftschedError("not-possible")."""
        number = self._replica.peer_set.requests.next_number()
        await self._request(codec.TransferLeadership(number, to or "", self.term), timeout)
        return self.leader_id or to or ""

    async def _request(self, frame: Request, timeout: float) -> None:
        assert self._loop is not None, "start first"
        future: asyncio.Future[None] = self._loop.create_future()

        def done(error: RaftschedError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._replica.request(frame, timeout, done)
        await future

    def _follow_members(self) -> None:
        if self._stopped:
            return
        formation = self._replica.formation
        addresses = formation.dial_addresses()
        self._transport.set_peers(addresses, formation.moves.elsewhere(addresses))
        for peer in self._transport.peers():
            if peer not in self._replica.connections:
                self._transport.drop(peer)

    def members_changed(self) -> None:
        if self._loop is not None:
            self._loop.call_soon(self._follow_members)

    def step_down(self) -> None:
        """Hands leadership over, to a follower that has everything if there is one."""
        self._replica.step_down()

    def subscribe(self, on_applied: Callable[[list[EntryResult]], None]) -> None:
        """Calls `on_applied` with entries after they were applied, and with no entries when a snapshot replaced the
        state."""
        self._replica.subscribe(on_applied)

    def subscribe_role(self, on_role: Callable[[], None]) -> None:
        """Calls `on_role` when role, term, leader or `leading` changed."""
        self._replica.subscribe_role(on_role)

    # ------------------------------------------------------------ messages of other rooms

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None:
        """Calls `handler(peer, payload)` for messages of this kind."""
        self._handlers[kind] = handler

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        """Sends a small message to another room of a node, this one included, without waiting for the disk. False: not
        sent."""
        if peer == self.node_id:
            assert self._loop is not None, "start first"
            self._loop.call_soon(self._on_message, peer, codec.Message(kind, payload))
            return True
        return self._transport.send(peer, codec.Message(kind, payload))

    def _on_frame(self, peer: str, number: int, frame: codec.Frame) -> None:
        if isinstance(frame, codec.Message):
            if self._replica.connections.get(peer) == number:
                self._on_message(peer, frame)
        else:
            codec.check_term(frame, self.term)
            self._replica.receive(peer, number, frame)

    def _on_message(self, peer: str, message: codec.Message) -> None:
        handler = self._handlers.get(message.kind)
        if handler is None or self._replica.stopped:
            return
        try:
            handler(peer, message.payload)
        except Exception as error:
            background.note("other", error, f"a message {message.kind} of {peer}")


class _Links:
    """The replica's way out."""

    def __init__(self, raft: Raft) -> None:
        self._raft = raft
        self.flush = raft._pump.flush
        self.wake = raft._pump.wake
        self.members_changed = raft.members_changed

    def send(self, peer: str, frame: codec.Frame) -> bool:
        return self._raft._transport.send(peer, frame)
