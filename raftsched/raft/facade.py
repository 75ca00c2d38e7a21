"""Raft as the other rooms see it: the replica with an event loop, a writer thread and TCP around it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from raftsched.clock import Clock
from raftsched.core.commands import Answer, decode
from raftsched.core.entry import EntryResult
from raftsched.errors import RaftschedError, StartupError
from raftsched.raft import audit, codec, snapshots
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.replica import Replica
from raftsched.raft.transport import Transport, split_address
from raftsched.raft.turns import ThreadWriter
from raftsched.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PeerStatus:
    """What this node knows of another one. Indices are 0 unless this node leads."""

    node: str
    raft: str  # host:port
    connected: bool
    match_index: int
    next_index: int
    clock_offset_ms: int | None  # its wall clock minus ours, as the leader measured it last
    http: str | None  # its API's host:port, while connected


class Raft:
    """One member of the cluster.

    `peers` are all nodes, id -> host:port, this one included. Callbacks run on the event loop; what they raise is
    logged and goes no further. When the node must stop (disk error, damaged log, a bug), `on_fatal` is called once with
    the exception, and nothing is answered or sent any more. Raises StartupError from the constructor and from
    `start`."""

    def __init__(
        self,
        store: Store,
        node_id: str,
        bind: str | socket.socket,
        peers: dict[str, str],
        advertise: str | None,
        cluster_key: bytes,
        clock: Clock,
        rng: random.Random,
        http_address: str,
        guards: Guards = ALL,
        options: RaftOptions | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        audit.check()
        self.node_id = node_id
        self.options = options or RaftOptions()
        addresses = dict(peers)
        if advertise is not None and node_id in addresses:
            addresses[node_id] = advertise
        for address in addresses.values():
            split_address(address)
        if not cluster_key:
            _only_loopback([*addresses.values(), *([bind] if isinstance(bind, str) else [])])
        self._clock = clock
        self._on_fatal = on_fatal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._durable: asyncio.Future[None] | None = None  # the identity is on the disk
        self._woken = False
        self._timer: asyncio.TimerHandle | None = None
        self._handlers: dict[str, Callable[[str, bytes], None]] = {}
        self._own_dir = self.options.snapshot_dir is None
        self._directory = self.options.snapshot_dir or Path(tempfile.mkdtemp(prefix="raftsched-"))
        self._writer = ThreadWriter(self._post, f"raft-writer-{node_id}")
        self._side = ThreadWriter(self._post, f"raft-snapshots-{node_id}")
        self._stopped = False
        try:
            snapshots.clear(self._directory)
            self._replica = Replica(
                store=store,
                node_id=node_id,
                peers=addresses,
                http=http_address,
                links=_Links(self),
                clock=clock,
                rng=rng,
                options=self.options,
                guards=guards,
                writer=self._writer,
                side=self._side,
                snapshot_dir=self._directory,
                on_fatal=self._fatal,
            )
        except BaseException:
            self._remove_directory()
            raise
        self._transport = Transport(
            node_id,
            bind,
            cluster_key,
            clock,
            rng,
            self.options,
            guards,
            hello=self._replica.hello,
            refusal=self._refusal,
            foreign=self._replica.formation.foreign,
            on_connected=self._replica.connected,
            on_disconnected=self._replica.disconnected,
            on_frame=self._on_frame,
        )

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        """Makes this node's identity durable, listens, and dials the peers."""
        self._loop = asyncio.get_running_loop()
        self._durable = self._loop.create_future()
        self._replica.hold(partial(self._durable.set_result, None))
        self.wake()
        formation = self._replica.formation
        try:
            await self._durable
            await self._transport.start({p: formation.addresses[p] for p in formation.members})
        except BaseException:
            await self.stop()
            raise
        self._tick()

    async def stop(self) -> None:
        """Idempotent. Proposals without an answer get one."""
        if self._stopped:
            return
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._replica.stop()
        await self._transport.stop()
        await asyncio.to_thread(self._writer.close)
        await asyncio.to_thread(self._side.close)
        self._remove_directory()

    def _remove_directory(self) -> None:
        if self._own_dir:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _tick(self) -> None:
        assert self._loop is not None
        self._replica.tick()
        self._transport.tick()
        self._timer = self._loop.call_later(self.options.tick_ms / 1000, self._tick)

    def _refusal(self, hello: codec.Hello) -> str | None:
        reason = self._replica.formation.refusal(hello)
        if (stranded := self._replica.formation.stranded) is not None:
            self._fatal(StartupError(stranded))
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
        """Whom this node follows; it may be out of date."""
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
        """Leader, and the opening entry of this leadership is applied here."""
        return self._replica.leading and self.is_leader

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

    def turn_age_ms(self) -> int:
        """How long the turn of the store that is under way has been; 0 when none is."""
        since = self._replica.driver.busy_since_ms
        return 0 if since is None else self._clock.boot_ms() - since

    def measure_clocks_again(self) -> None:
        """Forgets the offsets: this node's wall clock was set."""
        self._replica.engine.heartbeats.forget_offsets()

    def trust_clock(self) -> None:
        """This node's wall clock was compared with the others': it stamps the entries from here on."""
        self._replica.trust_clock()

    def clock_offsets_ms(self) -> list[int | None]:
        """The other members' wall clocks minus ours, as measured by this leadership's heartbeats; None: not yet."""
        engine = self._replica.engine
        return [engine.heartbeats.offset_ms(peer) for peer in engine.peers]

    def quorum_sent_at_ms(self) -> int | None:
        """Leader: boot_ms at which the newest heartbeat round answered by a majority in this term was sent."""
        engine = self._replica.engine
        if not self.is_leader:
            return None
        return engine.heartbeats.quorum_sent_at_ms(self._clock.boot_ms())

    def peers(self) -> list[PeerStatus]:
        """The other members."""
        engine, formation = self._replica.engine, self._replica.formation
        return [
            PeerStatus(
                node=peer,
                raft=formation.addresses.get(peer, ""),
                connected=self._transport.is_connected(peer),
                match_index=engine.match_index(peer) if engine.is_leader else 0,
                next_index=engine.next_index(peer) if engine.is_leader else 0,
                clock_offset_ms=engine.heartbeats.offset_ms(peer),
                http=formation.http_of(peer),
            )
            for peer in engine.peers
        ]

    # ------------------------------------------------------------ proposing

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        """One batch of encoded commands, on any node; the answers as applied here, one per command.

        `timeout` in seconds. Raises NoLeader (nothing was passed on), UnknownOutcome, Overloaded, ValueError
        for what is no command, and
        RaftschedError("too-large") for a batch over the limits of one entry."""
        assert self._loop is not None, "start first"
        _check(commands)
        future: asyncio.Future[list[Answer]] = self._loop.create_future()
        self._replica.propose(commands, self._clock.monotonic() + timeout, partial(_settle, future))
        return await future

    def submit(self, commands: Sequence[bytes]) -> None:
        """The same without an answer. Raises Overloaded."""
        _check(commands)
        self._replica.submit(commands)

    def step_down(self) -> None:
        """Hands leadership over, to a follower that has everything if there is one."""
        self._replica.step_down()

    def subscribe(self, on_applied: Callable[[list[EntryResult]], None]) -> None:
        """Called after each turn that applied something; with no entries when a snapshot replaced the state."""
        self._replica.subscribe(on_applied)

    def subscribe_role(self, on_role: Callable[[], None]) -> None:
        """Called when role, term, leader or `leading` changed."""
        self._replica.subscribe_role(on_role)

    # ------------------------------------------------------------ messages of other rooms

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None:
        """`handler(peer, payload)` for messages of this kind."""
        self._handlers[kind] = handler

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        """A small message to another room of another node (or of this one), not gated by the disk. False: not sent."""
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
            self._replica.receive(peer, number, frame)

    def _on_message(self, peer: str, message: codec.Message) -> None:
        handler = self._handlers.get(message.kind)
        if handler is None or self._replica.stopped:
            return
        try:
            handler(peer, message.payload)
        except Exception:
            log.exception("the handler of %r failed", message.kind)

    # ------------------------------------------------------------ the event loop

    def wake(self) -> None:
        """Asks for a pump after the events at hand."""
        if not self._woken and self._loop is not None:
            self._woken = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._woken = False
        self._replica.pump()

    def _post(self, callback: Callable[..., object], *args: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(callback, *args)


class _Links:
    """The replica's way out."""

    def __init__(self, raft: Raft) -> None:
        self._raft = raft
        self.wake = raft.wake

    def send(self, peer: str, frame: codec.Frame) -> bool:
        return self._raft._transport.send(peer, frame)


def _check(commands: Sequence[bytes]) -> None:
    """What does not decode would stop every node at its apply, so it never gets into the log. Raises ValueError."""
    for command in commands:
        decode(command)


def _settle(future: asyncio.Future[list[Answer]], answers: list[Answer] | None, error: RaftschedError | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif answers is not None:
        future.set_result(answers)


def _only_loopback(addresses: list[str]) -> None:
    """Without a key anybody who reaches the port could speak as a member."""
    for address in addresses:
        host, _ = split_address(address)
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = host == "localhost"
        if not loopback:
            raise StartupError(
                f"The raft address {address} is not on this machine's loopback: "
                "give every node the same cluster key file."
            )
