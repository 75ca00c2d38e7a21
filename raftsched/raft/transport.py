"""TCP between the members: one live connection per pair, both ends proven to hold the cluster key.

The lower node id dials. Handshake: the dialer says hello with a nonce; the acceptor answers with its own hello and an
HMAC-SHA256 over both; the dialer proves itself in the same way and is welcomed. Only then do frames flow. A newer
connection of a peer replaces the older one, whose frames count no more.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import cast

import msgspec

from raftsched.clock import Clock
from raftsched.errors import StartupError
from raftsched.raft import codec
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions

log = logging.getLogger(__name__)

_HELLO_MAX_BYTES = 64 * 1024
_TOLD_S, _TOLD_MAX = 60.0, 1_000  # so many lines about refused connections in that time, at most
_REASON_CHARS = 400  # of a refusal: it may quote a stranger
_LATE_TICK_S = 1.0  # this process itself stood still: silence of the peers proves nothing


def proof(key: bytes, role: bytes, dialer: codec.Hello, acceptor: codec.Hello) -> bytes:
    """What `role` (b"dial" or b"accept") sends to show that it has the key. An older version, which shows no
    incarnation, forgets the fields that it does not know, and proves without them."""
    payload = codec.payload if dialer.incarnation and acceptor.incarnation else codec.oldest
    message = b"raftsched/1 " + role + b"\0" + sha256(payload(dialer)).digest()
    return hmac.digest(key, message + sha256(payload(acceptor)).digest(), "sha256")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port". Raises StartupError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise StartupError(f"{address!r} is not an address; write host:port.")
    return host.strip("[]"), int(port)


class Link(asyncio.Protocol):
    """One TCP connection, from the handshake to its end."""

    def __init__(self, owner: Transport, expected: str | None) -> None:
        self.expected = expected  # the peer that was dialled; None: accepted
        self.peer: str | None = None  # once open
        self.number = 0
        self.heard_at = self.sent_at = self.opened_at = owner.now()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = owner
        self._reader = codec.Reader(_HELLO_MAX_BYTES)
        self._transport: asyncio.Transport | None = None
        self._mine: codec.Hello | None = None
        self._theirs: codec.Hello | None = None
        self._proven = False  # the dialer's side: the acceptor has shown that it holds the key
        self._out: list[bytes] = []
        self._out_bytes = 0

    # ------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods, not by its class
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner.opened(self)
        if self.expected is not None:
            self._introduce(self.expected)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._owner.now()
        try:
            for frame in self._reader.feed(data):
                if self.peer is not None:
                    if type(frame) is not codec.KeepAlive:
                        self._owner.on_frame(self.peer, self.number, frame)
                else:
                    self._shake(frame)
                if self._transport is None:
                    return
        except codec.Malformed as error:
            self._owner.malformed += 1
            self.close(f"{self.name} sent what is not a message: {error}", "malformed")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._out.clear()
        if not self.closed.done():
            self.closed.set_result(None)
        self._owner.lost(self)

    # ------------------------------------------------------------ sending

    @property
    def name(self) -> str:
        if self.peer or self.expected:
            return self.peer or str(self.expected)
        address = self._transport.get_extra_info("peername") if self._transport else None
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a connection"

    @property
    def _host(self) -> str:
        """Whose next connection comes from another port, and has the same to say."""
        return self.name.rpartition(":")[0] or self.name

    def send(self, data: bytes) -> bool:
        """Gathers what one loop iteration sends; False when the connection is gone or too slow."""
        if self._transport is None or self._transport.is_closing():
            return False
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._transport.get_write_buffer_size() + self._out_bytes > self._owner.options.send_buffer_bytes:
            self.close(f"{self.name} reads too slowly: closing its connection")
            return False
        return True

    def _flush(self) -> None:
        if self._transport is None or not self._out:
            return
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        self.sent_at = self._owner.now()
        self._transport.write(data)

    def close(self, why: str | None = None, kind: str = "") -> None:
        """At once, dropping what is not sent yet. Strangers come as often as they like: of those, what is of one `kind`
        is said once a minute of each host."""
        if why is not None and self.peer is None:
            self._owner.log_once(why, f"{self._host} {kind}")
        elif why is not None:
            log.warning("%s", why)
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """When all that was sent is out."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def refuse(self, reason: str, *, quiet: bool = False, proven: bool = False) -> None:
        """`proven`: it holds the key; of who does not, the reasons are not told apart, as they may quote him."""
        reason = reason[:_REASON_CHARS]
        if not quiet:
            self._owner.log_once(
                f"connection with {self.name} refused: {reason}", f"{self._host} {reason if proven else 'refused'}"
            )
        if self._transport is not None:
            self._flush()
            self._transport.write(codec.encode(codec.Refused(reason, quiet)))
            self._transport.close()

    # ------------------------------------------------------------ handshake

    def _introduce(self, to: str) -> None:
        hello = self._owner.hello()
        self._mine = msgspec.structs.replace(hello, to=to, nonce=self._owner.nonce(32))
        self.send(codec.encode(self._mine))

    def _shake(self, frame: codec.Frame) -> None:
        if isinstance(frame, codec.Refused):
            if not frame.quiet:
                reason = frame.reason[:_REASON_CHARS]
                self._owner.log_once(
                    f"{self.name} refuses this node: {reason!r}",
                    f"{self._host} {reason if self.expected else 'refuses'}",
                )
            self.close()
        elif self.expected is None:
            self._shake_accepted(frame)
        else:
            self._shake_dialled(frame)

    def _shake_accepted(self, frame: codec.Frame) -> None:
        owner = self._owner
        if isinstance(frame, codec.Hello) and self._theirs is None:
            self._theirs = frame
            if frame.to != owner.node_id:
                self.refuse(f"{frame.to!r} is not the node at this address; it is {owner.node_id!r}")
            elif len(frame.nonce) < 16:
                self.refuse("the hello carries no nonce")
            else:
                self._introduce(frame.node)
                assert self._mine is not None
                self.send(codec.encode(codec.Proof(proof(owner.key, b"accept", frame, self._mine))))
        elif isinstance(frame, codec.Proof) and self._theirs is not None and self._mine is not None:
            if not owner.verifies(frame, proof(owner.key, b"dial", self._theirs, self._mine)):
                self.refuse(f"{self._theirs.node!r} does not hold this cluster's key; use the same key file")
            elif (reason := owner.refusal(self._theirs)) is not None:
                self.refuse(reason, proven=True)
            elif owner.dials(self._theirs.node):
                self.refuse(f"{owner.node_id!r} dials {self._theirs.node!r}, not the other way round", quiet=True)
            else:
                self.send(codec.encode(codec.Welcome()))
                self._open(self._theirs)
        else:
            self.close(f"{self.name} broke the handshake", "handshake")

    def _shake_dialled(self, frame: codec.Frame) -> None:
        owner = self._owner
        if isinstance(frame, codec.Hello) and self._theirs is None:
            self._theirs = frame
            if frame.node != self.expected or frame.to != owner.node_id or len(frame.nonce) < 16:
                self.refuse(f"{frame.node!r} answered where {self.expected!r} was expected")
        elif isinstance(frame, codec.Proof) and self._theirs is not None and self._mine is not None:
            if not owner.verifies(frame, proof(owner.key, b"accept", self._mine, self._theirs)):
                self.refuse(f"{self._theirs.node!r} does not hold this cluster's key; use the same key file")
            elif (reason := owner.refusal(self._theirs)) is not None:
                self._prove()  # who we are is news to the other side as well, and it wants proof
                self.refuse(reason, proven=True)
            else:
                self._proven = True
                self._prove()
        elif isinstance(frame, codec.Welcome) and self._proven and self._theirs is not None:
            self._open(self._theirs)
        else:
            self.close(f"{self.name} broke the handshake", "handshake")

    def _prove(self) -> None:
        assert self._mine is not None and self._theirs is not None  # noqa: PT018
        self.send(codec.encode(codec.Proof(proof(self._owner.key, b"dial", self._mine, self._theirs))))

    def _open(self, theirs: codec.Hello) -> None:
        self._reader.max_bytes = self._owner.options.frame_max_bytes
        self.peer = theirs.node
        self._owner.welcomed(self, theirs)


class Transport:
    """Listens, dials, keeps one link per peer."""

    def __init__(
        self,
        node_id: str,
        bind: str | socket.socket,
        key: bytes,
        clock: Clock,
        rng: random.Random,
        options: RaftOptions,
        guards: Guards,
        *,
        hello: Callable[[], codec.Hello],
        refusal: Callable[[codec.Hello], str | None],
        foreign: Callable[[codec.Hello], bool] = lambda hello: False,
        on_connected: Callable[[codec.Hello, int], None],
        on_disconnected: Callable[[str, int], None],
        on_frame: Callable[[str, int, codec.Frame], None],
        nonce: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.node_id = node_id
        self.key = key
        self.options = options
        self.hello = hello
        self.refusal = refusal
        self.foreign = foreign
        self.on_frame = on_frame
        self.nonce = nonce
        self.now = clock.monotonic
        self._bind = bind
        self._rng = rng
        self._guards = guards
        self._on_connected = on_connected
        self._on_disconnected = on_disconnected
        self._server: asyncio.Server | None = None
        self._links: dict[str, Link] = {}
        self._all: dict[Link, None] = {}  # in the order they were opened
        self._number = 0
        self._dialers: dict[tuple[str, str], asyncio.Task[None]] = {}  # (peer, address)
        self._told: dict[str, float] = {}
        self.malformed = 0  # connections closed for what was no message, since this node started
        self._ticked_at = self.now()
        self._stopping = False

    async def start(self) -> None:
        """Listens; `set_peers` dials. Raises StartupError when the port cannot be had."""
        loop = asyncio.get_running_loop()
        try:
            if isinstance(self._bind, socket.socket):
                self._server = await loop.create_server(self._accept, sock=self._bind, start_serving=False)
            else:
                host, port = split_address(self._bind)
                self._server = await loop.create_server(self._accept, host, port, start_serving=False)
            await self._server.start_serving()  # a step of its own: who is cancelled in it can still close the server
        except OSError as error:
            raise StartupError(
                f"The raft address {self._bind} cannot be listened on: {error.strerror or error}."
            ) from None

    def set_peers(self, addresses: dict[str, str]) -> None:
        """Whom to be connected with, id -> host:port. The lower id dials; the higher one does when nothing came of it
        for a while: the other may not know of it yet."""
        wanted = set(addresses.items())
        for key in [key for key in self._dialers if key not in wanted]:
            self._dialers.pop(key).cancel()
        for peer, address in sorted(wanted - self._dialers.keys()):
            task = asyncio.get_running_loop().create_task(self._dial(peer, *split_address(address)))
            self._dialers[peer, address] = task

    def dials(self, peer: str) -> bool:
        """Whether it is up to this node to dial that one."""
        return peer > self.node_id and any(known == peer for known, _ in self._dialers)

    def drop(self, peer: str) -> None:
        """Closes the link with a peer when what was sent is out; it may be made again when it is not refused."""
        link = self._links.get(peer)
        if link is not None:
            link.end()

    async def stop(self) -> None:
        """Closes everything; idempotent."""
        self._stopping = True
        dialers = list(self._dialers.values())
        for task in dialers:
            task.cancel()
        if dialers:
            await asyncio.gather(*dialers, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        elif isinstance(self._bind, socket.socket):
            self._bind.close()
        links = list(self._all)
        for link in links:
            link.close()
        if links:
            await asyncio.gather(*(link.closed for link in links))
        if self._server is not None:
            await self._server.wait_closed()

    def peers(self) -> list[str]:
        """Who is connected."""
        return list(self._links)

    def is_connected(self, peer: str) -> bool:
        return peer in self._links

    def send(self, peer: str, frame: codec.Frame) -> bool:
        """False: not connected. Raises RuntimeError for a frame that the other side would have to refuse."""
        link = self._links.get(peer)
        return link is not None and self.send_encoded(link, codec.encode(frame))

    def send_encoded(self, link: Link, data: bytes) -> bool:
        if self._guards.entries_below_batch and len(data) > self.options.frame_max_bytes:
            raise RuntimeError(f"a frame of {len(data)} bytes is over the limit")
        return link.send(data)

    def tick(self) -> None:
        """Keep-alives, silent peers, handshakes that take too long."""
        now, options = self.now(), self.options
        late = now - self._ticked_at > _LATE_TICK_S
        self._ticked_at = now
        for link in list(self._all):
            if late:
                link.heard_at = now
            if link.peer is None:
                if now - link.opened_at > options.handshake_ms / 1000:
                    link.close(f"{link.name} did not finish the handshake in time", "late")
            elif now - link.heard_at > options.dead_peer_ms / 1000:
                link.close(f"nothing heard from {link.name} for {options.dead_peer_ms} ms")
            elif now - link.sent_at > options.keepalive_ms / 1000:
                link.send(_KEEP_ALIVE)

    def verifies(self, frame: codec.Proof, expected: bytes) -> bool:
        return hmac.compare_digest(frame.mac, expected) or not self._guards.peers_authenticated

    def log_once(self, line: str, about: str) -> None:
        """A peer that tries again and again is worth one line a minute."""
        now = self.now()
        if now - self._told.get(about, float("-inf")) > _TOLD_S:
            if len(self._told) >= _TOLD_MAX:
                self._told = {other: at for other, at in self._told.items() if now - at <= _TOLD_S}
            if len(self._told) < _TOLD_MAX:
                self._told[about] = now
                log.warning("%s", line)

    # ------------------------------------------------------------ links

    def _accept(self) -> Link:
        return Link(self, None)

    def opened(self, link: Link) -> None:
        self._all[link] = None
        waiting = [other for other in self._all if other.peer is None and other.expected is None]
        if self._stopping:
            link.close()
        elif len(waiting) > self.options.pending_handshakes:
            waiting[0].close()  # who is silent makes room: a member needs a moment only, and must get in

    def welcomed(self, link: Link, hello: codec.Hello) -> None:
        self._number += 1
        link.number = self._number
        older = self._links.get(hello.node)
        self._links[hello.node] = link
        if older is not None and self._guards.old_connections_dropped:
            older.close()
        log.info("%s is connected with %s", self.node_id, hello.node)
        self._on_connected(hello, link.number)

    def lost(self, link: Link) -> None:
        self._all.pop(link, None)
        if link.peer is None:
            return
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            log.info("%s lost its connection with %s", self.node_id, link.peer)
        self._on_disconnected(link.peer, link.number)

    async def _dial(self, peer: str, host: str, port: int) -> None:
        loop, options = asyncio.get_running_loop(), self.options
        pause = options.connect_min_ms / 1000
        while True:
            if peer < self.node_id:
                await asyncio.sleep(options.connect_late_ms / 1000 * self._rng.uniform(0.75, 1.25))
                if peer in self._links:
                    continue
            link: Link | None = None
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(options.handshake_ms / 1000):
                    _, link = await loop.create_connection(lambda: Link(self, peer), host, port)
            if link is not None:
                await asyncio.shield(link.closed)
                if link.peer is not None:
                    pause = options.connect_min_ms / 1000
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
            pause = min(pause * 2, options.connect_max_ms / 1000)


_KEEP_ALIVE = codec.encode(codec.KeepAlive())
