"""One look at conditions: paths of this machine, answers of a server."""

from __future__ import annotations

import http.server
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from raftsched.core.model import Condition, ConditionKind
from raftsched.core.rules.allowed import Allowed
from raftsched.system.clock import SystemClock
from raftsched.worker.conditions import probe
from raftsched.worker.conditions.http_status import Question
from raftsched.worker.conditions.probe import ConditionProbe, GivenUp
from tests.support.authority import ca_file, certificate, put
from tests.support.ports import closed_port

ANYWHERE = Allowed(http=("any",))


def path(target: object) -> str | None:
    return ConditionProbe([Condition(ConditionKind.PATH, str(target))], 5, ANYWHERE).missing()


def get(url: str, status: int = 0) -> str | None:
    return ConditionProbe([Condition(ConditionKind.HTTP, url, status=status)], 5, ANYWHERE).missing()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("in/a.csv", "in/.b.tsv", "in/deep/er/c.json", "odd/x[1].txt", "two words/ü.txt"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "in/nowhere.lnk").symlink_to(tmp_path / "not there")
    (tmp_path / "in/there.lnk").symlink_to(tmp_path / "in/a.csv")
    return tmp_path


class TestPaths:
    @pytest.mark.parametrize(
        "there",
        [
            "in/a.csv",
            "in/*.csv",
            "*/?.csv",
            "in/[a-c].csv",
            "in/.*.tsv",
            "in/*/*/c.json",
            "in",
            "in/",
            "in//a.csv",
            "in/there.*",
            "odd/x[[]1].txt",
            "two words/*.txt",
            "../*/in/a.csv",
        ],
    )
    def test_there(self, files: Path, there: str) -> None:
        assert path(f"{files}/{there}") is None

    @pytest.mark.parametrize(
        "not_there",
        ["in/b.csv", "in/*.tsv", "in/A.csv", "in/*.json", "no/*.csv", "in/a.csv/*", "in/nowhere.*", "in/nowhere.lnk"],
    )
    def test_not_there(self, files: Path, not_there: str) -> None:
        pattern = f"{files}/{not_there}"
        assert path(pattern) == f"No file matches {pattern}."

    def test_the_root(self) -> None:
        assert path("/") is None
        assert path("/*") is None

    def test_what_cannot_be_read_is_said(self, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(base: str) -> None:
            raise PermissionError(13, "Permission denied", base)

        monkeypatch.setattr(probe, "os", SimpleNamespace(scandir=refuse, path=os.path))
        found = path(f"{files}/in/*.csv")
        assert found == f"No file matches {files}/in/*.csv, but {files}/in (Permission denied) cannot be read."

    def test_a_name_that_is_too_long_is_no_file(self, files: Path) -> None:
        found = path(f"{files}/{'x' * 300}")
        assert found is not None
        assert "File name too long" in found

    def test_so_many_files_are_too_many(self, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probe, "ENTRIES_MAX", 3)
        assert "use a narrower one" in (path(f"{files}/in/*.none") or "")

    def test_a_look_that_nobody_waits_for_ends(self, files: Path) -> None:
        look = ConditionProbe([Condition(ConditionKind.PATH, f"{files}/in/*.csv")], 5, ANYWHERE)
        look.give_up()
        with pytest.raises(GivenUp):
            look.missing()

    def test_all_have_to_be_there(self, files: Path) -> None:
        conditions = [Condition(ConditionKind.PATH, f"{files}/in/{name}") for name in ("a.csv", "b.csv", "c.csv")]
        assert ConditionProbe(conditions, 5, ANYWHERE).missing() == f"No file matches {files}/in/b.csv."

    def test_jobs_are_seen_elsewhere(self) -> None:
        assert ConditionProbe([Condition(ConditionKind.JOB, "a/b", within_ms=1)], 5, ANYWHERE).missing() is None


def several_addresses(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{n}", 80)) for n in range(count)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Host"]))  # type: ignore[attr-defined]
        self.send_response(int(self.path.split("?")[0].rpartition("/")[2] or 200))
        self.send_header("Location", "http://127.0.0.1:9/")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        serving.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@contextmanager
def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Gives the URL of a server that answers one request so, and what it was asked."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection = listening.accept()[0]
            with (
                connection,
                suppress(OSError),
                connection if tls is None else tls.wrap_socket(connection, True) as peer,
            ):
                seen.append(peer.recv(1024))
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listening.getsockname()[1]}/", seen
        thread.join()


class TestServers:
    def test_any_good_answer_will_do(self, server: http.server.ThreadingHTTPServer) -> None:
        base = f"http://127.0.0.1:{server.server_port}"
        for code in (200, 204, 299):
            assert get(f"{base}/{code}?a=b&c") is None
        assert server.seen[0] == ("/200?a=b&c", f"127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
        assert get(base) is None
        assert get(f"{base}/302") == f"GET {base}/302 answered 302; 200 to 299 is wanted."
        assert get(f"{base}/503") == f"GET {base}/503 answered 503; 200 to 299 is wanted."

    def test_unless_one_is_wanted(self, server: http.server.ThreadingHTTPServer) -> None:
        base = f"http://127.0.0.1:{server.server_port}"
        assert get(f"{base}/404", 404) is None
        assert get(f"{base}/200", 404) == f"GET {base}/200 answered 200; 404 is wanted."

    def test_nobody_listens(self) -> None:
        port = closed_port()
        assert get(f"http://127.0.0.1:{port}/") == f"GET http://127.0.0.1:{port}/ failed: Connection refused."

    def test_no_such_host(self) -> None:
        assert (get("http://no-such-host.invalid/") or "").startswith("GET http://no-such-host.invalid/ failed: ")

    @pytest.mark.parametrize(
        "more", [b"HTTP/1.1 100 Continue\r\n\r\n", b"X: y\r\n"], ids=["interim answers", "headers"]
    )
    def test_what_never_answers_but_talks(self, more: bytes) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def talk() -> None:
                with listening.accept()[0] as connection, suppress(OSError):
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n")
                    while True:
                        connection.sendall(more * 1_000)

            talking = threading.Thread(target=talk)
            talking.start()
            found = get(f"http://127.0.0.1:{listening.getsockname()[1]}/")
            talking.join()
        assert "failed: " in (found or "")

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (b"SSH-2.0-OpenSSH\r\n", "the response does not begin like HTTP/1.1: 'SSH-2.0-OpenSSH'"),
            (b"", "the server closed the connection without an answer"),
            (b"HTTP/1.1 200 OK\r\nX: y\r\n", "the connection ended in the middle of the response"),
            (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "a head, trailers or a line between chunks are longer"),
            (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "the response is not HTTP/1.1: illegal header line"),
        ],
        ids=["no HTTP", "nothing", "cut off", "long", "malformed"],
    )
    def test_what_is_no_answer(self, answer: bytes, said: str) -> None:
        with answering(answer) as (url, _):
            assert (get(url) or "").startswith(f"GET {url} failed: {said}")

    def test_an_answer_of_http_1_0_and_one_after_interim_answers_will_do(self) -> None:
        for answer in (b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204\r\n\r\n"):
            with answering(answer) as (url, _):
                assert get(url) is None

    @pytest.mark.parametrize(("shown", "target"), [("/a?b=c&d", "/a?b=c&d"), ("/a%20b#part", "/a%20b"), ("?q", "/?q")])
    def test_what_is_asked(self, shown: str, target: str) -> None:
        with answering(b"HTTP/1.1 200 OK\r\n\r\n") as (url, seen):
            assert get(url.rstrip("/") + shown) is None
        assert seen == [
            f"GET {target} HTTP/1.1\r\nHost: {url[7:-1]}\r\nAccept-Encoding: identity\r\nAccept: */*\r\n"
            "User-Agent: raftsched\r\nConnection: close\r\n\r\n".encode()
        ]

    def test_what_cannot_be_asked(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/a b"
            assert get(url) == f"GET {url} failed: the request cannot be sent: Illegal target characters."

    def test_a_usual_port_is_not_named(self) -> None:
        assert b"\r\nHost: [::1]\r\n" in Question("::1", 443, 443, "/")._request
        assert b"\r\nHost: xn--bcher-kva.example:81\r\n" in Question("bücher.example", 81, 80, "/")._request

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_giving_up_ends_a_connection_that_is_silent(self, scheme: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/"
            look = ConditionProbe([Condition(ConditionKind.HTTP, url)], 600, ANYWHERE)
            ended: list[type] = []

            def run() -> None:
                try:
                    look.missing()
                except GivenUp as error:
                    ended.append(type(error))

            thread = threading.Thread(target=run)
            thread.start()
            with listening.accept()[0] as peer:
                assert peer.recv(1024).startswith(b"GET / HTTP/1.1\r\n" if scheme == "http" else b"\x16")
                look.give_up()
                thread.join()
        assert ended == [GivenUp]

    def test_https_is_asked_where_the_certificate_is_right(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = put(tmp_path, certificate())
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(*files)
        trusting = ssl.create_default_context(cafile=str(ca_file()))
        with answering(b"HTTP/1.1 200 OK\r\n\r\n", serving) as (url, _):
            monkeypatch.setattr(probe, "_tls", lambda: trusting)
            assert get(url) is None
        with answering(b"", serving) as (url, _):
            monkeypatch.setattr(probe, "_tls", ssl.create_default_context)
            assert "CERTIFICATE_VERIFY_FAILED" in (get(url) or "")

    def test_all_addresses_of_a_server_share_its_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that answers after silent ones is asked, and may then be silent for as long as any."""
        waits: list[float] = []

        def silent_for(timeout: float) -> None:
            waits.append(timeout)
            raise ConnectionResetError("seen")

        def connect(address: tuple[str, int], timeout: float) -> SimpleNamespace:
            waits.append(timeout)
            if len(waits) < 4:
                raise TimeoutError("timed out")
            return SimpleNamespace(settimeout=silent_for)

        monkeypatch.setattr(SystemClock, "monotonic", lambda clock: sum(waits))
        several_addresses(monkeypatch, 4)
        monkeypatch.setattr(socket, "create_connection", connect)
        found = ConditionProbe([Condition(ConditionKind.HTTP, "http://silent.example/")], 8, ANYWHERE).missing()
        assert found == "GET http://silent.example/ failed: seen."
        assert waits == [4, 2, 1, 1, 8]

    def test_giving_up_ends_with_the_address_that_is_silent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        look = ConditionProbe([Condition(ConditionKind.HTTP, "http://silent.example/")], 8, ANYWHERE)
        asked: list[str] = []

        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            asked.append(address[0])
            look.give_up()
            raise TimeoutError("timed out")

        several_addresses(monkeypatch, 4)
        monkeypatch.setattr(socket, "create_connection", connect)
        with pytest.raises(GivenUp):
            look.missing()
        assert asked == ["192.0.2.0"]

    def test_no_proxy_stands_between(
        self, server: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(os.environ, "http_proxy", "http://127.0.0.1:9")
        assert get(f"http://127.0.0.1:{server.server_port}/200") is None


class TestWhatANodeAllows:
    def test_no_address_that_is_not_public_is_asked(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            port = listening.getsockname()[1]
            for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "0x7f000001"):
                url = f"http://{host}:{port}/"
                found = ConditionProbe([Condition(ConditionKind.HTTP, url)], 5, Allowed()).missing()
                assert found is not None
                assert "loopback" in found, found
                assert "http_allow" in found, found
            with pytest.raises(BlockingIOError):
                listening.accept()

    def test_paths_outside_are_not_told_from_those_that_are_not_there(self, files: Path) -> None:
        allowed = Allowed(cwd=(f"{files}/in",))
        (files / "in/out.lnk").symlink_to(files / "two words")

        def look(path: str) -> str | None:
            return ConditionProbe([Condition(ConditionKind.PATH, path)], 5, allowed).missing()

        assert look(f"{files}/in/a.csv") is None
        assert look(f"{files}/in/there.lnk") is None
        said = {look(f"{files}/{name}/x.txt").replace(name, "") for name in ("odd", "even")}  # type: ignore[union-attr]
        assert len(said) == 1
        assert "cwd_allow" in said.pop()
        assert look(f"{files}/in/../odd/*") is not None
        assert look(f"{files}/in/out.lnk/ü.txt") == f"No file matches {files}/in/out.lnk/ü.txt."
