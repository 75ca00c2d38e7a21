"""The trial: what strangers and members say wrongly to a node changes nothing there, and is counted.

The node is one of three, formed, with a few entries; the two others are stopped, so that nothing but the frames can
change it. Links are made by hand, without sockets. A frame that decodes is something that a member may say: as a member
only those are said of which a Raft node must not take notice (an older term), and all others before the handshake.
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from raftsched.raft import Raft, codec
from raftsched.raft.transport.link import Link, proof
from raftsched.raft.transport.tls import Contexts, KeyTls, Plain, Seal
from raftsched.system.clock import SystemClock
from tests.sim.checks import state_hash
from tests.support.raft_cluster import BARRIER, FAST, Cluster, until

KEY = b"secret"  # of the cluster's nodes
GREW_MAX = 24 << 20  # bytes of memory, after the first tenth
LINES = 50  # links between two turns of the event loop
_HEAD = struct.Struct(">II")
_EDGES = (0, 1, -1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))


@dataclass
class Found:
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Away(asyncio.Transport):
    """The node's end of a connection; what it says is kept until it is read."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.closed = False
        self.said = bytearray()

    def write(self, data: Any) -> None:
        self.said += data

    def abort(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


class Connection:
    """The other end."""

    def __init__(self, node: Raft, contexts: Contexts | None, rng: random.Random) -> None:
        self.socket = Away()
        self.link = Link(node._transport, None)
        self._rng = rng
        self._reader = codec.Reader(1 << 24)
        self._sent = bytearray()
        self.link.connection_made(self.socket)
        self._seal = None if contexts is None else Seal(contexts, False, self._sent.extend)
        if self._seal is not None:
            self._seal.begin()
            self._pass()

    def say(self, data: bytes) -> list[codec.Frame]:
        """Returns what the node answers at once."""
        if self._seal is None:
            self._sent += data
        else:
            self._seal.send(data)
        return self._pass()

    def _pass(self) -> list[codec.Frame]:
        answers: list[codec.Frame] = []
        while self._sent:
            data = bytes(self._sent)
            self._sent.clear()
            if not self.socket.closed:
                self.link.data_received(data)
            self.link.flush()
            said = bytes(self.socket.said)
            self.socket.said.clear()
            opened = self._seal.feed(said) if self._seal is not None and said else said
            answers += self._reader.feed(opened)
        return answers

    def greet(self, as_node: str, to: str) -> None:
        self._mine = codec.Greeting(codec.PROTOCOL, as_node, to, self._rng.randbytes(32))
        (theirs,) = self.say(codec.encode(self._mine))
        assert isinstance(theirs, codec.Greeting)
        self._theirs = theirs

    def shake(self, hello: codec.Hello, to: str) -> None:
        """As a member."""
        self.greet(hello.node, to)
        binding = b"" if self._seal is None else self._seal.binding
        self.say(codec.encode(codec.Proof(proof(KEY, b"dial", self._mine, self._theirs, binding))))
        answers = self.say(codec.encode(hello))
        assert any(isinstance(frame, codec.Welcome) for frame in answers), answers

    def end(self) -> None:
        self.link.connection_lost(None)


async def fuzz(directory: Path, rng: random.Random, frames: int, tls_share: float) -> Found:
    """`tls_share` of the connections are sealed."""
    found = Found()
    options = replace(FAST, handshakes_per_s=1e12)
    async with Cluster(directory, options=options) as cluster:
        await cluster.start(wire=Plain())
        leader = await cluster.leader()
        for _ in range(5):
            await leader.propose([BARRIER])
        hellos = {name: node._replica.hello() for name, node in cluster.nodes.items()}
        await until(lambda: len({node.applied_index for node in cluster.nodes.values()}) == 1)
        away = {"a": address(cluster), "c": address(cluster)}
        for name in "abc":
            await cluster.stop(name)
        cluster.addresses.update(away)
        await cluster.start("b", wire=Plain())
        node = cluster.nodes["b"]
        await asyncio.sleep(0)
        await _speak(node, cluster, hellos, rng, frames, tls_share, found)
        if cluster.fatal:
            found.wrong.append(f"the node stopped: {cluster.fatal[0]!r}")
    return found


def address(cluster: Cluster) -> str:
    """Where nobody listens."""
    return f"127.0.0.1:{cluster.nobody.getsockname()[1]}"


async def _speak(
    node: Raft,
    cluster: Cluster,
    hellos: dict[str, codec.Hello],
    rng: random.Random,
    frames: int,
    tls_share: float,
    found: Found,
) -> None:
    sealed, plain = KeyTls(SystemClock().wall_ms()), Plain()
    transport, store = node._transport, cluster.stores["b"]
    state = (node.term, node.commit_index, node.applied_index, node.last_index, state_hash(store))
    said: Counter[str] = Counter()
    refused, started, first_rss = 0, time.monotonic(), 0
    connections = 0
    while said["strangers"] + said["members"] < frames:
        done = said["strangers"] + said["members"]
        if not first_rss and done >= frames // 10:
            first_rss = memory()
        member = said["members"] < said["strangers"]
        tls = rng.random() < tls_share
        transport.wire = sealed if tls else plain
        counted = sum(transport.refusals.counts.values())
        connection = Connection(node, sealed.contexts() if tls else None, rng)
        try:
            kind = "members" if member else "strangers"
            if member:
                connection.shake(hellos["a"], "b")  # who dials b; c is dialled
            elif rng.random() < 0.5:
                connection.greet(rng.choice("ac"), "b")
            shadow = codec.Reader(FAST.frame_max_bytes if member else 4 * 1024)
            no = False
            for data in wrong(rng, node.term, member):
                said[kind] += 1
                no = says_no(shadow, data) or no
                connection.say(data)
                if connection.socket.closed:
                    break
            closed = connection.socket.closed
            grown = sum(transport.refusals.counts.values()) - counted
            refused += grown
            if grown != closed and not (no and closed):
                found.wrong.append(f"a connection that was {'' if closed else 'not '}closed was counted {grown} times")
        finally:
            connection.end()
        connections += 1
        if connections % LINES == 0:
            await asyncio.sleep(0)
        if cluster.fatal or len(found.wrong) > 10:
            break
    now = (node.term, node.commit_index, node.applied_index, node.last_index, state_hash(store))
    if now != state:
        found.wrong.append(f"the state changed: {state} -> {now}")
    grew = memory() - first_rss if first_rss else 0
    if grew > GREW_MAX:
        found.wrong.append(f"the node grew by {grew >> 20} MiB")
    if len(transport._pending) or len(transport.refusals._logged) > 200:
        found.wrong.append("it remembers strangers")
    took = time.monotonic() - started
    found.figures.update(
        frames=said.total(),
        **said,
        connections=connections,
        refused=refused,
        counts={why: count for why, count in node.refused().items() if count},
        seconds=round(took, 1),
        grew_kib=grew >> 10,
        term=node.term,
        applied=node.applied_index,
    )


def says_no(shadow: codec.Reader, data: bytes) -> bool:
    """Whether the node reads a refusal in it: who says no is not refused."""
    try:
        return any(isinstance(frame, codec.Refused) for frame in shadow.feed(data))
    except codec.Malformed:
        return False


def wrong(rng: random.Random, term: int, member: bool) -> Iterator[bytes]:
    """Frames in a row, until the connection is closed for one of them."""
    for _ in range(rng.randrange(1, 40) if member else 3):
        data = one(rng, term)
        if member and not harmless(data, term):
            continue
        yield data
    yield b"\xff" * 8


def harmless(data: bytes, term: int) -> bool:
    """Whether a member may say it without any effect, or it is no frame."""
    try:
        frames = list(codec.Reader(FAST.frame_max_bytes).feed(data))
    except codec.Malformed:
        return True
    if len(frames) != 1 or _HEAD.size + _HEAD.unpack_from(data)[0] != len(data):
        return False  # more is to come, and would be taken for the rest of it
    frame = frames[0]
    if isinstance(frame, codec.KeepAlive | codec.Greeting | codec.Proof | codec.Welcome):
        return True
    late = getattr(frame, "term", None)
    return (
        late is not None
        and (late < term or late > term + codec.TERMS_AHEAD_MAX)
        and not isinstance(frame, codec.PreVoteAnswer | codec.TransferLeadership)
    )


def one(rng: random.Random, term: int) -> bytes:
    style = rng.random()
    if style < 0.1:
        return rng.randbytes(rng.randrange(1, 200))
    frame = sample(rng, rng.randrange(term))
    if style < 0.3:
        return codec.encode(frame)
    body = bytearray(codec.payload(frame))
    if style < 0.6:
        for _ in range(rng.randrange(1, 4)):
            bend(rng, body)
    elif style < 0.9:
        body = bytearray(msgspec.msgpack.encode(twisted(rng, msgspec.msgpack.decode(bytes(body)))))
    size, checksum = len(body), crc32(body)
    if style >= 0.95:
        size = rng.choice([size + 1, max(0, size - 1), 2**32 - 1, rng.getrandbits(32)])
    elif style >= 0.9:
        checksum ^= 1 << rng.randrange(32)
    return _HEAD.pack(size, checksum) + body


def bend(rng: random.Random, body: bytearray) -> None:
    at = rng.randrange(len(body) + 1)
    match rng.randrange(4):
        case 0:
            del body[at:]
        case 1:
            body[at:at] = rng.randbytes(rng.randrange(1, 9))
        case 2 if at < len(body):
            del body[at]
        case _ if at < len(body):
            body[at] = rng.randrange(256)
    if not body:
        body += b"\xc0"


def twisted(rng: random.Random, value: Any) -> Any:
    """Another value somewhere in it."""
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], twisted(rng, value[at]), *value[at + 1 :]] if rng.random() < 0.95 else value[:at]
    choices = [
        *_EDGES,
        None,
        True,
        b"",
        "x",
        "\ud7ff",
        rng.randbytes(70),
        [],
        {},
        [[[[[]]]]],
        {"a": 1},
        1.5,
        [value] * 3,
    ]
    return rng.choice(choices)


def sample(rng: random.Random, term: int) -> codec.Frame:
    """One of every kind, as a member of an older term would say it."""
    number, text = rng.randrange(20), rng.randbytes(rng.randrange(64))
    kinds: list[codec.Frame] = [
        codec.Greeting(codec.PROTOCOL, "a", "b", rng.randbytes(32)),
        codec.Hello(
            codec.PROTOCOL, "a", text, b"", True, False, b"", "h:1", {"a": text}, number + 1, [rng.randbytes(8)]
        ),
        codec.Proof(rng.randbytes(32)),
        codec.Refused("because"),
        codec.Welcome(),
        codec.KeepAlive(),
        codec.Append(term, number, term, number, [(term, text)] * rng.randrange(4)),
        codec.AppendAnswer(term, number, True, False),
        codec.VoteRequest(term, number, term),
        codec.VoteAnswer(term, True),
        codec.PreVoteRequest(term, number, term, number),
        codec.PreVoteAnswer(term, number, True),
        codec.Ping(term, number),
        codec.Pong(term, number, number, True),
        codec.TimeoutNow(term),
        codec.Propose(term, [(number, number, [text])]),
        codec.ProposeRefused(term),
        codec.ProposeRejected(term, number, [0]),
        codec.Message("heartbeat", text),
        codec.ChangeMembers(number, "remove", "c", b""),
        codec.TransferLeadership(number, "a", term),
        codec.Answered(number, "", ""),
        codec.SnapshotAnswer(term, number, text, number),
        codec.SnapshotOffer(term, number, term, number, text),
        codec.SnapshotChunk(term, number, number, crc32(text), text),
    ]
    return rng.choice(kinds)


def memory() -> int:
    """Bytes of this process (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
