"""TLS on the API, over real sockets: who is spoken to, what is shown, and what half a handshake costs."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import socket
import ssl
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from raftsched.api.http import fastpath
from raftsched.api.http import tls_acceptor as entrance
from raftsched.api.http.server import ApiServer
from raftsched.api.http.tls import Certificates, PeerTrust, TlsFiles
from raftsched.errors import StartupError
from raftsched.security.certificates import Pair
from tests.integration.api.runs.test_output import FRAMES, TEXT, end, start
from tests.support.authority import Files, authority, ca_file, certificate, put
from tests.support.clock import ManualClock
from tests.support.local_api import LocalCluster, serving
from tests.support.patience import patient, until

JOB = json.dumps({"trigger": {"manual": True}, "handler": {"exec": ["true"]}}).encode()
WAIT_S = 20.0


class Served:
    def __init__(self, server: ApiServer, certificates: Certificates, files: Files, cluster: LocalCluster) -> None:
        self.port = server.port
        self.server = server
        self.certificates = certificates
        self.files = files
        self.cluster = cluster

    @property
    def entrance(self) -> entrance.TlsAcceptor:
        found = self.server._server
        assert isinstance(found, entrance.TlsAcceptor)
        return found

    async def connect(self, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    async def plain(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def until(self, what: Callable[[], bool]) -> None:
        await until(what)  # what the server counts is no event of ours


class RealClock(ManualClock):
    """Certificates are valid by the wall clock."""

    def __init__(self) -> None:
        from tests.support.authority import now_ms

        super().__init__(now_ms())


def serve(
    directory: Path, test: Callable[[Served], Awaitable[None]], client_ca: Path | None = None, pair: Pair | None = None
) -> None:
    async def main() -> None:
        cluster = LocalCluster(directory)
        cluster.clock = RealClock()
        files = put(directory, pair or certificate())
        context = cluster.context("n1")
        certificates = Certificates(TlsFiles(*files, client_ca), cluster.clock)
        server = await ApiServer.start(context, "127.0.0.1", 0, tls=certificates)
        try:
            await test(Served(server, certificates, files, cluster))
        finally:
            await server.stop()
            cluster.close()

    asyncio.run(main())


def trusting(by: str = "tests", shown: Files | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file(by))
    context.set_alpn_protocols(["http/1.1"])
    if shown is not None:
        context.load_cert_chain(*shown)
    return context


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, start: str = "GET /livez", body: bytes = b""
) -> tuple[int, bytes]:
    head = f"{start} HTTP/1.1\r\nHost: localhost\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"\r\n" + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    size = next(int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(answer[9:12]), await reader.readexactly(size)


def close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.transport.abort()


def test_both_ways_into_the_api_speak_tls(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        reader, writer = await served.connect(trusting())
        spoken = writer.get_extra_info("ssl_object")
        assert (spoken.version(), spoken.selected_alpn_protocol()) == ("TLSv1.3", "http/1.1")
        assert (await ask(reader, writer, "POST /v1/jobs", JOB))[0] == 201  # the fast path
        assert (await ask(reader, writer, "GET /readyz"))[0] == 200
        assert (await ask(reader, writer, "POST /v1/jobs", JOB))[0] == 201  # and through aiohttp
        close(writer)

    serve(tmp_path, test)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_two_versions_are_spoken(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async def test(served: Served) -> None:
        context = trusting()
        context.minimum_version = context.maximum_version = version
        reader, writer = await served.connect(context)
        assert (await ask(reader, writer))[0] == 200
        close(writer)

    serve(tmp_path, test)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
def test_an_old_version_is_not(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        context = trusting()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(OSError):  # an ssl.SSLError is one
            await served.connect(context)
        await served.until(lambda: served.entrance.refusals.counts["old-version"] == 1)

    serve(tmp_path, test)


def test_plain_http_is_told_what_would_be_right(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(served: Served) -> None:
        for _ in range(3):
            reader, writer = await served.plain()
            status, body = await ask(reader, writer, "GET /v1/jobs")
            assert status == 400
            assert "https://" in json.loads(body)["detail"]
            assert await reader.read() == b""
            close(writer)
        assert served.entrance.refusals.counts["plain-http"] == 3
        assert [r for r in caplog.records if "plain-http" in r.message] == caplog.records[-1:]  # said once
        served.cluster.clock.forward(60_000)
        reader, writer = await served.plain()
        await ask(reader, writer)
        close(writer)
        assert "plain-http: 3" in caplog.records[-1].message  # those that were not said, with the newest
        reader, writer = await served.connect(trusting())
        await ask(reader, writer)
        close(writer)

    with caplog.at_level(logging.WARNING, "raftsched"):
        serve(tmp_path, test)


def test_half_open_handshakes_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent ones, and such that begin a handshake and go no further."""
    monkeypatch.setattr(entrance, "PENDING_MAX", 8)  # this machine's address stands for many

    async def test(served: Served) -> None:
        silent = [await served.plain() for _ in range(20)]
        begun = [await served.plain() for _ in range(20)]
        for _, writer in begun:
            writer.write(b"\x16\x03\x01\x02\x00")
        await served.until(lambda: served.entrance.refusals.counts["too-many"] >= 24)
        assert served.entrance.pending <= 8
        reader, writer = await served.connect(trusting())
        assert (await ask(reader, writer))[0] == 200
        close(writer, *(w for _, w in (*silent, *begun)))
        await served.until(lambda: served.entrance.pending == 0)

    serve(tmp_path, test)


def test_one_address_makes_room_for_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "PENDING_MAX", 8)

    async def test(served: Served) -> None:
        addresses = iter(["a"] * 3 + ["b"] + ["a"] * 10)
        served.entrance._sharing = lambda address: next(addresses)
        waiting = [await served.plain() for _ in range(14)]
        await served.until(lambda: served.entrance.refusals.counts["too-many"] == 11)
        assert served.entrance._of_group == {"a": 2, "b": 1}
        close(*(w for _, w in waiting))
        await served.until(lambda: served.entrance.pending == 0)
        assert not served.entrance._of_group

    serve(tmp_path, test)


def test_handshakes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many begin at once: the node does others' work in between."""
    monkeypatch.setattr(entrance, "BURST", 2)
    monkeypatch.setattr(entrance, "HANDSHAKES_PER_S", 50)

    async def test(served: Served) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        done = await asyncio.gather(*(served.connect(trusting()) for _ in range(12)))
        assert loop.time() - began >= (12 - 3) / 50
        assert [(await ask(*one))[0] for one in done] == [200] * 12
        close(*(writer for _, writer in done))

    serve(tmp_path, test)


def test_a_handshake_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "HANDSHAKE_S", 0.2)

    async def test(served: Served) -> None:
        silent, begun = await served.plain(), await served.plain()
        begun[1].write(b"\x16\x03\x01\x02\x00")
        async with asyncio.timeout(patient(WAIT_S)):
            assert await silent[0].read() == b""
            assert await begun[0].read() == b""
        await served.until(lambda: served.entrance.refusals.counts["timeout"] == 2)
        close(silent[1], begun[1])

    serve(tmp_path, test)


def test_who_looks_only_whether_somebody_listens_is_no_news(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        for _ in range(3):
            _, writer = await served.plain()
            writer.close()
            await writer.wait_closed()
        await served.until(lambda: served.entrance.pending == 0)
        assert not served.entrance.refusals.counts

    serve(tmp_path, test)


def test_a_client_shows_a_certificate_where_one_is_asked_for(tmp_path: Path) -> None:
    good = put(tmp_path, certificate("user"), "good")
    stranger = put(tmp_path, certificate("user", by="others"), "stranger")
    old = put(tmp_path, certificate("user", days=-2), "old")

    async def test(served: Served) -> None:
        reader, writer = await served.connect(trusting(shown=good))
        assert (await ask(reader, writer))[0] == 200
        close(writer)
        for shown in (None, stranger, old):
            reader, writer = await served.connect(trusting(shown=shown))
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await ask(reader, writer)
            close(writer)
        counts = served.entrance.refusals.counts
        await served.until(lambda: counts["no-certificate"] == 1 and counts["bad-certificate"] == 2)

    serve(tmp_path, test, client_ca=ca_file())


def test_new_files_are_for_new_connections(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        reader, writer = await served.connect(trusting())
        put(tmp_path, certificate(by="others"))
        assert served.certificates.reload_if_changed()
        assert not served.certificates.reload_if_changed()  # nothing is new any more
        other, their = await served.connect(trusting("others"))
        assert (await ask(other, their))[0] == 200
        assert (await ask(reader, writer))[0] == 200  # the old one goes on
        with pytest.raises(ssl.SSLCertVerificationError):
            await served.connect(trusting())
        close(writer, their)

    serve(tmp_path, test)


def test_the_node_looks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "LOOK_S", 0.01)

    async def test(served: Served) -> None:
        before = served.certificates.context
        put(tmp_path, certificate("n1", days=30))
        await served.until(lambda: served.certificates.context is not before)

    serve(tmp_path, test)


def spoil(name: str, files: Files) -> None:
    if name == "mismatch":
        files.cert.write_bytes(certificate("n2", by="others").certificate)
    elif name == "gone":
        files.key.unlink()
    elif name == "empty":
        files.cert.write_bytes(b"")
    elif name == "half":
        files.key.write_bytes(files.key.read_bytes()[:100])
    elif name == "pipe":
        files.cert.unlink()
        os.mkfifo(files.cert)
    elif name == "readable":
        files.key.chmod(0o644)
        files.key.write_bytes(certificate("n2").key)
    else:
        put(files.cert.parent, certificate("n1", days=-3))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mismatch", "is not that of the certificate"),
        ("gone", "cannot be read"),
        ("empty", "holds no certificate"),
        ("half", "no pair in PEM"),
        ("pipe", "not a regular file"),
        ("readable", "read by everybody"),
        ("expired", "has expired"),
    ],
)
def test_what_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, said: str
) -> None:
    clock = RealClock()
    files = put(tmp_path, certificate())
    certificates = Certificates(TlsFiles(*files), clock)
    before = certificates.context
    spoil(name, files)
    for _ in range(3):
        assert not certificates.reload_if_changed()
    assert certificates.context is before
    assert len([r for r in caplog.records if said in r.message]) == 1, caplog.text
    clock.forward(60_000)
    certificates.reload_if_changed()
    assert len([r for r in caplog.records if said in r.message]) == 2
    files.cert.unlink()
    put(tmp_path, certificate("n1", days=30))
    assert certificates.reload_if_changed()  # it is mended
    assert certificates.context is not before


def test_a_node_does_not_begin_with_what_cannot_be_used(tmp_path: Path) -> None:
    files = put(tmp_path, certificate())
    files.key.write_bytes(certificate("n2").key)
    with pytest.raises(StartupError, match="not that of the certificate"):
        Certificates(TlsFiles(*files), RealClock())
    files.key.write_bytes(_encrypted())
    with pytest.raises(StartupError, match="encrypted"):
        Certificates(TlsFiles(*files), RealClock())
    files = put(tmp_path, certificate())
    (tmp_path / "ca").write_text("nothing")
    with pytest.raises(StartupError, match="no certificate of a CA"):
        Certificates(TlsFiles(*files, tmp_path / "ca"), RealClock())


def _encrypted() -> bytes:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(certificate().key, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


def test_the_end_of_a_certificate_is_announced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = RealClock()
    certificates = Certificates(TlsFiles(*put(tmp_path, certificate("n1", days=30))), clock)
    certificates.remind()
    assert 29 < certificates.days_left <= 30
    assert not caplog.records
    clock.forward(20 * 86_400_000)
    certificates.remind()
    certificates.remind()
    assert len(caplog.records) == 1
    assert "expires in" in caplog.text
    clock.forward(20 * 86_400_000)
    certificates.remind()
    assert "has expired" in caplog.text
    assert certificates.days_left < 0


def test_whom_a_certificate_is_for(tmp_path: Path) -> None:
    names = ("n1.example", "*.shop.example", "10.0.0.1", "::1")
    certificates = Certificates(TlsFiles(*put(tmp_path, certificate("n1", names))), RealClock())
    for good in ("N1.example", "a.shop.example", "10.0.0.1", "::1", "0:0:0:0:0:0:0:1"):
        assert certificates.is_for(good), good
    for bad in ("n2.example", "a.b.shop.example", "shop.example", "10.0.0.2", "*.0.0.1"):
        assert not certificates.is_for(bad), bad


def test_the_metrics_say_how_long_and_how_many(tmp_path: Path) -> None:
    async def test(served: Served) -> None:
        reader, writer = await served.plain()
        await ask(reader, writer)
        close(writer)
        reader, writer = await served.connect(trusting())
        status, body = await ask(reader, writer, "GET /metrics")
        close(writer)
        assert status == 200
        assert b'raftsched_tls_refused_total{why="plain-http"} 1.0' in body
        assert b"raftsched_tls_certificate_days_left 89." in body
        ends = re.search(rb"^raftsched_tls_certificate_expiry_timestamp_seconds (\S+)$", body, re.MULTILINE)
        assert ends is not None
        assert 89 < (float(ends[1]) - time.time()) / 86_400 < 90

    serve(tmp_path, test)


def test_no_connection_outlives_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One client is idle, one has closed without a goodbye, one has only begun to shake hands, one says nothing."""
    monkeypatch.setattr(fastpath, "GOODBYE_S", 0.05)
    opened: list[asyncio.StreamWriter] = []
    complaints: list[str] = []

    async def test(served: Served) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        for _ in range(2):
            reader, writer = await served.connect(trusting())
            assert (await ask(reader, writer))[0] == 200
            writer.transport.pause_reading()  # so it does not answer a goodbye either
            opened.append(writer)
        for sent in (b"\x16\x03\x01", b""):
            _, writer = await served.plain()
            writer.write(sent)
            opened.append(writer)
        await served.until(lambda: served.entrance.pending == 2)
        await served.server.stop()
        assert not served.server._factory.connections
        assert not [t for t in asyncio.all_tasks() if "TlsAcceptor" in repr(t) or "accept" in repr(t)]
        close(*opened)

    serve(tmp_path, test)
    assert not complaints


@pytest.mark.parametrize("turns", range(16))
def test_a_handshake_that_is_interrupted_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """So many turns of the event loop after the client has begun. Its goodbye is heard, so nothing is cut off."""
    complaints: list[str] = []
    monkeypatch.setattr(entrance, "SHUTDOWN_S", patient(2 * WAIT_S))
    monkeypatch.setattr(fastpath, "GOODBYE_S", patient(WAIT_S / 4))
    monkeypatch.setattr(fastpath, "CUT_OFF_S", 0.0)
    monkeypatch.setattr(fastpath.Connection, "abort", lambda connection: complaints.append("cut off"))

    async def test(served: Served) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        shaking = asyncio.ensure_future(served.connect(trusting()))
        while not served.entrance.pending:  # noqa: ASYNC110 (each turn counts)
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        await served.server.stop()
        try:
            _, writer = await shaking
        except OSError:  # an ssl.SSLError is one
            return
        close(writer)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        serve(tmp_path, test)
        gc.collect()
    assert not complaints
    assert not [str(one.message) for one in warned if "transport" in str(one.message)]


def test_a_connection_that_was_closed_can_still_be_cut_off(tmp_path: Path) -> None:
    """Its client takes nothing of what is sent to it, and says no goodbye."""

    async def test(served: Served) -> None:
        reader, writer = await served.connect(trusting())
        assert (await ask(reader, writer))[0] == 200
        writer.transport.pause_reading()
        factory = served.server._factory
        (connection,) = factory.connections
        connection._transport.close()
        connection._transport.close()
        factory.close_slow()  # asks for what the transport has to write
        connection.abort()
        await served.until(lambda: not factory.connections)
        close(writer)

    serve(tmp_path, test)


def test_the_authority_alone_is_no_server(tmp_path: Path) -> None:
    """A client takes no certificate that is not for the host it asked for, nor one of another authority."""

    async def test(served: Served) -> None:
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            await served.connect(trusting())
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
            await served.connect(trusting("others"))

    assert authority("others") != authority()
    serve(tmp_path, test, pair=certificate("n2", ("n2.example",)))


def test_all_addresses_of_a_name_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        sockets = await entrance.bind("localhost", 0, 8)
        assert sockets
        for sock in sockets:
            assert sock.getsockname()[1] > 0
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
            sock.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("pair", "trusted", "expected"),
    [
        (certificate("n1"), "tests", ""),
        (certificate("n1"), "others", "local issuer|self-signed"),
        (certificate("n1", ("n1.example",)), "tests", "not valid for"),
    ],
)
@pytest.mark.parametrize("wanted", [False, True], ids=["", "clients show certificates"])
def test_a_node_asks_another_one_by_tls(tmp_path: Path, pair: Pair, trusted: str, expected: str, wanted: bool) -> None:
    """One that speaks plain HTTP itself: each announces how it is asked."""

    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2"))
        certificates = Certificates(TlsFiles(*put(tmp_path, pair), ca_file() if wanted else None), RealClock())
        server = await ApiServer.start(cluster.context("n1"), "127.0.0.1", 0, tls=certificates)
        own = put(tmp_path, certificate("n2"), "n2")
        try:
            async with serving(cluster, "n2") as call:
                cluster.open_session("n1", f"https://127.0.0.1:{server.port}")
                call.context.security.peer_trust = PeerTrust(None, ca_file(trusted), [(None, None), own])
                path, token = await start(call)
                end(cluster, token, FRAMES)
                status, said = await call("GET", f"{path}/output")
                if not expected:
                    assert (status, said) == (200, TEXT)
                    return
                assert (status, said["code"]) == (503, "output-unavailable")
                assert re.search(expected, said["detail"]), said
                assert "--tls-ca" in said["detail"]
        finally:
            await server.stop()
            cluster.close()

    asyncio.run(main())


def test_new_files_are_trusted_by_a_node(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(ca_file().read_bytes())
    trust = PeerTrust(ca, None, [])
    before = trust.context()
    assert trust.context() is before
    ca.write_bytes(ca_file("others").read_bytes())
    assert trust.context() is not before
    assert [found["subject"] for found in trust.context().get_ca_certs()] == [
        ((("commonName", "raftsched others"),),),
    ]
    with pytest.raises(OSError):
        PeerTrust(tmp_path / "missing", None, []).context()


@pytest.mark.parametrize(("name", "said"), [("mismatch", "is not that of"), ("gone", "cannot be read: no such file")])
def test_files_that_are_half_replaced_leave_calls_to_other_nodes_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, said: str
) -> None:
    files = put(tmp_path, certificate())
    trust = PeerTrust(ca_file(), None, [files])
    before = trust.context()
    spoil(name, files)
    assert [trust.context() for _ in range(3)] == [before] * 3
    assert [said in record.message for record in caplog.records] == [True], caplog.text
    put(tmp_path, certificate("n1", days=30))
    assert trust.context() is not before
