"""Encodes the messages between nodes: fixed msgpack schemas in length-prefixed, checksummed frames. No pickle.

A frame is length (4 bytes, of the payload), CRC-32 of the payload (4), payload. Anything that does not decode closes
the connection. Message numbers are never reused; fields are added last with a default.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Any
from zlib import crc32

import msgspec

from raftsched.core.limits import NOW_MAX_MS

PROTOCOL = 2

TERMS_AHEAD_MAX = 2**32  # no cluster elects so often: a term beyond that is a lie, and would be on the disk for good

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]  # terms, indices, bytes, milliseconds; the next one fits as well
Random = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # 63 bits of it
_Sum = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]  # CRC-32
_Start = Annotated[bytes, msgspec.Meta(max_length=64)]  # the random id of a node's start
_Moment = Annotated[int, msgspec.Meta(ge=0, le=NOW_MAX_MS)]

_HEAD = struct.Struct(">II")


class Malformed(Exception):
    """Raised for what is not a frame of this protocol; the connection is closed."""


class Greeting(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The first message of both ends: all that an unproven connection learns of this node."""

    protocol: Count
    node: str
    to: str  # the id of the addressed node
    nonce: bytes


class Hello(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """A node's identity, its disk and its members; sent again when they change."""

    protocol: Count
    node: str
    store_id: bytes
    cluster_id: bytes  # empty: not known
    formed: bool  # the members are in its state
    empty: bool  # has no log, no term, no members
    peers_hash: bytes  # hash of the configured node ids
    http: str  # advertised host:port of the API
    remembered: dict[str, bytes]  # node id -> store id; empty: none yet
    incarnation: Annotated[int, msgspec.Meta(ge=1, le=2**62)]  # number of starts of this disk
    starts: Annotated[list[_Start], msgspec.Meta(min_length=1)]  # the ids of its newest starts, newest first
    raft: str = ""  # advertised host:port for the other nodes
    configuration: Count = 0  # index of the entry that `remembered` comes from
    learners: list[str] = []  # those of `remembered` that catch up
    addresses: dict[str, str] = {}  # host:port of `remembered`: a new node asks all of them to be let in
    agreed: bool = False  # every listed node has said that it remembers what `remembered` says
    met: dict[str, tuple[Count, _Start]] = {}  # the newest start met of each disk in `remembered`: number, id
    # where members say that they are, as far as the node has heard: number of the start, host:port
    moved: dict[str, tuple[Count, str]] = {}
    election_ms: Count = 0  # the shortest silence of a leader before it begins an election; 0: of before it was told


class Proof(msgspec.Struct, array_like=True, frozen=True, tag=2):
    mac: bytes


class Refused(msgspec.Struct, array_like=True, frozen=True, tag=3):
    reason: str
    quiet: bool = False  # nothing that an operator wants to know
    node: str = ""  # who is at this address, where another one was looked for


class Welcome(msgspec.Struct, array_like=True, frozen=True, tag=4):
    pass


class KeepAlive(msgspec.Struct, array_like=True, frozen=True, tag=5):
    pass


class Append(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """Entries that follow (prev_index, prev_term): (term, data) each."""

    term: Count
    prev_index: Count
    prev_term: Count
    commit: Count
    entries: list[tuple[Count, bytes]]
    wants_answer: bool = True  # False: the commit index alone is the news, and a follower answers only if it differs


class AppendAnswer(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """success: everything below next_index matches and is durable. reset: start at next_index or lower."""

    term: Count
    next_index: Count
    success: bool
    reset: bool


class VoteRequest(msgspec.Struct, array_like=True, frozen=True, tag=12):
    term: Count
    last_index: Count
    last_term: Count


class VoteAnswer(msgspec.Struct, array_like=True, frozen=True, tag=13):
    term: Count
    granted: bool


class PreVoteRequest(msgspec.Struct, array_like=True, frozen=True, tag=14):
    """Asks whether the peer would vote for this node in `term`. Changes nothing at the asked node."""

    term: Count
    last_index: Count
    last_term: Count
    round: Count


class PreVoteAnswer(msgspec.Struct, array_like=True, frozen=True, tag=15):
    term: Count  # the answering node's
    round: Count
    granted: bool


class Ping(msgspec.Struct, array_like=True, frozen=True, tag=16):
    term: Count
    sent_at_ms: Count  # boot clock of the leader
    log_ms: _Moment = 0  # the log's time now; 0: the leader does not know it yet
    taken: Count = 0  # number of the newest batch that came from the other node


class Pong(msgspec.Struct, array_like=True, frozen=True, tag=17):
    """Answered at once with the term in memory, so that a vote on its way to the disk is reflected."""

    term: Count
    sent_at_ms: Count  # as in the ping
    wall_ms: Count
    accepted: bool


class TimeoutNow(msgspec.Struct, array_like=True, frozen=True, tag=18):
    """The leader hands over: campaign at once."""

    term: Count


class Propose(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """A follower's batches for the leader of `term`: (origin, seq, encoded commands)."""

    term: Count
    batches: list[tuple[Random, Count, list[bytes]]]


class ProposeRefused(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Answers that it was not taken (not the leader of that term, or too much waits): send again."""

    term: Count


class ProposeRejected(msgspec.Struct, array_like=True, frozen=True, tag=23):
    """The leader of `term` did not put this batch into the log: it does not accept the commands at `places`."""

    term: Count
    seq: Count
    places: list[Count]


class Message(msgspec.Struct, array_like=True, frozen=True, tag=22):
    """A message between other rooms."""

    kind: str
    payload: bytes


class ChangeMembers(msgspec.Struct, array_like=True, frozen=True, tag=40):
    """Asks the leader to add, remove or replace `node`. It is sent until it is answered; doing it twice changes
    nothing."""

    request: Annotated[int, msgspec.Meta(ge=0)]
    change: str
    node: str
    store_id: bytes  # empty: whichever disk asks to be let in


class TransferLeadership(msgspec.Struct, array_like=True, frozen=True, tag=41):
    """Asks the leader to hand over to `to` (empty: to whoever is best, but once only: see `term`)."""

    request: Annotated[int, msgspec.Meta(ge=0)]
    to: str
    term: Count  # term of the leadership to give away, as far as the asking node knows


class Answered(msgspec.Struct, array_like=True, frozen=True, tag=42):
    """The result of a request to the leader. `code` is empty for done, and "moved" for: ask the next leader."""

    request: Annotated[int, msgspec.Meta(ge=0)]
    code: str
    detail: str


class SnapshotAnswer(msgspec.Struct, array_like=True, frozen=True, tag=31):
    """Answers offers and chunks: the receiver has everything below `offset` (size: all of it) of exactly this
    snapshot."""

    term: Count
    index: Count
    sha256: bytes
    offset: Count


class SnapshotOffer(msgspec.Struct, array_like=True, frozen=True, tag=32):
    """Offers a snapshot by the leader of `term`: the state as of (index, snapshot_term), a file of `size` bytes."""

    term: Count
    index: Count
    snapshot_term: Count
    size: Count
    sha256: bytes


class SnapshotChunk(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """A part of what was offered last; (number 30 was one that needed no offer)."""

    term: Count
    index: Count
    offset: Count
    checksum: _Sum  # CRC-32 of data
    data: bytes


Frame = (
    Greeting
    | Hello
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
    | ProposeRejected
    | Message
    | ChangeMembers
    | TransferLeadership
    | Answered
    | SnapshotAnswer
    | SnapshotOffer
    | SnapshotChunk
)

HANDSHAKE = (Greeting, Hello, Proof, Refused, Welcome)
OF_CONSENSUS = (
    Append,
    AppendAnswer,
    VoteRequest,
    VoteAnswer,
    PreVoteRequest,
    PreVoteAnswer,
    Ping,
    Pong,
    TimeoutNow,
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Frame)


def payload(frame: Frame) -> bytes:
    """Returns the frame's content without length and checksum."""
    return _encoder.encode(frame)


def encode(frame: Frame) -> bytes:
    body = _encoder.encode(frame)
    return _HEAD.pack(len(body), crc32(body)) + body


def decode(body: bytes | bytearray | memoryview) -> Frame:
    """Returns the message. Raises Malformed."""
    try:
        frame: Frame = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"not a message of this protocol: {error}") from None
    return frame


def check_term(frame: Frame, term: int) -> None:
    """Raises Malformed when the frame's term is out of reach of `term`, which is this node's."""
    ahead = getattr(frame, "term", 0) - term
    if ahead > TERMS_AHEAD_MAX:
        raise Malformed(f"its term is {ahead} ahead")


class Reader:
    """Cuts a stream of bytes into frames."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that are complete. Raises Malformed: over the size limit, wrong checksum, unknown
        content."""
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
