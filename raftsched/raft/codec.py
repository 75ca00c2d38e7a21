"""What nodes say to each other: fixed msgpack schemas in length-prefixed, checksummed frames. No pickle.

A frame is length (4 bytes, of the payload), CRC-32 of the payload (4), payload. Anything that does not decode closes
the connection. Message numbers are never reused; fields are added last with a default.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec

PROTOCOL = 1

_HEAD = struct.Struct(">II")


class Malformed(Exception):
    """Not a frame of this protocol; the connection is closed."""


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Who a node is; also sent again when that changes."""

    protocol: int
    node: str
    store_id: bytes
    cluster_id: bytes  # empty: not known
    formed: bool  # the members are in its state
    empty: bool  # has no log, no term, no members
    peers_hash: bytes  # of the configured node ids
    http: str  # advertised host:port of the API
    remembered: dict[str, bytes]  # node id -> store id; empty: none yet
    to: str = ""  # whom it is meant for
    nonce: bytes = b""
    raft: str = ""  # advertised host:port for the other nodes
    configuration: int = 0  # index of the entry that `remembered` comes from
    learners: list[str] = []  # of `remembered`, those that catch up
    addresses: dict[str, str] = {}  # of `remembered`, host:port: a new node asks all of them to be let in
    agreed: bool = False  # every listed node has said that it remembers what `remembered` says


class Proof(msgspec.Struct, array_like=True, frozen=True, tag=2):
    mac: bytes


class Refused(msgspec.Struct, array_like=True, frozen=True, tag=3):
    reason: str
    quiet: bool = False  # nothing that an operator wants to know


class Welcome(msgspec.Struct, array_like=True, frozen=True, tag=4):
    pass


class KeepAlive(msgspec.Struct, array_like=True, frozen=True, tag=5):
    pass


class Append(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """Entries that follow (prev_index, prev_term): (term, data) each."""

    term: int
    prev_index: int
    prev_term: int
    commit: int
    entries: list[tuple[int, bytes]]


class AppendAnswer(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """success: everything below next_index matches and is durable. reset: start at next_index or lower."""

    term: int
    next_index: int
    success: bool
    reset: bool


class VoteRequest(msgspec.Struct, array_like=True, frozen=True, tag=12):
    term: int
    last_index: int
    last_term: int


class VoteAnswer(msgspec.Struct, array_like=True, frozen=True, tag=13):
    term: int
    granted: bool


class PreVoteRequest(msgspec.Struct, array_like=True, frozen=True, tag=14):
    """Would you vote for me in `term`? Changes nothing at the asked node."""

    term: int
    last_index: int
    last_term: int
    round: int


class PreVoteAnswer(msgspec.Struct, array_like=True, frozen=True, tag=15):
    term: int  # the answering node's
    round: int
    granted: bool


class Ping(msgspec.Struct, array_like=True, frozen=True, tag=16):
    term: int
    sent_at_ms: int  # boot clock of the leader
    log_ms: int = 0  # what it would stamp on an entry now; 0: it does not know its clock yet


class Pong(msgspec.Struct, array_like=True, frozen=True, tag=17):
    """Answered at once with the term in memory, so that a vote on its way to the disk is reflected."""

    term: int
    sent_at_ms: int  # as in the ping
    wall_ms: int
    accepted: bool


class TimeoutNow(msgspec.Struct, array_like=True, frozen=True, tag=18):
    """The leader hands over: campaign at once."""

    term: int


class Propose(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """A follower's batches for the leader of `term`: (origin, seq, encoded commands)."""

    term: int
    batches: list[tuple[int, int, list[bytes]]]


class ProposeRefused(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Not taken (not the leader of that term, or too much waits): send again."""

    term: int


class Message(msgspec.Struct, array_like=True, frozen=True, tag=22):
    """A message between other rooms."""

    kind: str
    payload: bytes


class ChangeMembers(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """To the leader: add, remove or replace `node`. Asked until it is answered; doing it twice changes nothing."""

    request: int
    change: str
    node: str
    store_id: bytes  # empty: whichever disk asks to be let in


class TransferLeadership(msgspec.Struct, array_like=True, frozen=True, tag=41):
    """To the leader: hand over to `to` (empty: to whoever is best, but once only: see `term`)."""

    request: int
    to: str
    term: int  # whose leadership, as far as the asking node knows


class Answered(msgspec.Struct, array_like=True, frozen=True, tag=42):
    """What became of a request to the leader. `code` is empty for done, "moved" for: ask the next leader."""

    request: int
    code: str
    detail: str


class SnapshotAnswer(msgspec.Struct, array_like=True, frozen=True, tag=31):
    """To offers and chunks: the receiver has everything below `offset` (size: all of it) of exactly this snapshot."""

    term: int
    index: int
    sha256: bytes
    offset: int


class SnapshotOffer(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """What the leader of `term` has: the state as of (index, snapshot_term), a file of `size` bytes."""

    term: int
    index: int
    snapshot_term: int
    size: int
    sha256: bytes


class SnapshotChunk(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """A part of what was offered last; (number 30 was one that needed no offer)."""

    term: int
    index: int
    offset: int
    checksum: int  # CRC-32 of data
    data: bytes


Frame = (
    Hello
    | Proof
    | Refused
    | Welcome
    | KeepAlive
    | Append
    | AppendAnswer
    | VoteRequest
    | VoteAnswer
    | PreVoteRequest
    | PreVoteAnswer
    | Ping
    | Pong
    | TimeoutNow
    | Propose
    | ProposeRefused
    | Message
    | ChangeMembers
    | TransferLeadership
    | Answered
    | SnapshotAnswer
    | SnapshotOffer
    | SnapshotChunk
)

HANDSHAKE = (Hello, Proof, Refused, Welcome)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Frame)


def payload(frame: Frame) -> bytes:
    """The frame's content without length and checksum."""
    return _encoder.encode(frame)


def encode(frame: Frame) -> bytes:
    body = _encoder.encode(frame)
    return _HEAD.pack(len(body), crc32(body)) + body


def decode(body: bytes | bytearray | memoryview) -> Frame:
    """Raises Malformed."""
    try:
        frame: Frame = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"not a message of this protocol: {error}") from None
    return frame


class Reader:
    """Cuts a stream of bytes into frames."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Raises Malformed: over the size limit, wrong checksum, unknown content."""
        self._buffer += data
        buffer = self._buffer
        start = 0
        try:
            while len(buffer) - start >= _HEAD.size:
                size, checksum = _HEAD.unpack_from(buffer, start)
                if size > self.max_bytes:
                    raise Malformed(f"a frame of {size} bytes is over the limit of {self.max_bytes}")
                end = start + _HEAD.size + size
                if len(buffer) < end:
                    break
                body = bytes(memoryview(buffer)[start + _HEAD.size : end])
                if crc32(body) != checksum:
                    raise Malformed("a frame's checksum is wrong")
                start = end
                yield decode(body)
        finally:
            if start:
                del buffer[:start]
