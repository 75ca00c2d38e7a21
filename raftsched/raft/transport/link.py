"""Connects two members: sealed, proved from both ends, then frames.

The dialer greets with an id and a nonce, and so does the acceptor; the dialer proves that it holds the key, and only
then the acceptor does, and says hello: who it is, its disk, its members. The dialer says hello, and is welcomed. A
proof is an HMAC-SHA256 over both greetings and the acceptor's certificate as each end sees it. Frames flow only then.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Protocol, cast

from raftsched.raft import codec
from raftsched.raft.options import RaftOptions
from raftsched.raft.transport.refusals import Refusals
from raftsched.raft.transport.tls import Broken, Seal, Wire

_GREETING_MAX_BYTES = 4 * 1024  # from an end that has proved nothing
_HELLO_MAX_BYTES = 64 * 1024
_NONCE_MIN_BYTES = 16
_OF_LINKS = frozenset({*codec.HANDSHAKE, codec.KeepAlive})
_REASON_CHARS = 600  # of a refusal, which may quote a stranger


def proof(key: bytes, role: bytes, dialer: codec.Greeting, acceptor: codec.Greeting, binding: bytes) -> bytes:
    """Returns the proof that `role` (b"dial" or b"accept") has the key. `binding`: SHA-256 of the certificate that the
    acceptor showed (as in RFC 5929, 4); empty without TLS."""
    greetings = sha256(codec.payload(dialer)).digest() + sha256(codec.payload(acceptor)).digest()
    return hmac.digest(key, b"raftsched/2 " + role + b"\0" + greetings + binding, "sha256")


class Owner(Protocol):
    """The part of the transport that a link needs: this node's own side, and who hears what the link brings."""

    node_id: str
    keys: tuple[bytes, ...]
    wire: Wire
    refusals: Refusals
    options: RaftOptions
    now: Callable[[], float]
    nonce: Callable[[int], bytes]
    hello: Callable[[], codec.Hello]
    refusal: Callable[[codec.Hello], str | None]
    on_frame: Callable[[str, int, codec.Frame], None]

    def dials(self, peer: codec.Hello) -> bool: ...
    def looked_for(self) -> Iterable[str]: ...
    def verifies(self, frame: codec.Proof, expected: bytes) -> bool: ...
    def opened(self, link: Link) -> None: ...
    def proved(self, link: Link) -> None: ...
    def welcomed(self, link: Link, hello: codec.Hello) -> None: ...
    def lost(self, link: Link) -> None: ...
    def unsent(self, link: Link) -> None: ...


class Link(asyncio.Protocol):
    """One TCP connection, from the handshake to its end."""

    def __init__(self, owner: Owner, expected: str | None) -> None:
        self.expected = expected  # the peer that was dialled; None: accepted
        self.peer: str | None = None  # once open
        self.found: str | None = None  # who says that it is at this address, where another peer was dialled
        self.proven = False  # the other end holds the key
        self.step = 0  # progress of the handshake
        self.number = 0
        self.heard_at = self.sent_at = self.opened_at = owner.now()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = owner
        self._reader = codec.Reader(_GREETING_MAX_BYTES)
        self._transport: asyncio.Transport | None = None
        self._seal: Seal | None = None
        self._mine: codec.Greeting | None = None
        self._theirs: codec.Greeting | None = None
        self._hello: codec.Hello | None = None  # the acceptor's, at the dialer
        self._said: codec.Hello | None = None  # this end's
        self._out: list[bytes] = []
        self._out_bytes = 0

    # ------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods, not by its class
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner.opened(self)
        if self._transport.is_closing():
            return
        contexts = self._owner.wire.contexts()
        if contexts is not None:
            self._seal = Seal(contexts, self.expected is None, self._transport.write)
            if self.expected is not None:
                self._seal.begin()
        elif self.expected is not None:
            self._greet(self.expected)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._owner.now()
        try:
            if self._seal is not None:
                shaken = self._seal.done
                data = self._seal.feed(data)
                if not shaken and self._seal.done:
                    self._sealed()
                if not data:
                    return
            for frame in self._reader.feed(data):
                if self._transport is None or self._transport.is_closing():
                    return
                if self.peer is None:
                    self._on_handshake_frame(frame)
                elif type(frame) not in _OF_LINKS:
                    self._owner.on_frame(self.peer, self.number, frame)
                else:
                    self._on_member_frame(frame, self.peer)
        except codec.Malformed as error:
            self.close(f"{self.name} sent what is not a message: {error}", "malformed")
        except Broken as error:
            self.close(self._why_broken(error), "tls")

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
    def address(self) -> str:
        """Address of the other end, without its port."""
        address = self._transport.get_extra_info("peername") if self._transport else None
        return str(address[0]) if isinstance(address, tuple) else ""

    @property
    def _host(self) -> str:
        """The other end's name for counting refusals: its next connection comes from another port, with the same
        faults."""
        return self.peer or self.expected or self.address or "a connection"

    def send(self, data: bytes) -> bool:
        """Gathers frames until the owner calls `flush`; False when the connection is gone or too slow."""
        if self._transport is None or self._transport.is_closing():
            return False
        if not self._out:
            self._owner.unsent(self)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._transport.get_write_buffer_size() + self._out_bytes > self._owner.options.send_buffer_bytes:
            self.close(f"{self.name} reads too slowly: closing its connection")
            return False
        return True

    def flush(self) -> None:
        """Hands the gathered frames to the connection, as one piece."""
        if not self._out or self._transport is None or self._transport.is_closing():
            return
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        self.sent_at = self._owner.now()
        if self._seal is None:
            self._transport.write(data)
            return
        try:
            self._seal.send(data)
        except Broken as error:
            self.close(self._why_broken(error), "tls")

    def close(self, line: str | None = None, why: str = "") -> None:
        """Closes at once, dropping unsent bytes. `why`: a reason of Refusals, when the other end is to blame."""
        if line is not None:
            self._owner.refusals.refused(why, self._host, line) if why else self._owner.refusals.log_line(
                "closed", self._host, line
            )
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """Closes when everything sent is out."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def refuse(self, reason: str, why: str = "", node: str = "") -> None:
        """Refuses the other end. Without `why` the reason does not interest an operator. Reasons are told apart in the
        log only for an end that holds the key, as they may quote a stranger. `node`: this one, for who looked for
        another one here."""
        reason = reason[:_REASON_CHARS]
        if why:
            line = f"connection with {self.name} refused: {reason}"
            self._owner.refusals.refused(why, self._host, line, reason if self.proven else "")
        if self._transport is not None:
            self.send(codec.encode(codec.Refused(reason, not why, node)))
            self.end()

    # ------------------------------------------------------------ handshake

    def _sealed(self) -> None:
        assert self._seal is not None
        self.step = 1
        if self.expected is not None:
            if self._seal.names(self.expected):
                self._greet(self.expected)
            else:
                self.found = next(filter(self._seal.names, self._owner.looked_for()), None)
                self.refuse(f"its certificate is not that of node {self.expected!r}", "wrong-member")

    def _why_broken(self, error: Broken) -> str:
        if self._seal is not None and self._seal.done:
            return f"the connection with {self.name} was disturbed on its way: {error}"
        return (
            f"TLS with {self.name} failed: {error}. All nodes of a cluster are started alike: with a key, or none; or"
            " it is of a version before 0.1.0, which spoke no TLS"
        )

    def _greet(self, to: str) -> None:
        owner = self._owner
        self._mine = codec.Greeting(codec.PROTOCOL, owner.node_id, to, owner.nonce(32))
        self.send(codec.encode(self._mine))

    def _on_handshake_frame(self, frame: codec.Frame) -> None:
        if isinstance(frame, codec.Refused):
            self.found = frame.node
            if not frame.quiet:
                reason = frame.reason[:_REASON_CHARS]
                about = reason if self.proven else ""
                line = f"{self.name} refuses this node: {reason!r}"
                self._owner.refusals.log_line("refuses this node", self._host, line, about)
            self.close()
        elif isinstance(frame, codec.Greeting) and self._theirs is None:
            self._on_greeting(frame)
        elif isinstance(frame, codec.Proof) and self._theirs is not None and not self.proven:
            self._on_proof(frame)
        elif isinstance(frame, codec.Hello) and self.proven and self._hello is None:
            self._on_hello(frame)
        elif isinstance(frame, codec.Welcome) and self.expected is not None and self._hello is not None:
            self._open(self._hello)
        else:
            self.close(f"{self.name} broke the handshake", "handshake")

    def _on_member_frame(self, frame: codec.Frame, peer: str) -> None:
        """Handles a member's frame about the connection itself or about its identity. Raises Malformed."""
        if isinstance(frame, codec.Refused):  # it refuses us after it was welcomed
            self._on_handshake_frame(frame)
        elif isinstance(frame, codec.Hello) and frame.node == peer:
            self._owner.on_frame(peer, self.number, frame)
        elif not isinstance(frame, codec.KeepAlive):
            raise codec.Malformed(f"a {type(frame).__name__} out of place")

    def _on_greeting(self, theirs: codec.Greeting) -> None:
        owner = self._owner
        self._theirs = theirs
        self.step = 2
        if theirs.protocol != codec.PROTOCOL:
            self.refuse(
                f"node {theirs.node!r} speaks protocol {theirs.protocol}, this node {codec.PROTOCOL}; stop all nodes,"
                " and start them with one version",
                "wrong-member",
            )
        elif self.expected is not None and (theirs.node != self.expected or theirs.to != owner.node_id):
            self.refuse(f"{theirs.node!r} answered where {self.expected!r} was expected", "wrong-member")
        elif theirs.to != owner.node_id:
            reason = f"{theirs.to!r} is not the node at this address; it is {owner.node_id!r}"
            self.refuse(reason, "wrong-member", owner.node_id)
        elif self._seal is not None and not self._seal.names(theirs.node):
            self.refuse(f"the certificate is not that of node {theirs.node!r}", "wrong-member")
        elif len(theirs.nonce) < _NONCE_MIN_BYTES:
            self.refuse("the greeting carries no nonce", "handshake")
        elif self.expected is None:
            self._greet(theirs.node)
        else:
            self._prove(next(iter(owner.keys)))

    def _on_proof(self, frame: codec.Proof) -> None:
        assert self._theirs is not None
        owner, role = self._owner, b"dial" if self.expected is None else b"accept"
        if not any(owner.verifies(frame, self._proof(key, role)) for key in owner.keys):
            self.refuse(
                f"{self._theirs.node!r} does not hold this cluster's key; use the same key file (or somebody sits"
                " between the nodes)",
                "wrong-key",
            )
            return
        self.proven, self.step = True, 3
        self._reader.max_bytes = _HELLO_MAX_BYTES
        owner.proved(self)
        if self.expected is None:
            self._prove(next(iter(owner.keys)))  # all members must be able to verify it
            self._introduce()

    def _on_hello(self, theirs: codec.Hello) -> None:
        assert self._theirs is not None
        owner = self._owner
        self._hello = theirs
        if theirs.node != self._theirs.node:
            self.close(f"{self.name} broke the handshake", "handshake")
            return
        reason = owner.refusal(theirs)
        if self.expected is not None:
            self._introduce()  # the other side learns our identity, refused or not
        if reason is not None:
            self.refuse(reason, "not-admitted")
        elif self.expected is None and owner.dials(theirs):
            self.refuse(f"{owner.node_id!r} dials {theirs.node!r}, not the other way round")
        elif self.expected is None:
            self.send(codec.encode(codec.Welcome()))
            self._open(theirs)

    def _prove(self, key: bytes) -> None:
        self.send(codec.encode(codec.Proof(self._proof(key, b"accept" if self.expected is None else b"dial"))))

    def _proof(self, key: bytes, role: bytes) -> bytes:
        assert self._mine is not None and self._theirs is not None  # noqa: PT018
        greetings = (self._mine, self._theirs) if self.expected is not None else (self._theirs, self._mine)
        return proof(key, role, *greetings, b"" if self._seal is None else self._seal.binding)

    def _introduce(self) -> None:
        """Says hello, unless that was said before."""
        hello = self._owner.hello()
        if hello != self._said:
            self._said = hello
            self.send(codec.encode(hello))

    def _open(self, theirs: codec.Hello) -> None:
        self._reader.max_bytes = self._owner.options.frame_max_bytes
        self.peer = theirs.node
        self._introduce()  # news that came during the handshake went to those that were connected by then
        self._owner.welcomed(self, theirs)


def keys_of(keys: Iterable[bytes]) -> tuple[bytes, ...]:
    """Returns the keys to prove and verify with; an empty key where there is none."""
    return tuple(keys) or (b"",)
