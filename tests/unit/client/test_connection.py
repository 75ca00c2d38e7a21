"""The connection byte by byte: what a server may send, in pieces of any size, and what is no answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.client.connection import BrokenAnswer, Connection, NoAnswer, NotHttp
from raftsched.client.servers import Server
from tests.support.patience import patient


@contextmanager
def answering(*pieces: bytes, take: int = 65_536) -> Iterator[tuple[Server, list[bytes]]]:
    """Takes a request, sends the pieces one by one, and closes."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            one, _ = listening.accept()
            with one, suppress(OSError):  # who has what it wants closes: a reset, or not connected any more
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                got.append(one.recv(take))
                for piece in pieces:
                    one.sendall(piece)
                one.shutdown(socket.SHUT_WR)
                while one.recv(65_536):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Server("http", "127.0.0.1", listening.getsockname()[1]), got
        finally:
            thread.join(patient(30))


def ask(server: Server, method: str = "GET", body: bytes | None = None) -> Connection:
    connection = Connection(server, 30)
    try:
        connection.request(method, "/x?y=1", {"Accept": "text/plain"}, body)
    except BaseException:
        connection.close()
        raise
    return connection


def answer(*pieces: bytes, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    with answering(*pieces) as (server, _):
        connection = ask(server, method)
        try:
            return connection.status, dict(connection.headers), connection.body()
        finally:
            connection.close()


HEAD = b"HTTP/1.1 200 OK\r\nA: b\r\n"


@pytest.mark.parametrize(
    "raw, body",
    [
        (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (HEAD + b"content-length:5\r\n\r\nhello and more", b"hello"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (HEAD + b"\r\nuntil the end", b"until the end"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\n\r\n", b"hello!"),
        (HEAD + b"Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n00\r\nTrailer: 1\r\n\r\n", b"0123456789"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nok", b"ok"),
        (HEAD.replace(b"\r", b"") + b"\nok", b"ok"),
        (b"HTTP/1.0 200\r\nA: b\r\n\r\nold", b"old"),
    ],
)
def test_bodies_whole_and_byte_by_byte(raw: bytes, body: bytes) -> None:
    assert answer(raw)[::2] == (200, body)
    status, headers, found = answer(*(raw[i : i + 1] for i in range(len(raw))))
    assert (status, headers["a"], found) == (200, "b", body)


@pytest.mark.parametrize(
    "method, head", [("HEAD", b"200 OK"), ("DELETE", b"204 No Content"), ("GET", b"304 Not Modified")]
)
def test_answers_without_a_body(method: str, head: bytes) -> None:
    assert answer(b"HTTP/1.1 " + head + b"\r\nContent-Length: 5\r\n\r\n", method=method)[2] == b""


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nA: b",
        b"HTTP/1.1 200 OK\r\nA b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n a: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 200_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_head(raw: bytes) -> None:
    with answering(raw) as (server, _), pytest.raises(BrokenAnswer):
        ask(server)


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 5\r\n\r\nhell",
        b"Content-Length: five\r\n\r\nhello",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 5, 5\r\n\r\nhello",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhell",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_a_body_that_breaks_off_is_never_taken_for_a_whole_one(rest: bytes) -> None:
    with pytest.raises(BrokenAnswer):
        answer(HEAD + rest)


def test_nothing_at_all() -> None:
    with answering() as (server, _), pytest.raises(NoAnswer):
        ask(server)


def test_what_is_sent() -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with answering(ok) as (server, got):
        ask(server, "PATCH", b"{}").close()
    head, _, body = got[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"PATCH /x?y=1 HTTP/1.1"
    assert set(lines[1:]) == {
        b"Host: 127.0.0.1:%d" % server.port,
        b"Accept: text/plain",
        b"Accept-Encoding: identity",
        b"Connection: close",
        b"Content-Length: 2",
    }
    assert body == b"{}"
    with answering(ok) as (server, got):
        ask(Server("http", "127.0.0.1", server.port, "/prefix")).close()
    assert got[0].startswith(b"GET /prefix/x?y=1 HTTP/1.1\r\n")


def test_nothing_can_be_smuggled_into_a_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = Connection(Server("http", "127.0.0.1", listening.getsockname()[1]), 30)
        for target, headers in (("/a\r\nX: y", {}), ("/a", {"X": "y\nZ: 1"}), ("/a", {"X\r": "y"}), ("/\u20ac", {})):
            with pytest.raises(ValueError):
                connection.request("GET", target, headers)
        connection.close()


class _Closed:
    """A server that answers and goes without reading the body."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    def sendall(self, data: bytes) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    def recv(self, most: int) -> bytes:
        piece, self.answer = self.answer[:most], self.answer[most:]
        return piece


def unconnected(sock: object) -> Connection:
    connection = Connection.__new__(Connection)
    connection._server = Server("http", "127.0.0.1", 1)
    connection._socket, connection._buffer = sock, b""  # type: ignore[assignment]
    return connection


def test_a_refusal_of_a_body_that_was_not_read_is_seen() -> None:
    connection = unconnected(_Closed(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"))
    connection.request("POST", "/", {}, b"x")
    assert (connection.status, connection.body()) == (413, b"big")
    with pytest.raises(BrokenPipeError):
        unconnected(_Closed(b"")).request("POST", "/", {}, b"x")


@given(st.binary(max_size=300))
def test_no_bytes_do_harm(raw: bytes) -> None:
    for start in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        left, right = socket.socketpair()
        with left, right:
            left.sendall(start + raw)
            left.shutdown(socket.SHUT_WR)
            connection = unconnected(right)
            try:
                connection._read_head("GET")
                connection.body()
            except BrokenAnswer:
                pass


def test_streaming_waits_no_longer_than_it_is_told() -> None:
    release = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            one, _ = listening.accept()
            with one:
                one.recv(65_536)
                one.sendall(HEAD + b"\r\nfirst")
                release.wait(patient(30))

        thread = threading.Thread(target=serve)
        thread.start()
        connection = ask(Server("http", "127.0.0.1", listening.getsockname()[1]))
        connection.wait_for(0.05)
        pieces = connection.pieces()
        assert next(pieces) == b"first"
        with pytest.raises(TimeoutError):
            next(pieces)
        release.set()
        connection.close()
        thread.join(patient(30))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS; say https://"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "does not speak HTTP/1.1"),  # SETTINGS of HTTP/2, as of gRPC
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP/1.1"),
        (b"-ERR unknown command\r\n", "does not speak HTTP/1.1"),
        (b"HTP", "does not speak HTTP/1.1"),
    ],
)
def test_who_speaks_otherwise_is_told_by_the_first_bytes(raw: bytes, said: str) -> None:
    """Also where no line ever ends, and nothing follows."""
    with pytest.raises(NotHttp, match=said):
        answer(raw)
