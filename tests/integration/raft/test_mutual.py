"""Certificates of an authority on the Raft port: both ends show one, and it names them."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from raftsched.raft import codec
from raftsched.raft.transport.tls import KeyTls, MutualTls, Plain, Wire
from raftsched.security import certificates
from raftsched.security.certificates import Pair
from raftsched.system.clock import SystemClock
from tests.integration.raft.test_transport import Bed, Peer
from tests.support.patience import until
from tests.support.ports import closed_port
from tests.support.raft_cluster import BARRIER, Cluster

NOW_MS = SystemClock().wall_ms()
DAY_MS = 86_400_000
CA = certificates.make_ca("prod", NOW_MS)
OTHER = certificates.make_ca("prod", NOW_MS)


def put(directory: Path, node: str, pair: Pair, authorities: Sequence[Pair] = (CA,)) -> tuple[Path, Path, Path]:
    directory.mkdir(exist_ok=True)
    files = directory / f"{node}.crt", directory / f"{node}.key", directory / f"{node}.ca"
    contents = pair.certificate, pair.key, b"".join(ca.certificate for ca in authorities)
    for file, content in zip(files, contents, strict=True):
        new = file.with_suffix(".new")
        new.write_bytes(content)
        new.chmod(0o600)
        new.replace(file)
    return files


def signed(node: str, ca: Pair = CA, cluster: str = "prod", now_ms: int = NOW_MS) -> Pair:
    return certificates.make_node(ca, cluster, node, [], now_ms)


def wire(directory: Path, node: str, pair: Pair, authorities: Sequence[Pair] = (CA,)) -> MutualTls:
    return MutualTls(
        node, *put(directory, node, pair, authorities), SystemClock(), logging.getLogger("raftsched").warning
    )


async def dial(port: int, pair: Pair | None) -> Peer:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        certificates.load_pair(context, pair)
    return Peer(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


def test_a_member_with_its_certificate_and_the_key_is_welcome(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Bed(wire=wire(tmp_path, "b", signed("b"))) as bed:
            peer = await dial(bed.port, signed("a"))
            assert isinstance(await peer.shake(), codec.Welcome)
            await peer.close()
            other = await dial(bed.port, signed("a"))
            assert isinstance(await other.shake(key=b"guessed"), codec.Refused), "a certificate is no key"
            await other.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (None, "tls"),
        (certificates.make_ephemeral(NOW_MS), "tls"),
        (signed("a", OTHER), "tls"),
        (signed("a", now_ms=NOW_MS - 91 * DAY_MS), "tls"),
        (signed("c"), "wrong-member"),
        (signed("a", cluster="test"), "wrong-member"),
    ],
    ids=["none", "its own", "another authority", "expired", "another node", "another cluster"],
)
def test_the_key_alone_is_not_enough(tmp_path: Path, pair: Pair | None, why: str) -> None:
    async def scenario() -> None:
        async with Bed(wire=wire(tmp_path, "b", signed("b"))) as bed:
            peer = await dial(bed.port, pair)
            try:
                end = await peer.shake()
            except (ssl.SSLError, ConnectionError):
                end = None
            assert not isinstance(end, codec.Welcome)
            await until(lambda: bed.refused() == {why: 1})
            assert bed.events == []
            await peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("guard", ["certificates", "the key alone", "nothing"])
def test_a_peer_is_found_where_another_one_was_looked_for(tmp_path: Path, guard: str) -> None:
    """Two members that moved may be told of each other by nobody: the one where this node looks for the other says who
    it is."""

    def made(node: str) -> Wire | None:
        if guard == "certificates":
            return wire(tmp_path, node, signed(node))
        return Plain() if guard == "nothing" else None

    async def scenario() -> None:
        async with (
            Bed(wire=made("b"), connect_late_ms=20) as bed,
            Bed(wire=made("c"), node="c") as other,
            Bed(wire=made("x"), node="x") as stranger,
        ):
            places = {"a": other.port, "c": closed_port(), "d": stranger.port}
            bed.transport.set_peers({node: f"127.0.0.1:{port}" for node, port in places.items()})
            await until(lambda: bed.transport.is_connected("c"))
            await until(lambda: stranger.refused() or bed.refused())
            assert bed.transport.peers() == ["c"]
            assert [event[:2] for event in other.events] == [("up", "b")]
            bed.transport.set_peers({})

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("pair", "why"), [(signed("c"), "wrong-member"), (signed("a", OTHER), "tls")], ids=["another node", "untrusted"]
)
def test_who_is_dialled_shows_its_certificate(tmp_path: Path, pair: Pair, why: str) -> None:
    async def scenario() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificates.load_pair(context, pair)
        got: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                got.append(await reader.read(1 << 16))
            finally:
                writer.close()

        async with Bed(wire=wire(tmp_path, "b", signed("b")), connect_late_ms=20) as bed:
            server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
            bed.transport.set_peers({"a": f"127.0.0.1:{server.sockets[0].getsockname()[1]}"})
            await until(lambda: bed.refused().get(why))
            bed.transport.set_peers({})
            server.close()
            await server.wait_closed()
            assert not any(isinstance(f, codec.Greeting | codec.Proof) for data in got for f in frames(data))

    asyncio.run(scenario())


def frames(data: bytes) -> list[codec.Frame]:
    return list(codec.Reader(1 << 16).feed(data))


def test_new_files_are_used_from_then_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also from one authority to the next, with both in the bundle meanwhile."""

    async def scenario() -> None:
        async with Bed(wire=wire(tmp_path, "b", signed("b"))) as bed:
            old = await dial(bed.port, signed("a"))
            assert isinstance(await old.shake(), codec.Welcome)
            put(tmp_path, "b", signed("b", OTHER), [CA, OTHER])
            for ca in (CA, OTHER):
                peer = await dial(bed.port, signed("a", ca))
                assert isinstance(await peer.shake(), codec.Welcome)
                seen = peer.writer.get_extra_info("ssl_object").getpeercert(True)
                assert seen == certificates.der((tmp_path / "b.crt").read_bytes())
                await peer.close()
            put(tmp_path, "b", signed("c", OTHER), [OTHER])  # a mistake
            peer = await dial(bed.port, signed("a", OTHER))
            assert isinstance(await peer.shake(), codec.Welcome), "what was read before goes on"
            await peer.close()
            await old.close()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    levels = {line.levelno for line in caplog.records if "is used for new connections" in line.getMessage()}
    assert levels == {logging.INFO}, "what went well warns nobody"
    assert "names raftsched://prod/c" in caplog.text


def test_a_cluster_with_certificates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And a node that holds the key only stays out."""

    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            for name in "abc":
                await cluster.start(name, wire=wire(tmp_path / "certs", name, signed(name)))
            leader = await cluster.leader()
            await leader.propose([BARRIER])
            other = next(name for name in "abc" if name != leader.node_id)
            await cluster.stop(other)
            await cluster.start(other, wire=KeyTls(NOW_MS))
            await until(lambda: leader.refused()["tls"])
            await leader.propose([BARRIER])
            assert not any(peer.connected for peer in cluster.nodes[other].peers())

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "certificate" in caplog.text
