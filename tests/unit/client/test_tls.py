"""https: a server that can be trusted is spoken to, another one is not and it is said why; a token stays sealed."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.client.errors import ClientError
from raftsched.client.http import Client
from raftsched.client.servers import Server, parse_servers
from raftsched.client.trust import Trust, from_environment, in_clear
from raftsched.errors import Exit
from raftsched.security.certificates import Pair
from tests.support.authority import ca_file, certificate, put
from tests.support.patience import patient
from tests.support.stub_server import serve

TOKEN = "rs_secret"
ELSEWHERE = "192.0.2.1:7401"  # RFC 5737: nobody is there; nothing may be sent, so nothing is waited for


class _Quiet(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"path": self.path, "items": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # who does not trust it hangs up


@contextmanager
def tls(directory: Path, pair: Pair | None = None, *, clients: str | None = None) -> Iterator[str]:
    """A server's address. `clients`: the authority whose certificates they have to show."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*put(directory, pair or certificate()))
    if clients is not None:
        context.load_verify_locations(ca_file(clients))
        context.verify_mode = ssl.CERT_REQUIRED
    with _Server(("127.0.0.1", 0), _Quiet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RAFTSCHED_")]:
        monkeypatch.delenv(name)


def by_command_line(url: str, **trust: Any) -> Any:
    return Client(parse_servers(url), trust=Trust(**trust)).get("/v1/x")


def by_async(url: str, **trust: Any) -> Any:
    async def ask() -> Any:
        async with raftsched.AsyncClient(url, discover=False, timeout=patient(3.0), **trust) as client:
            return json.loads((await client.transport.send("GET", "/v1/x")).body)

    return asyncio.run(ask())


def by_sync(url: str, **trust: Any) -> Any:
    with raftsched.Client(url, discover=False, timeout=patient(3.0), **trust) as client:
        assert list(client.jobs.list()) == []
        return {"path": "/v1/x", "items": []}


CLIENTS: list[Callable[..., Any]] = [by_command_line, by_async, by_sync]
each = pytest.mark.parametrize("ask", CLIENTS)


def refused(ask: Callable[..., Any], url: str, **trust: Any) -> str:
    with pytest.raises(ClientError) as failed:
        ask(url, **trust)
    assert failed.value.code == "unreachable"
    return failed.value.detail


@each
def test_a_trusted_server_is_spoken_to(ask: Callable[..., Any], tmp_path: Path) -> None:
    with tls(tmp_path) as url:
        assert ask(url, ca_file=str(ca_file()))["path"] == "/v1/x"
        assert ask(url.replace("127.0.0.1", "localhost"), ca_file=str(ca_file()))["path"] == "/v1/x"


def test_what_the_system_trusts_is_spoken_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file()))
    with tls(tmp_path) as url:
        assert Client(parse_servers(f"{url}/prefix")).get("/v1/x")["path"] == "/prefix/v1/x"


@each
def test_an_unknown_authority(ask: Callable[..., Any], tmp_path: Path) -> None:
    with tls(tmp_path) as url:
        assert "is of an unknown authority; say --ca-file FILE" in refused(ask, url)
        other = refused(ask, url, ca_file=str(ca_file("others")))
        assert f"not signed by an authority in {ca_file('others')}" in other


@each
def test_another_host(ask: Callable[..., Any], tmp_path: Path) -> None:
    with tls(tmp_path, certificate("n2", ("n2.example", "10.9.9.9"))) as url:
        said = refused(ask, url, ca_file=str(ca_file()))
        assert "is not for 127.0.0.1 but for n2.example, 10.9.9.9" in said


@each
def test_an_old_certificate(ask: Callable[..., Any], tmp_path: Path) -> None:
    with tls(tmp_path, certificate(days=-3)) as url:
        assert "its certificate has expired, on 20" in refused(ask, url, ca_file=str(ca_file()))


@each
def test_a_client_certificate(ask: Callable[..., Any], tmp_path: Path) -> None:
    mine, others = put(tmp_path, certificate("me"), "me"), put(tmp_path, certificate("me", by="others"), "others")
    trusted = {"ca_file": str(ca_file())}
    with tls(tmp_path, clients="tests") as url:
        shown = {"client_cert": str(mine.cert), "client_key": str(mine.key)}
        assert ask(url, **trusted, **shown)["path"] == "/v1/x"
        assert "--client-cert FILE" in refused(ask, url, **trusted)
        shown = {"client_cert": str(others.cert), "client_key": str(others.key)}
        assert "does not take the client certificate" in refused(ask, url, **trusted, **shown)


@each
def test_a_server_without_tls(ask: Callable[..., Any]) -> None:
    with serve(lambda request: (200, {})) as stub:
        assert "does not speak TLS; say http://" in refused(ask, stub.url.replace("http:", "https:"))
        assert not stub.requests


@each
def test_files_that_cannot_be_used(ask: Callable[..., Any], tmp_path: Path) -> None:
    mine = put(tmp_path, certificate("me"), "me")
    wrong: list[tuple[dict[str, str], str]] = [
        ({"ca_file": str(tmp_path / "none")}, "no such file"),
        ({"ca_file": str(mine.key)}, "it is not PEM"),
        ({"client_cert": str(mine.cert), "client_key": str(tmp_path / "none")}, "no such file"),
        ({"client_cert": str(mine.cert), "client_key": str(put(tmp_path, certificate("you"), "you").key)}, "not that"),
    ]
    with tls(tmp_path) as url:
        for trust, said in wrong:
            with pytest.raises(ClientError, match=said) as failed:
                ask(url, **trust)
            assert failed.value.code == "untrusted"


def test_new_files_are_taken_by_a_client_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from raftsched.client import transport

    monkeypatch.setattr(transport, "FILES_EVERY_S", 0.0)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(ca_file("others").read_bytes())

    async def main(url: str) -> None:
        async with raftsched.AsyncClient(url, discover=False, timeout=patient(10), ca_file=trusted) as client:
            with pytest.raises(ClientError, match="is not trusted"):
                await client.transport.send("GET", "/v1/x")
            trusted.write_bytes(b"")
            with pytest.raises(ClientError, match="is not trusted"):  # half written: as before
                await client.transport.send("GET", "/v1/x")
            trusted.write_bytes(ca_file().read_bytes())
            assert (await client.transport.send("GET", "/v1/x")).status == 200

    with tls(tmp_path) as url:
        asyncio.run(main(url))


@each
def test_a_mixed_list_goes_on_with_the_next(ask: Callable[..., Any], tmp_path: Path) -> None:
    with tls(tmp_path) as url, serve(lambda request: (200, {"path": "plain", "items": []})) as stub:
        found = ask(f"{url},{stub.url}")  # the first is not trusted
        assert found["items"] == []
        assert len(stub.requests) == 1
        assert ask(f"{url},{stub.url}", ca_file=str(ca_file()))["path"] == "/v1/x"
        assert len(stub.requests) == 1


# ---------------------------------------------------------------- tokens


def send_token(way: str, servers: str, *, insecure: bool = False) -> None:
    if way == "command line":
        Client(parse_servers(servers), timeout=patient(1), token=TOKEN, trust=Trust(insecure=insecure)).get("/v1/x")
        return
    if way == "sync":
        with raftsched.Client(servers, token=TOKEN, timeout=patient(0.5), insecure=insecure) as client:
            list(client.jobs.list())
        return

    async def ask() -> None:
        async with raftsched.AsyncClient(servers, token=TOKEN, timeout=patient(0.5), insecure=insecure) as client:
            assert [job async for job in client.jobs.list()] == []

    asyncio.run(ask())


@pytest.mark.parametrize("way", ["command line", "sync", "async"])
def test_a_token_is_not_sent_in_clear(way: str) -> None:
    """Nor to the first of a list, when a later one would see it."""
    with serve(lambda request: (200, {"items": []})) as stub:
        for servers in (
            f"http://{ELSEWHERE}",
            f"{stub.url},http://node.example:7401",
            f"http://[2001:db8::1]:1,{stub.url}",
        ):
            with pytest.raises(ClientError, match="--insecure") as failed:
                send_token(way, servers)
            assert (failed.value.code, failed.value.exit) == ("insecure", Exit.AUTH)
            assert TOKEN not in failed.value.detail
        assert not stub.requests
        send_token(way, stub.url)  # this machine alone
        assert stub.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_token_of_the_environment_is_not_sent_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTSCHED_TOKEN", TOKEN)
    with (
        raftsched.Client(f"http://{ELSEWHERE}", timeout=0.2) as client,
        pytest.raises(ClientError, match="is not sent to") as failed,
    ):
        list(client.jobs.list())
    assert failed.value.code == "insecure"


@pytest.mark.parametrize("way", ["command line", "sync", "async"])
def test_who_means_it_may(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(lambda request: (200, {"items": []})) as stub:
        asked = f"{stub.url},http://node.invalid:7401"
        send_token(way, asked, insecure=True)
        assert stub.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_node_that_is_learned_of_gets_no_token_in_clear() -> None:
    """Who is led elsewhere by a node asks there without TLS only where that is this machine."""

    def answer(request: Any) -> tuple[int, Any]:
        if request.path == "/v1/cluster":
            nodes = [{"id": "n2", "role": "leader", "alive": True, "http": "node.invalid:7401"}]
            return 200, {"node": "n1", "leader": "n2", "term": 1, "formed": True, "nodes": nodes}
        return 200, {"items": []}

    async def main() -> None:
        with serve(answer, headers={"Raftsched-Leader": "n2"}) as stub:
            async with raftsched.AsyncClient(stub.url, token=TOKEN, timeout=patient(5)) as client:
                assert [job async for job in client.jobs.list()] == []
                assert client.transport._shared.learning is not None
                await client.transport._shared.learning
                asked: list[Server] = []
                real = client.transport._ask

                async def noted(server: Server, *rest: Any) -> Any:
                    asked.append(server)
                    return await real(server, *rest)

                client.transport._ask = noted  # type: ignore[method-assign]
                await client.transport.send("POST", "/v1/x", body=b"{}", repeatable=True)
                assert asked == parse_servers(stub.url)

    asyncio.run(main())


@pytest.mark.parametrize("way", ["command line", "sync", "async"])
def test_a_redirect_carries_no_token_elsewhere(way: str) -> None:
    with serve(lambda request: (200, {"items": []})) as other:
        with serve(lambda request: (302, {}), headers={"Location": f"{other.url}/v1/jobs"}) as stub:
            with pytest.raises(ClientError, match="redirects to"):
                send_token(way, stub.url)
            assert stub.requests
        assert not other.requests


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1", False), ("http://127.9.9.9:1", False), ("http://[::1]:1", False),
        ("http://localhost:1", False), ("https://node.example:1", False),
        ("http://localhost.example:1", True), ("http://127.0.0.1.nip.io:1", True), ("http://0.0.0.0:1", True),
        ("http://[::ffff:10.0.0.1]:1", True), ("http://10.0.0.1:1", True), ("http://2130706433:1", True),
    ],
)  # fmt: skip
def test_what_is_in_clear(url: str, expected: bool) -> None:
    assert in_clear(parse_servers(url)[0]) is expected


def test_what_the_environment_says() -> None:
    environ = {"RAFTSCHED_CA_FILE": "a", "RAFTSCHED_CLIENT_CERT": "b", "RAFTSCHED_CLIENT_KEY": "c"}
    assert from_environment(environ) == Trust("a", "b", "c", False)
    assert from_environment({"RAFTSCHED_INSECURE": "1"}) == Trust(insecure=True)
    assert from_environment({"RAFTSCHED_INSECURE": "0"}) == Trust()
    assert Trust("a", "b").over(Trust("x", "y", "z", True)) == Trust("a", "b", None, True)
    assert Trust().over(Trust("x", "y", "z")) == Trust("x", "y", "z")
