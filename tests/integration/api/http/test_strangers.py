"""What strangers may hold of a node, and how requests end that are none, or take too long."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.http import connections, fair_queue, fallback, fastpath, requests
from raftsched.api.http.acceptor import ACCEPTED_MAX
from raftsched.config.bounds import Bounds
from tests.integration.api.http.test_fastpath import JOB, ORDINARY, read_answer, request
from tests.support.local_api import Client, run
from tests.support.patience import patient, within
from tests.support.tokens import guarded

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Visitor:
    """Opens connections to one node, and closes them all."""

    def __init__(self, call: Client) -> None:
        self.call = call
        self._port = int(call.url.rpartition(":")[2])
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, host: str = "127.0.0.1") -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(host, 0))
        self._writers.append(writer)
        return reader, writer

    async def ask(self, raw: bytes, host: str = "127.0.0.1") -> tuple[int, dict[str, str], Any]:
        reader, writer = await self.connect(host)
        writer.write(raw)
        return await read_answer(reader)

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)


def visit(directory: Path, test: Callable[[Visitor], Awaitable[None]], bounds: Bounds | None = None) -> None:
    async def connected(call: Client) -> None:
        visitor = Visitor(call)
        try:
            await within(test(visitor))
        finally:
            await visitor.close()

    run(directory, connected, bounds or Bounds())


def test_idle_connections_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENT_S", 0.0)

    async def test(visitor: Visitor) -> None:
        idle = [await visitor.connect() for _ in range(12)]
        answers = [await visitor.ask(LIVE) for _ in range(4)]
        assert [status for status, _, _ in answers] == [200] * 4
        assert await idle[0][0].read() == b""  # the first that came

    visit(tmp_path, test, Bounds(connections=8))


def test_a_crowd_is_told_that_it_finds_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's connection is closed before his request is answered."""
    monkeypatch.setattr(connections, "SILENT_S", patient(30.0))

    async def test(visitor: Visitor) -> None:
        crowd = [await visitor.connect() for _ in range(60)]
        answers = [asyncio.ensure_future(read_answer(reader)) for reader, _ in crowd]
        for refused in itertools.islice(asyncio.as_completed(answers), 40):
            status, headers, body = await refused
            assert (status, body["code"], headers["retry-after"]) == (503, "overloaded", "1")
        for (_, writer), answer in zip(crowd, answers, strict=True):
            if not answer.done():
                writer.write(LIVE)
        assert Counter(answer[0] for answer in await asyncio.gather(*answers)) == {503: 40, 200: 20}

    visit(tmp_path, test, Bounds(connections=20))


def test_one_address_does_not_take_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENT_S", 0.0)

    async def test(visitor: Visitor) -> None:
        mine, _ = await visitor.connect("127.0.0.2")
        theirs = [await visitor.connect("127.0.0.3") for _ in range(20)]
        status, _, _ = await visitor.ask(LIVE, "127.0.0.3")
        assert status == 200
        assert await theirs[0][0].read() == b""
        assert not mine.at_eof()

    visit(tmp_path, test, Bounds(connections=16))


def test_who_finds_no_place_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastpath.Connection, "_has_answer_due", lambda self: True)

    async def test(visitor: Visitor) -> None:
        for _ in range(2):
            await visitor.connect()
        status, headers, body = await visitor.ask(LIVE)
        assert (status, body["code"], headers["retry-after"]) == (503, "overloaded", "1")
        assert headers["server"] == "raftsched"

    visit(tmp_path, test, Bounds(connections=2))


ODD = {
    b"OPTIONS * HTTP/1.1\r\n": 405,
    b"CONNECT localhost:80 HTTP/1.1\r\n": 405,
    b"CONNECT / HTTP/1.1\r\n": 405,
    b"GET /livez HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n": 400,
    b"GET /livez HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n": 400,
    b"GET * HTTP/1.1\r\n": 400,
    b"GET livez HTTP/1.1\r\n": 400,
}


@pytest.mark.parametrize("head", ODD, ids=lambda head: head.split(b" HTTP")[0].decode())
def test_what_names_no_path_is_a_problem(tmp_path: Path, head: bytes) -> None:
    async def test(visitor: Visitor) -> None:
        status, headers, body = await visitor.ask(head + b"Host: localhost\r\n\r\n" + LIVE)
        assert (status, headers["content-type"]) == (ODD[head], "application/problem+json"), body
        assert headers["server"] == "raftsched"
        assert "raftsched-index" in headers
        assert headers["connection"] == "close"
        if status == 405:
            assert "GET" in headers["allow"]
        if status == 405 or b"Upgrade" in head:  # what is no HTTP has no Host either
            status, headers, body = await visitor.ask(head + b"Host: evil.example\r\n\r\n")
            assert (status, body["code"]) == (403, "forbidden-host")

    visit(tmp_path, test)


@pytest.mark.parametrize("extra", [b"", ORDINARY], ids=["short", "ordinary"])
def test_a_client_that_says_no_more_gets_its_answer(tmp_path: Path, extra: bytes) -> None:
    async def test(visitor: Visitor) -> None:
        reader, writer = await visitor.connect()
        writer.write(request(JOB, extra) * 3)
        writer.write_eof()
        for _ in range(3):
            assert (await read_answer(reader))[0] == 201
        assert await reader.read() == b""

    visit(tmp_path, test)


@pytest.mark.parametrize("extra", [b"", ORDINARY], ids=["short", "ordinary"])
def test_half_a_request_and_an_end_is_an_end(tmp_path: Path, extra: bytes) -> None:
    async def test(visitor: Visitor) -> None:
        reader, writer = await visitor.connect()
        writer.write(request(JOB, extra)[:-5])
        writer.write_eof()
        await reader.read()

    visit(tmp_path, test)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n",
    ],
    ids=["401", "403", "200"],
)
def test_a_refused_body_is_not_read_for_long(tmp_path: Path, head: bytes) -> None:
    size = 256 * 2**20

    async def test(visitor: Visitor) -> None:
        await guarded(visitor.call)
        reader, writer = await visitor.connect()
        writer.write(head + b"Content-Length: %d\r\n\r\n" % size)
        status, headers, _ = await read_answer(reader)
        assert status in (200, 401, 403)
        assert headers["connection"] == "close"
        sent = 0
        try:
            while sent < size:
                writer.write(bytes(2**20))
                await writer.drain()
                sent += 2**20
        except ConnectionError:
            pass
        assert sent <= 64 * 2**20  # what the two kernels hold, not what the node would read

    visit(tmp_path, test)


@pytest.mark.parametrize("let_in", [True, False])
def test_who_was_let_in_reads_why_its_body_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, let_in: bool
) -> None:
    """Though it reads nothing before it has sent everything. Of strangers nothing is taken for that."""
    taken: list[int] = []
    drain = fastpath.Connection.drain

    def noted(connection: fastpath.Connection, most: int = fastpath.DRAINED_MAX, within_s: float = 0.0) -> None:
        taken.append(most)
        drain(connection, most, patient(60))

    monkeypatch.setattr(fastpath.Connection, "drain", noted)

    async def test(visitor: Visitor) -> None:
        if not let_in:
            await guarded(visitor.call)
        reader, writer = await visitor.connect()
        size = 40 * 2**20
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % size)
        if let_in:
            for _ in range(0, size, 2**20):
                writer.write(bytes(2**20))
                await writer.drain()
        status, headers, _ = await read_answer(reader)
        assert (status, headers["connection"]) == (413 if let_in else 401, "close")
        assert taken == [fallback.OVER_MAX if let_in else fastpath.DRAINED_MAX]

    visit(tmp_path, test)


def test_the_connection_goes_on_after_a_small_refused_body(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        await guarded(visitor.call)
        reader, writer = await visitor.connect()
        raw = request(b"x" * 30_000, ORDINARY)
        writer.write(raw[:1_000])
        assert (await read_answer(reader))[0] == 401
        writer.write(raw[1_000:] + LIVE)
        assert (await read_answer(reader))[0] == 200

    visit(tmp_path, test)


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_S", 0.05)

    async def test(visitor: Visitor) -> None:
        reader, writer = await visitor.connect()
        writer.write(request(JOB, ORDINARY)[:-5])
        status, headers, body = await read_answer(reader)
        assert (status, body["code"], headers["connection"]) == (408, "request-timeout", "close")
        assert await reader.read() == b""

    visit(tmp_path, test)


@pytest.mark.parametrize(
    "begun", [request()[:-5], request()[:60], LIVE[:-2], LIVE[:3]], ids=["body", "head", "ordinary", "line"]
)
def test_a_request_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr("raftsched.api.http.server.LOOK_S", 0.01)

    async def test(visitor: Visitor) -> None:
        reader, writer = await visitor.connect()
        if LIVE.startswith(begun):  # else it stays with the fast path
            writer.write(LIVE)
            assert (await read_answer(reader))[0] == 200
        writer.write(begun)
        reading = asyncio.ensure_future(read_answer(reader))
        while not reading.done():
            visitor.call.cluster.clock.forward(1_000)
            await asyncio.sleep(0.01)
        status, headers, body = await reading
        assert (status, body["code"], headers["connection"]) == (408, "request-timeout", "close")
        assert await reader.read() == b""

    visit(tmp_path, test)


def test_the_rest_of_a_refused_body_is_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.api.http.server.LOOK_S", 0.01)

    async def test(visitor: Visitor) -> None:
        await guarded(visitor.call)
        reader, writer = await visitor.connect()
        raw = request(b"x" * 30_000, ORDINARY)
        writer.write(raw[:1_000])
        assert (await read_answer(reader))[0] == 401
        writer.write(raw[1_000:])
        reading = asyncio.ensure_future(reader.read())
        while not reading.done():
            visitor.call.cluster.clock.forward(1_000)
            await asyncio.sleep(0.01)
        assert await reading == b"", "a connection that idles gets no answer"

    visit(tmp_path, test)


@pytest.mark.parametrize("name", [b"User-Agent", b"Accept", b"Accept-Language"])
def test_a_repeated_header_is_judged_alike(tmp_path: Path, name: bytes) -> None:
    twice = name + b": a\r\n" + name + b": b\r\n"

    async def test(visitor: Visitor) -> None:
        plain, ordinary = [await visitor.ask(request(JOB, twice + extra)) for extra in (b"", ORDINARY)]
        assert plain[0] == ordinary[0]

    visit(tmp_path, test)


def test_requests_in_a_row_wait_for_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes alone is answered before the many that came earlier, on one connection."""
    turns = 0
    enter = fair_queue.FairQueue.enter

    def counted(self: fair_queue.FairQueue, go: Callable[[], None]) -> None:
        nonlocal turns
        turns += 1
        enter(self, go)

    monkeypatch.setattr(fair_queue.FairQueue, "enter", counted)

    async def test(visitor: Visitor) -> None:
        await guarded(visitor.call)
        for raw in (request(), LIVE):
            before = turns
            reader, writer = await visitor.connect()
            writer.write(raw * 40)
            for _ in range(40):
                await read_answer(reader)
            assert turns - before >= 40 // fair_queue.AT_ONCE - 1
            before = turns
            writer.write(raw)
            await read_answer(reader)
            assert turns == before

    visit(tmp_path, test)


def test_only_so_many_are_taken_in_one_turn(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        port = int(visitor.call.url.rpartition(":")[2])
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]  # the loop does not run meanwhile
        opened = [open_now(visitor.call)]
        while opened[-1] < 200:
            await asyncio.sleep(0)
            opened.append(open_now(visitor.call))
        for sock in waiting:
            sock.close()
        assert max(after - before for before, after in itertools.pairwise(opened)) <= ACCEPTED_MAX

    visit(tmp_path, test)


def open_now(call: Client) -> float:
    number = call.context.registry.get_sample_value("raftsched_http_connections")
    assert number is not None
    return number


def events(token: str) -> bytes:
    shown = b"Authorization: Bearer %s\r\n" % token.encode() if token else b""
    return b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n" + shown + b"\r\n"


async def begins(visitor: Visitor, token: str, host: str = "127.0.0.1") -> int:
    """The status of a stream that goes on."""
    reader, writer = await visitor.connect(host)
    writer.write(events(token))
    return int((await reader.readuntil(b"\r\n")).split()[1])


def test_one_token_does_not_take_all_streams(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        visitor.call.cluster.quiet = True
        people = await guarded(visitor.call)
        first, second = people["viewer"].secret, people["editor"].secret
        assert [await begins(visitor, first) for _ in range(3)] == [200, 200, 429]
        assert [await begins(visitor, second) for _ in range(3)] == [200, 200, 429]
        status, _, body = await visitor.ask(events(second))
        assert (status, body["code"]) == (429, "too-many")
        assert 'with the token "editor"' in body["detail"]
        assert [await begins(visitor, people["admin"].secret) for _ in range(3)] == [200, 503, 503]

    visit(tmp_path, test, Bounds(streams=5, token_streams=2))


def test_one_address_does_not_take_all_streams(tmp_path: Path) -> None:
    async def test(visitor: Visitor) -> None:
        visitor.call.cluster.quiet = True
        assert [await begins(visitor, "", "127.0.0.2") for _ in range(3)] == [200, 200, 429]
        assert [await begins(visitor, "") for _ in range(3)] == [200, 200, 200]

    visit(tmp_path, test, Bounds(streams=8))
