"""Connects the members by TCP: one live connection per pair, both ends proven to hold the cluster key (link.py).

The lower node id dials, and the higher one where nothing comes of that. A newer connection of a peer replaces the older
one, whose frames count no more.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import random
import secrets
import socket
from collections.abc import Callable, Iterable

from raftsched.errors import StartupError
from raftsched.raft import codec
from raftsched.raft.guards import Guards
from raftsched.raft.options import RaftOptions
from raftsched.raft.transport.link import Link, keys_of
from raftsched.raft.transport.pending import Pending, place
from raftsched.raft.transport.refusals import Refusals
from raftsched.raft.transport.tls import Wire
from raftsched.system import background
from raftsched.system.clock import Clock

log = logging.getLogger(__name__)

_LATE_TICK_S = 1.0  # this process itself stood still: silence of the peers proves nothing


def split_address(address: str) -> tuple[str, int]:
    """Returns host and port of "host:port" or "[v6]:port". Raises StartupError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise StartupError(f"{address!r} is not an address; write host:port.")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Returns whether only its own machine reaches an address. A name other than localhost counts as reachable. Raises
    StartupError."""
    host, _ = split_address(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def only_loopback(addresses: list[str]) -> None:
    """Raises StartupError for an address beyond loopback: without a key anybody who reaches the port could speak as a
    member."""
    for address in addresses:
        if not is_loopback(address):
            raise StartupError(
                f"The raft address {address} is not on this machine's loopback: "
                "give every node the same cluster key file."
            )


class Transport:
    """Listens, dials, keeps one link per peer. Proves with the first of `keys`, and accepts proofs under all of
    them."""

    def __init__(
        self,
        node_id: str,
        bind: str | socket.socket,
        keys: Iterable[bytes],
        wire: Wire,
        clock: Clock,
        rng: random.Random,
        options: RaftOptions,
        guards: Guards,
        *,
        hello: Callable[[], codec.Hello],
        refusal: Callable[[codec.Hello], str | None],
        on_connected: Callable[[codec.Hello, int], None],
        on_disconnected: Callable[[str, int], None],
        on_frame: Callable[[str, int, codec.Frame], None],
        flushes: Callable[[], bool] = lambda: False,
        nonce: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`flushes`: returns whether the owner is about to call `flush` anyway."""
        self.node_id = node_id
        self.keys = keys_of(keys)
        self.wire = wire
        self.refusals = Refusals(clock.monotonic)
        self.options = options
        self.hello = hello
        self.refusal = refusal
        self.on_frame = on_frame
        self.nonce = nonce
        self.now = clock.monotonic
        self._bind = bind
        self._rng = rng
        self._guards = guards
        self._on_connected = on_connected
        self._on_disconnected = on_disconnected
        self._flushes = flushes
        self._server: asyncio.Server | None = None
        self._links: dict[str, Link] = {}
        self._all: dict[Link, None] = {}  # in the order they were opened
        self._unsent: list[Link] = []  # have gathered frames
        self._number = 0
        self._dialers: dict[tuple[str, str], asyncio.Task[None]] = {}  # (peer, address)
        self._late: set[tuple[str, str]] = set()  # of these, those that dial only while the peer is not connected
        self._first: dict[str, str] = {}  # peer -> where it is to be
        self._elsewhere: list[tuple[str, str]] = []  # where peers may be besides
        self._found: dict[str, str] = {}  # peer -> where it answered when another one was dialled there
        self._in_vain: dict[str, float] = {}  # peer -> since when it has been dialled there without success
        self._pending: Pending[Link] = Pending(options)
        self._homes: dict[str, str] = {}  # peer -> the place of its newest connection
        self._reached: dict[str, str] = {}  # peer -> the place that its dialled name led to
        self._known: frozenset[str] = frozenset()  # places of the peers' addresses
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
            await self._server.start_serving()  # a separate step: when it is cancelled the server can still be closed
        except OSError as error:
            raise StartupError(
                f"The raft address {self._bind} cannot be listened on: {error.strerror or error}; stop who uses it, or"
                " choose another: --raft, or raft= of raftsched.Node."
            ) from None

    def set_peers(self, addresses: dict[str, str], elsewhere: Iterable[tuple[str, str]] = ()) -> None:
        """Sets the peers to be connected with, id -> host:port. The lower id dials; the higher one does when nothing
        came of it for a while, because the other may not know of it yet. So does this node where the peers may be
        besides, `elsewhere`, and where it found them."""
        self._elsewhere = list(elsewhere)
        self._found = {peer: address for peer, address in self._found.items() if peer in addresses}
        first = set(addresses.items())
        wanted = first | {(peer, at) for peer, at in (*self._elsewhere, *self._found.items()) if peer in addresses}
        self._late = wanted - {(peer, address) for peer, address in first if peer > self.node_id}
        self._in_vain = {peer: at for peer, at in self._in_vain.items() if self._first.get(peer) == addresses.get(peer)}
        self._first = dict(addresses)
        for key in [key for key in self._dialers if key not in wanted]:
            self._dialers.pop(key).cancel()
        for peer, address in sorted(wanted - self._dialers.keys()):
            self._dialers[peer, address] = background.start("peers", self._dial(peer, address))
        self._known = frozenset(place(split_address(address)[0]) for _, address in wanted)
        self._homes = {peer: where for peer, where in self._homes.items() if peer in addresses}
        self._reached = {peer: where for peer, where in self._reached.items() if peer in addresses}

    def dials(self, peer: codec.Hello) -> bool:
        """Returns whether this node, not the peer, has to dial. The peer may where it says that it is elsewhere than
        this node looks for it, and where this node does not get through to it for a while."""
        where, since = self._first.get(peer.node), self._in_vain.get(peer.node)
        if where is None or peer.node < self.node_id or (peer.raft and peer.raft != where):
            return False
        return since is None or self.now() - since < self.options.connect_late_ms / 1000

    def looked_for(self) -> Iterable[str]:
        """Returns the peers that this node is to be connected with."""
        return self._first

    def _found_at(self, peer: str | None, address: str) -> None:
        """Dials a peer, too, where it answered when another one was looked for: it may have moved there, and nobody may
        be left to tell so. It has to prove itself there like everybody; a stranger's word leads to nowhere that this
        node has not dialled by itself."""
        if peer in self._first and self._found.get(peer) != address:
            self._found[peer] = address
            self.set_peers(self._first, self._elsewhere)

    def drop(self, peer: str) -> None:
        """Closes the link with a peer when everything sent is out; it may be made again when it is not refused."""
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
            await _stop_accepting(self._server)
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
        """Returns the connected peers."""
        return list(self._links)

    def is_connected(self, peer: str) -> bool:
        return peer in self._links

    def send(self, peer: str, frame: codec.Frame) -> bool:
        """Sends a frame; False: not connected. Raises RuntimeError for a frame that the other side would have to
        refuse."""
        link = self._links.get(peer)
        return link is not None and self.send_encoded(link, codec.encode(frame))

    def send_encoded(self, link: Link, data: bytes) -> bool:
        if self._guards.entries_below_batch and len(data) > self.options.frame_max_bytes:
            raise RuntimeError(f"a frame of {len(data)} bytes is over the limit")
        return link.send(data)

    def unsent(self, link: Link) -> None:
        """A link has gathered its first frame since the last flush."""
        if not self._unsent and not self._flushes():
            asyncio.get_running_loop().call_soon(self.flush)
        self._unsent.append(link)

    def flush(self) -> None:
        """Hands what the links have gathered to their connections. What one peer is sent in a pass of the event loop
        is one write, and as few TLS records as its size allows."""
        unsent, self._unsent = self._unsent, []
        for link in unsent:
            try:
                link.flush()
            except Exception as error:  # the caller is consensus: one connection must not stop the node
                background.note("peers", error, link.name)
                link.close()

    def tick(self) -> None:
        """Sends keep-alives; closes silent links and handshakes that take too long."""
        now, options = self.now(), self.options
        late = now - self._ticked_at > _LATE_TICK_S
        self._ticked_at = now
        self.refusals.tick()
        self.wire.tick()
        for link in list(self._all):
            if late:
                link.heard_at = now
            if link.peer is None:
                if now - link.opened_at > options.handshake_ms / 1000:
                    link.close(f"{link.name} did not finish the handshake in time", "slow")
            elif now - link.heard_at > options.dead_peer_ms / 1000:
                link.close(f"nothing heard from {link.name} for {options.dead_peer_ms} ms")
            elif now - link.sent_at > options.keepalive_ms / 1000:
                link.send(_KEEP_ALIVE)

    def verifies(self, frame: codec.Proof, expected: bytes) -> bool:
        return hmac.compare_digest(frame.mac, expected) or not self._guards.peers_authenticated

    # ------------------------------------------------------------ links

    def _accept(self) -> Link:
        return Link(self, None)

    def opened(self, link: Link) -> None:
        self._all[link] = None
        if self._stopping:
            link.close()
        elif link.expected is None:
            homes = self._known.union(self._homes.values(), self._reached.values())
            other = self._pending.add(link, place(link.address), homes, self.now())
            if other is not None:
                other.close(f"too many connections of {link.address} have not proved who they are", "too-many")
        elif link.address:
            self._reached[link.expected] = place(link.address)

    def proved(self, link: Link) -> None:
        """Frees the link's place among unproven connections."""
        self._pending.remove(link)

    def welcomed(self, link: Link, hello: codec.Hello) -> None:
        self._number += 1
        link.number = self._number
        if any(peer == hello.node for peer, _ in self._dialers):
            self._homes[hello.node] = place(link.address)
        if link.expected is not None:
            self._in_vain.pop(link.expected, None)
        older = self._links.get(hello.node)
        self._links[hello.node] = link
        if older is not None and self._guards.old_connections_dropped:
            older.close()
        log.info("%s is connected with %s", self.node_id, hello.node, extra={"peer": hello.node})
        self._on_connected(hello, link.number)

    def lost(self, link: Link) -> None:
        self._all.pop(link, None)
        self._pending.remove(link)
        if link.peer is None:
            return
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            log.info("%s lost its connection with %s", self.node_id, link.peer, extra={"peer": link.peer})
        self._on_disconnected(link.peer, link.number)

    async def _dial(self, peer: str, address: str) -> None:
        loop, options = asyncio.get_running_loop(), self.options
        host, port = split_address(address)
        pause = options.connect_min_ms / 1000
        while True:
            late = (peer, address) in self._late
            if late or peer in self._links:
                wait_ms = options.connect_late_ms if late else options.connect_max_ms
                await asyncio.sleep(wait_ms / 1000 * self._rng.uniform(0.75, 1.25))
                if peer in self._links:
                    continue
            if self._first.get(peer) == address:
                self._in_vain.setdefault(peer, self.now())
            link: Link | None = None
            try:
                async with asyncio.timeout(options.handshake_ms / 1000):
                    _, link = await loop.create_connection(lambda: Link(self, peer), host, port)
            except (OSError, TimeoutError):
                pass
            except Exception as error:  # a name that cannot be one raises ValueError; a peer is dialled for ever
                background.note("peers", error, f"{peer} at {host}:{port}")
            if link is not None:
                await asyncio.shield(link.closed)
                if link.peer is not None:
                    pause = options.connect_min_ms / 1000
                self._found_at(link.found, address)
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
            pause = min(pause * 2, options.connect_max_ms / 1000)


async def _stop_accepting(server: asyncio.Server) -> None:
    """Closes the server, but no connection that it has just taken behind its back.

    Such a connection is attached to its server one turn of the event loop after it was taken. When the server is closed
    by then, asyncio (up to Python 3.13) forgets the connection with its socket open.
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock.fileno())
    await asyncio.sleep(0)  # what was taken is attached
    server.close()
    await asyncio.sleep(0)  # and its link is known


_KEEP_ALIVE = codec.encode(codec.KeepAlive())
