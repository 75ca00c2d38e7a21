"""Handshake and links over real sockets, against a peer of our own making."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import ssl
import struct
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.raft import codec
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.membership.formation import peers_hash
from raftsched.raft.transport.link import proof
from raftsched.raft.transport.tls import KeyTls, Plain, Wire
from raftsched.raft.transport.transport import Transport
from raftsched.security import certificates
from raftsched.system.clock import SystemClock
from tests.support.patience import until, within
from tests.support.ports import closed_port
from tests.support.raft_cluster import BARRIER, FAST, Cluster, address_of, listening
from tests.support.raft_replica import hello

KEY = b"the cluster's key"
both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


class Bed:
    """A transport of node "b" that records what happens to it."""

    def __init__(
        self,
        guards: Guards = ALL,
        wire: Wire | None = None,
        keys: Iterable[bytes] = (KEY,),
        node: str = "b",
        **limits: Any,
    ) -> None:
        self.sock = listening()
        self.port = self.sock.getsockname()[1]
        self.events: list[tuple[Any, ...]] = []
        self.refusals: dict[str, str] = {}
        self.hellos = [mine(node)]  # the last one stays
        self.transport = Transport(
            node,
            self.sock,
            keys,
            wire or KeyTls(SystemClock().wall_ms()),
            SystemClock(),
            random.Random(),
            replace(FAST, **limits),
            guards,
            hello=lambda: self.hellos.pop(0) if len(self.hellos) > 1 else self.hellos[0],
            refusal=lambda h: self.refusals.get(h.node),
            on_connected=lambda h, number: self.events.append(("up", h.node, number)),
            on_disconnected=lambda peer, number: self.events.append(("down", peer, number)),
            on_frame=lambda peer, number, frame: self.events.append(("frame", peer, number, frame)),
        )

    async def __aenter__(self) -> Bed:
        await self.transport.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.transport.stop()

    def kinds(self) -> list[str]:
        return [event[0] for event in self.events]

    def refused(self) -> dict[str, int]:
        return {why: count for why, count in self.transport.refusals.counts.items() if count}


def mine(node: str) -> codec.Hello:
    return hello(node, peers_hash=peers_hash(["a", "b"]))


NEWS = msgspec.structs.replace(mine("b"), moved={"c": (2, "127.0.0.1:9")})


def anybody() -> ssl.SSLContext:
    """Takes every certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def greeting(node: str = "a", to: str = "b") -> codec.Greeting:
    return codec.Greeting(codec.PROTOCOL, node, to, secrets.token_bytes(32))


class Peer:
    """A node "a" made by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.frames = codec.Reader(1 << 24)
        self.got: list[codec.Frame] = []
        tls = writer.get_extra_info("ssl_object")
        self.binding = sha256(tls.getpeercert(True)).digest() if tls is not None and not tls.server_side else b""

    @classmethod
    async def dial(cls, port: int, tls: bool = True) -> Peer:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=anybody() if tls else None))

    def send(self, *frames: codec.Frame) -> None:
        self.writer.write(b"".join(map(codec.encode, frames)))

    async def next(self) -> codec.Frame | None:
        """None: the connection ended."""
        while not self.got:
            try:
                data = await within(self.reader.read(1 << 16))
            except (ConnectionError, ssl.SSLError):
                data = b""
            if not data:
                return None
            self.got.extend(self.frames.feed(data))
        return self.got.pop(0)

    async def ended(self) -> bool:
        while (frame := await self.next()) is not None:
            assert isinstance(frame, codec.KeepAlive | codec.Refused | codec.Welcome)
        return True

    async def shake(self, node: str = "a", to: str = "b", key: bytes = KEY, proven: bytes = KEY) -> codec.Frame | None:
        """Goes through the handshake as the dialer; returns what it ends with. `proven`: the key of the other end."""
        dialer = greeting(node, to)
        self.send(dialer)
        acceptor = await self.next()
        if not isinstance(acceptor, codec.Greeting):
            return acceptor
        self.send(codec.Proof(proof(key, b"dial", dialer, acceptor, self.binding)))
        theirs = await self.next()
        if not isinstance(theirs, codec.Proof):
            return theirs
        assert theirs.mac == proof(proven, b"accept", dialer, acceptor, self.binding)
        assert isinstance(await self.next(), codec.Hello)
        self.send(mine(node))
        return await self.next()

    async def close(self) -> None:
        self.writer.transport.abort()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            pass


def test_a_peer_with_the_key_is_welcome() -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            peer = await Peer.dial(bed.port)
            assert isinstance(await peer.shake(), codec.Welcome)
            peer.send(codec.Ping(1, 2), codec.KeepAlive())
            await until(lambda: "frame" in bed.kinds())
            assert bed.events == [("up", "a", 1), ("frame", "a", 1, codec.Ping(1, 2))]
            assert bed.transport.send("a", codec.TimeoutNow(4))
            assert await peer.next() == codec.TimeoutNow(4)
            await peer.close()
            await until(lambda: "down" in bed.kinds())
            assert not bed.transport.send("a", codec.TimeoutNow(4))

    asyncio.run(scenario())


def test_a_peer_is_told_what_became_known_while_it_shook_hands() -> None:
    """The hello was on its way by then, and the peer was not among the connected ones that are told."""

    async def scenario() -> None:
        async with Bed() as bed:
            bed.hellos.append(NEWS)
            peer = await Peer.dial(bed.port)
            assert isinstance(await peer.shake(), codec.Welcome)
            assert await peer.next() == NEWS
            await peer.close()
            peer = await Peer.dial(bed.port)
            assert isinstance(await peer.shake(), codec.Welcome)
            assert bed.transport.send("a", codec.TimeoutNow(4))
            assert await peer.next() == codec.TimeoutNow(4), "there was no news"
            await peer.close()

    asyncio.run(scenario())


def test_who_is_dialled_is_told_what_became_known_while_it_shook_hands() -> None:
    async def scenario() -> None:
        async with Bed(wire=Plain()) as bed:
            bed.hellos.append(NEWS)
            said: asyncio.Future[list[codec.Frame | None]] = asyncio.get_running_loop().create_future()

            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                peer, own = Peer(reader, writer), greeting("a", "b")
                dialer = await peer.next()
                assert isinstance(dialer, codec.Greeting)
                peer.send(own)
                assert isinstance(await peer.next(), codec.Proof)
                peer.send(codec.Proof(proof(KEY, b"accept", dialer, own, b"")), mine("a"))
                first = await peer.next()
                peer.send(codec.Welcome())
                said.set_result([first, await peer.next()])
                await peer.close()

            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            bed.transport.set_peers({"a": f"127.0.0.1:{server.sockets[0].getsockname()[1]}"})
            assert await within(said) == [mine("b"), NEWS]
            bed.transport.set_peers({})
            server.close()
            await server.wait_closed()

    asyncio.run(scenario())


@both
def test_a_peer_without_the_key_is_not(guarded: bool) -> None:
    async def scenario() -> None:
        async with Bed(Guards(peers_authenticated=guarded)) as bed:
            peer = await Peer.dial(bed.port)
            end = await peer.shake(key=b"guessed")
            if guarded:
                assert isinstance(end, codec.Refused)
                assert "key" in end.reason
                assert bed.events == []
            else:
                assert isinstance(end, codec.Welcome), "anybody is a member"
            await peer.close()

    asyncio.run(scenario())


def test_strangers_are_told_an_id_and_a_nonce_only() -> None:
    """Nothing that a key could be guessed against without asking, and nothing of the cluster."""

    async def scenario() -> None:
        async with Bed() as bed:
            peer = await Peer.dial(bed.port)
            peer.send(greeting())
            said = await peer.next()
            assert isinstance(said, codec.Greeting)
            assert (said.node, said.to, len(said.nonce)) == ("b", "a", 32)
            peer.send(codec.Proof(b"guessed"))
            assert isinstance(await peer.next(), codec.Refused)
            assert await peer.ended()
            assert bed.refused() == {"wrong-key": 1}
            await peer.close()

    asyncio.run(scenario())


def test_a_recorded_handshake_cannot_be_replayed() -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            dialer = codec.Greeting(codec.PROTOCOL, "a", "b", bytes(32))
            macs = []
            for _ in range(2):
                peer = await Peer.dial(bed.port)
                peer.send(dialer)
                acceptor = await peer.next()
                assert isinstance(acceptor, codec.Greeting)
                macs.append(proof(KEY, b"dial", dialer, acceptor, peer.binding))
                peer.send(codec.Proof(macs[0]))
                end = await peer.next()
                await peer.close()
            assert macs[0] != macs[1]
            assert isinstance(end, codec.Refused)

    asyncio.run(scenario())


def test_a_proof_that_is_sent_back_proves_nothing() -> None:
    """Two connections at once, one to each of two nodes: what one of them proves is no proof for the other."""

    async def scenario() -> None:
        async with Bed() as bed:
            peer, other = await Peer.dial(bed.port), await Peer.dial(bed.port)
            dialer = greeting()
            peer.send(dialer)
            acceptor = await peer.next()
            assert isinstance(acceptor, codec.Greeting)
            peer.send(codec.Proof(proof(KEY, b"dial", dialer, acceptor, peer.binding)))
            theirs = await peer.next()
            assert isinstance(theirs, codec.Proof)
            other.send(dialer)
            assert isinstance(await other.next(), codec.Greeting)
            other.send(theirs)
            assert isinstance(await other.next(), codec.Refused)
            assert bed.refused() == {"wrong-key": 1}
            await peer.close()
            await other.close()

    asyncio.run(scenario())


def test_a_proof_is_for_the_certificate_that_was_seen() -> None:
    """Who holds the key, and saw the certificate of somebody in between."""

    async def scenario() -> None:
        async with Bed() as bed:
            peer = await Peer.dial(bed.port)
            peer.binding = sha256(b"another certificate").digest()
            assert isinstance(await peer.shake(), codec.Refused)
            assert bed.refused() == {"wrong-key": 1}
            await peer.close()

    asyncio.run(scenario())


def test_every_key_of_the_file_is_taken() -> None:
    """So a key is changed on one node after the other. Both ends prove with their first one, which is what they seal
    with: a node that lacks it refuses the other, whoever dials."""

    async def scenario() -> None:
        async with Bed(keys=[b"the next key", KEY]) as bed:
            peer = await Peer.dial(bed.port)
            assert isinstance(await peer.shake(proven=b"the next key"), codec.Welcome)
            await peer.close()

    asyncio.run(scenario())


def test_without_tls_where_there_is_none() -> None:
    async def scenario() -> None:
        async with Bed(wire=Plain()) as bed:
            peer = await Peer.dial(bed.port, tls=False)
            assert isinstance(await peer.shake(), codec.Welcome)
            await peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("node", "to", "why"), [("a", "x", "not the node at this address"), ("c", "b", "not the other way round")]
)
def test_a_handshake_in_the_wrong_place_is_refused(node: str, to: str, why: str) -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            nobody = listening()  # accepts, says nothing
            bed.transport.set_peers({"c": address_of(nobody)})
            peer = await Peer.dial(bed.port)
            end = await peer.shake(node, to)
            nobody.close()
            assert isinstance(end, codec.Refused)
            assert why in end.reason
            assert bed.events == []
            await peer.close()

    asyncio.run(scenario())


def test_a_higher_node_that_is_not_known_may_dial() -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            peer = await Peer.dial(bed.port)
            assert isinstance(await peer.shake("c", "b"), codec.Welcome)
            await until(lambda: bed.kinds() == ["up"])
            await peer.close()

    asyncio.run(scenario())


def test_a_higher_node_may_dial_where_it_says_that_it_is_elsewhere() -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            nobody = listening()
            bed.transport.set_peers({"c": address_of(nobody)})
            assert bed.transport.dials(hello("c", raft=address_of(nobody)))
            assert not bed.transport.dials(hello("c", raft="127.0.0.1:9"))
            assert not bed.transport.dials(hello("a", raft=address_of(nobody)))
            nobody.close()

    asyncio.run(scenario())


def test_a_higher_node_may_dial_while_it_is_dialled_in_vain() -> None:
    """It is behind a wall that lets it out and nobody in, say."""

    async def scenario() -> None:
        async with Bed(connect_late_ms=20) as bed:
            peer = hello("c", raft=f"127.0.0.1:{closed_port()}")
            bed.transport.set_peers({"c": peer.raft})
            assert bed.transport.dials(peer)
            await until(lambda: not bed.transport.dials(peer))
            bed.transport.set_peers({"c": "127.0.0.1:9"})
            assert bed.transport.dials(hello("c", raft="127.0.0.1:9")), "not tried for long there"
            bed.transport.set_peers({})

    asyncio.run(scenario())


def test_a_node_looks_for_a_peer_in_all_places_where_it_may_be() -> None:
    async def scenario() -> None:
        async with Bed(connect_late_ms=20) as bed:
            arrived = asyncio.Event()

            async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                arrived.set()
                writer.close()

            server = await asyncio.start_server(greet, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            bed.transport.set_peers({"c": f"127.0.0.1:{closed_port()}"}, [("c", f"127.0.0.1:{port}"), ("x", "[::1]:9")])
            await within(arrived.wait())
            bed.transport.set_peers({})
            server.close()
            await server.wait_closed()

    asyncio.run(scenario())


def test_a_node_dials_who_does_not_dial_it() -> None:
    """A new node is not known to the members; a leader may not be known to a member that fell behind."""

    async def scenario() -> None:
        async with Bed(connect_late_ms=20) as bed:
            arrived = asyncio.Event()

            async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                arrived.set()
                writer.close()

            server = await asyncio.start_server(greet, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            bed.transport.set_peers({"a": f"127.0.0.1:{port}"})
            await within(arrived.wait())
            bed.transport.set_peers({})
            server.close()
            await server.wait_closed()

    asyncio.run(scenario())


@pytest.mark.parametrize("key", [KEY, b"guessed"], ids=["the key", "another"])
def test_who_is_dialled_proves_that_it_has_the_key(key: bytes) -> None:
    """Else whoever took a member's address could be it."""

    async def scenario() -> None:
        async with Bed(connect_late_ms=20) as bed:
            said: asyncio.Future[codec.Frame | None] = asyncio.get_running_loop().create_future()
            pair = certificates.make_ephemeral(SystemClock().wall_ms())
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificates.load_pair(context, pair)
            binding = sha256(certificates.der(pair.certificate)).digest()

            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                peer = Peer(reader, writer)
                dialer = await peer.next()
                assert isinstance(dialer, codec.Greeting)
                own = greeting("a", "b")
                peer.send(own)
                dials = await peer.next()
                assert isinstance(dials, codec.Proof)
                assert dials.mac == proof(KEY, b"dial", dialer, own, binding)
                peer.send(codec.Proof(proof(key, b"accept", dialer, own, binding)), mine("a"))
                if not said.done():
                    said.set_result(await peer.next())
                await peer.close()

            server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
            bed.transport.set_peers({"a": f"127.0.0.1:{server.sockets[0].getsockname()[1]}"})
            end = await within(said)
            assert isinstance(end, codec.Hello if key == KEY else codec.Refused)
            bed.transport.set_peers({})
            server.close()
            await server.wait_closed()

    asyncio.run(scenario())


def test_a_stranger_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            bed.refusals["a"] = "node 'a' has another disk"
            peer = await Peer.dial(bed.port)
            end = await peer.shake()
            assert end == codec.Refused("node 'a' has another disk")
            await peer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "another disk" in caplog.text


def test_who_is_refused_again_and_again_is_told_of_once_and_shortly(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            for _ in range(3):  # each from another port
                peer = await Peer.dial(bed.port)
                assert isinstance(await peer.shake(to=f"{secrets.token_hex(4)}{'x' * 2_000}"), codec.Refused)
                await peer.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    told = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert len(told) == 1
    assert len(told[0]) < 1_000


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">II", 1 << 30, 0),
        struct.pack(">II", 5_000, 0),  # within the limit for members, not for strangers
        codec.encode(codec.Ping(9, 9)),  # before the handshake
        codec.encode(codec.Welcome()),
        codec.encode(codec.Proof(b"")),
    ],
    ids=["http", "oversized", "large greeting", "ping", "welcome", "proof"],
)
def test_strangers_bytes_close_the_connection_and_change_nothing(data: bytes) -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            peer = await Peer.dial(bed.port)
            peer.writer.write(data)
            assert await peer.ended()
            assert bed.events == []
            await peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "data", [b"\xff" * 64, struct.pack(">II", FAST.frame_max_bytes + 1, 0)], ids=["garbage", "oversized"]
)
def test_a_members_malformed_frame_closes_the_connection(data: bytes) -> None:
    async def scenario() -> None:
        async with Bed() as bed:
            peer = await Peer.dial(bed.port)
            await peer.shake()
            peer.writer.write(data)
            assert await peer.ended()
            await until(lambda: bed.kinds() == ["up", "down"])
            await peer.close()

    asyncio.run(scenario())


@both
def test_only_the_newest_connection_of_a_peer_is_heard(guarded: bool) -> None:
    async def scenario() -> None:
        async with Bed(Guards(old_connections_dropped=guarded)) as bed:
            old = await Peer.dial(bed.port)
            await old.shake()
            new = await Peer.dial(bed.port)
            await new.shake()
            old.send(codec.Ping(1, 1))
            if guarded:
                assert await old.ended()
                assert "frame" not in bed.kinds()
            else:
                await until(lambda: "frame" in bed.kinds())
            new.send(codec.Ping(2, 2))
            await until(lambda: bed.events[-1][0] == "frame" and bed.events[-1][3] == codec.Ping(2, 2))
            assert bed.transport.is_connected("a")
            await old.close()
            await new.close()

    asyncio.run(scenario())


async def closed(reader: asyncio.StreamReader) -> bool:
    """Without a word."""
    try:
        return await within(reader.read()) == b""
    except ConnectionError:
        return True


async def ticking(bed: Bed) -> None:
    while True:
        bed.transport.tick()
        await asyncio.sleep(0.01)


def test_a_silent_peer_and_an_unfinished_handshake_are_closed() -> None:
    async def scenario() -> None:
        async with Bed(dead_peer_ms=200, handshake_ms=100) as bed:
            silent, unfinished = await Peer.dial(bed.port), await Peer.dial(bed.port)
            untouched = await asyncio.open_connection("127.0.0.1", bed.port)  # not even TLS
            await silent.shake()
            ticks = asyncio.create_task(ticking(bed))
            assert await closed(untouched[0])
            assert await unfinished.ended()
            assert await silent.ended()
            await until(lambda: bed.kinds() == ["up", "down"])
            assert bed.refused() == {"slow": 2}
            ticks.cancel()
            await silent.close()
            await unfinished.close()
            untouched[1].close()

    asyncio.run(scenario())


def test_an_idle_link_is_kept_alive() -> None:
    async def scenario() -> None:
        async with Bed(keepalive_ms=20) as bed:
            ticks = asyncio.create_task(ticking(bed))
            peer = await Peer.dial(bed.port)
            await peer.shake()
            assert isinstance(await peer.next(), codec.KeepAlive)
            ticks.cancel()
            await peer.close()

    asyncio.run(scenario())


def test_a_peer_that_does_not_read_loses_its_connection() -> None:
    async def scenario() -> None:
        async with Bed(send_buffer_bytes=1_000_000) as bed:
            peer = await Peer.dial(bed.port)
            await peer.shake()
            large = codec.Message("x", bytes(500_000))
            sent = 0
            while bed.transport.send("a", large):
                sent += 1
                await asyncio.sleep(0)
                assert sent < 1_000, "memory without limit"
            await until(lambda: "down" in bed.kinds())
            await peer.close()

    asyncio.run(scenario())


def test_connections_that_have_not_proved_themselves_are_few() -> None:
    async def scenario() -> None:
        async with Bed(pending_per_address=3) as bed:
            idle = [await asyncio.open_connection("127.0.0.1", bed.port) for _ in range(4)]
            assert await closed(idle[0][0])
            member = await Peer.dial(bed.port)
            assert isinstance(await member.shake(), codec.Welcome), "silent strangers keep nobody out"
            assert bed.refused() == {"too-many": 2}
            await member.close()
            for _, writer in idle:
                writer.close()

    asyncio.run(scenario())


def test_a_node_with_another_key_stays_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            await cluster.start()
            leader = await cluster.leader()
            other = next(name for name in "abc" if name != leader.node_id)
            await cluster.stop(other)
            await cluster.start(other, key=b"another")
            await until(lambda: "does not hold this cluster's key" in caplog.text)
            await leader.propose([BARRIER])
            assert not any(p.connected for p in cluster.nodes[other].peers())

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
