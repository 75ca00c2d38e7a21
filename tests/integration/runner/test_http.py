"""http runs against a real server in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from raftsched.core.model import Outcome
from raftsched.worker.executors.http import retry_after_of
from raftsched.worker.processes.runner import RunEnd
from raftsched.worker.processes.wire import Http
from tests.integration.runner.bed import Bed, children
from tests.support.patience import patient_ms, within

Answer = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers each request by `answer(head, reader, writer)`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.gone = asyncio.Event()  # a client went away before it got an answer

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            await self._answer(head, reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()

    def get(self, path: str = "/", expect: tuple[int, ...] = (), **headers: str) -> Http:
        return Http("GET", f"http://127.0.0.1:{self.port}{path}", headers, b"", expect)


def fixed(response: bytes) -> Answer:
    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response)

    return answer


async def one(path: Path, response: bytes, expect: tuple[int, ...] = (), **options: int) -> tuple[RunEnd, str]:
    async with Bed(path, **options) as bed, Server(fixed(response)) as server:
        end = await bed.run(server.get(expect=expect))
        return end, bed.text(end)


async def test_requests_are_no_nicer_than_the_node(tmp_path: Path) -> None:
    """No code of a job is in their process; one that waits for others' jobs makes each request dear."""
    async with Bed(tmp_path, nice=7) as bed, Server(fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as server:
        assert (await bed.run(server.get())).outcome is Outcome.SUCCEEDED
        keepers = children(bed.runner.pid)
        services = [pid for keeper in keepers for pid in children(keeper)]
        assert services
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in (*keepers, *services)} == {
            os.getpriority(os.PRIO_PROCESS, 0)
        }


async def test_request_and_response(bed: Bed) -> None:
    seen: list[str] = []

    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(head + (await reader.readexactly(4)).decode())
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhelloEXTRA")

    async with Server(answer) as server:
        url = f"http://127.0.0.1:{server.port}/a/b?c=d"
        headers = {"Raftsched-Fencing-Token": "7", "host": "mine"}
        end = await bed.run(Http("POST", url, headers, b"body", ()))
        assert (end.outcome, end.result) == (Outcome.SUCCEEDED, b'{"status":201}')
        assert bed.text(end, "stdout") == "hello"
        head, _, sent = seen[0].partition("\r\n\r\n")
        first, *rest = head.split("\r\n")
        assert first == "POST /a/b?c=d HTTP/1.1"
        assert {"raftsched-fencing-token: 7", "content-length: 4", "host: mine", "connection: close"} <= {
            line.lower() for line in rest
        }
        assert sum(line.lower().startswith("host:") for line in rest) == 1
        assert sent == "body"


async def test_what_is_not_ascii_goes_as_latin_1(bed: Bed) -> None:
    seen: list[str] = []

    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with Server(answer) as server:
        end = await bed.run(server.get("/caf\xe9?a=%20[b]|c", **{"X-A": " spaced "}))
        assert (end.outcome, end.error) == (Outcome.SUCCEEDED, None)
        assert seen[0].startswith("GET /caf%E9?a=%20[b]|c HTTP/1.1\r\n")
        assert "\r\nX-A: spaced\r\n" in seen[0]


def test_unexpected_status_fails_with_the_body(tmp_path: Path) -> None:
    end, text = asyncio.run(one(tmp_path, b"HTTP/1.1 500 Oh No\r\nContent-Length: 3\r\n\r\nbad"))
    assert (end.outcome, end.error, end.result) == (Outcome.FAILED, "HTTP 500 Oh No\nbad", b'{"status":500}')
    assert text == "bad"


def test_expected_status(tmp_path: Path) -> None:
    response = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    end, _ = asyncio.run(one(tmp_path, response, (404, 410)))
    assert (end.outcome, end.error) == (Outcome.SUCCEEDED, None)


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    response = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    end, _ = asyncio.run(one(tmp_path, response))
    assert end.error == "HTTP 302 Found; redirects are not followed, it leads to /elsewhere"


def test_what_happened_stays_in_front_of_a_long_body(tmp_path: Path) -> None:
    page = b"<html>" + b"e" * 5_000 + b"</html>"
    head = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: %d\r\n\r\n" % len(page)
    end, _ = asyncio.run(one(tmp_path, head + page))
    assert end.error is not None
    assert end.error.startswith("HTTP 302 Found; redirects are not followed, it leads to /elsewhere\neee")
    assert end.error.endswith("ee</html>")


def test_chunked_and_until_close(tmp_path: Path) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert asyncio.run(one(tmp_path / "a", chunked))[1] == "abcde"
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nuntil the end"
    assert asyncio.run(one(tmp_path / "b", interim))[1] == "until the end"


def test_a_broken_response_fails(tmp_path: Path) -> None:
    cases = {
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort": "ended in the middle",
        b"": "closed the connection without an answer",
        b"SSH-2.0-OpenSSH\r\n\r\n": "does not begin like HTTP/1.1",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n": "not HTTP/1.1",
    }
    for i, (response, reason) in enumerate(cases.items()):
        path = tmp_path / str(i)
        path.mkdir()
        end, text = asyncio.run(one(path, response))
        assert end.outcome is Outcome.FAILED
        assert end.error is not None
        assert reason in end.error
        assert reason in text


async def test_what_is_no_http_fails_at_once_also_when_it_keeps_talking(bed: Bed) -> None:
    async def banner(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n")  # and waits for the client's
        if not await reader.read(1):
            raise ConnectionError

    async with Server(banner) as server:
        end = await within(bed.run(server.get()))
        assert end.error is not None
        assert "does not begin like HTTP/1.1: 'SSH-2.0-OpenSSH'" in end.error


async def test_a_response_in_small_pieces_is_judged_by_its_whole_begin(bed: Bed) -> None:
    async def pieces(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HT")
        await asyncio.sleep(0.05)  # two packets
        writer.write(b"TP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")

    async with Server(pieces) as server:
        end = await bed.run(server.get())
        assert end.error is not None
        assert "the response is not HTTP/1.1: bad Content-Length" in end.error


def test_a_large_body_is_cut(tmp_path: Path) -> None:
    size = 300_000
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    end, text = asyncio.run(one(tmp_path, response, max_attempt_bytes=100_000))
    assert end.outcome is Outcome.SUCCEEDED
    assert text.count("x") >= 99_000
    assert "only the first 100000 bytes of the response were read" in text


async def test_each_request_has_a_bound_of_its_own(bed: Bed) -> None:
    size = 300_000
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with Server(fixed(response)) as server:
        for bound, keep, read in ((20_000, 0, 20_000), (90_000, 0, 90_000), (90_000, 5_000, 5_000)):
            end = await bed.run(msgspec.structs.replace(server.get(), keep=keep), output_max=bound)
            assert f"only the first {read} bytes of the response were read" in bed.text(end)


async def test_nobody_there_and_bad_urls(bed: Bed) -> None:
    async with Server(fixed(b"")) as server:
        port = server.port
    end = await bed.run(Http("GET", f"http://127.0.0.1:{port}/", {}, b"", ()))
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.startswith(f"cannot connect to 127.0.0.1:{port}: ")
    for url in ("ftp://x/", "nothing", "http://127.0.0.1:99999/", "http://h/a b"):
        assert (await bed.run(Http("GET", url, {}, b"", ()))).outcome is Outcome.FAILED
    end = await bed.run(Http("GET", "http://127.0.0.1:1/", {"A": "x\r\nB: y"}, b"", ()))
    assert end.outcome is Outcome.FAILED


async def test_timeout_and_kill_close_the_connection(bed: Bed) -> None:
    arrived = asyncio.Event()

    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.readexactly(1)  # until the client goes

    async with Server(answer) as server:
        timeout_ms = patient_ms(300)  # the process that asks has to get as far as that
        end = await bed.run(server.get(), timeout_ms=timeout_ms)
        assert (end.outcome, end.error) == (Outcome.TIMED_OUT, f"timed out after {timeout_ms / 1000:g} s")
        await within(server.gone.wait())
        server.gone.clear()
        arrived.clear()
        token = bed.launch(server.get())
        await within(arrived.wait())
        bed.runner.kill(token, "killed on request")
        end = await bed.end(token)
        assert (end.outcome, end.error) == (Outcome.KILLED, "killed on request")
        await within(server.gone.wait())


async def test_the_lease_end_closes_the_connection(bed: Bed) -> None:
    arrived = asyncio.Event()

    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.readexactly(1)

    async with Server(answer) as server:
        token = bed.launch(server.get())
        await within(arrived.wait())
        bed.end_lease()
        await bed.lost(token)
        await within(server.gone.wait())


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

# By name: what begins an answer, what goes on for ever, and the words of the run's error.
FLOODS = {
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000,
        "more than 10 interim answers",
    ),
    "bytes": (_CHUNKED, b"1\r\ny\r\n" * 1_000, "too small pieces"),
    "extensions": (_CHUNKED, b"1;" + b"x" * 60_000 + b"\r\ny\r\n", "are not its body"),
    "trailers": (_CHUNKED + b"0\r\n", b"X: y\r\n" * 1_000, "longer than 65536 bytes"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1_000, "longer than 65536 bytes"),
    "header": (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 64_000, "longer than 65536 bytes"),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: /redirect\r\n\r\n", b"y" * 64_000, "redirects are not followed"),
}


async def test_floods_of_a_server_end_and_another_namespace_does_not_wait_for_them(bed: Bed) -> None:
    everybody = asyncio.Barrier(len(FLOODS) + 1)

    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = head.split(" ")[1][1:]
        if path == "quiet":
            await everybody.wait()  # in the midst of the floods
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return
        begin, more, _ = FLOODS[path]
        writer.write(begin)
        await writer.drain()
        await everybody.wait()
        while True:  # until the client goes
            writer.write(more)
            await writer.drain()

    async with Server(answer) as server:
        tokens = {name: bed.launch(server.get(f"/{name}"), namespace="a") for name in FLOODS}
        end = await bed.run(server.get("/quiet"), namespace="b")
        assert (end.outcome, bed.text(end)) == (Outcome.SUCCEEDED, "ok")
        for name, token in tokens.items():
            end = await bed.end(token)
            assert end.outcome is Outcome.FAILED, name
            assert FLOODS[name][2] in str(end.error), name


async def test_many_at_once(bed: Bed) -> None:
    waiting: list[asyncio.StreamWriter] = []
    all_here = asyncio.Event()
    count = 40

    async def answer(head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Nobody gets an answer before all are here."""
        waiting.append(writer)
        if len(waiting) == count:
            all_here.set()
        await all_here.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with Server(answer) as server:
        tokens = [bed.launch(server.get()) for _ in range(count)]
        assert {bed.text(await bed.end(token)) for token in tokens} == {"ok"}


async def test_a_request_may_say_how_much_is_kept_of_the_answer(bed: Bed) -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000
    async with Server(fixed(response)) as server:
        end = await bed.run(Http("POST", f"http://127.0.0.1:{server.port}/", {}, b"", (), 1_000))
        text = bed.text(end)
        assert end.outcome is Outcome.SUCCEEDED
        assert 900 <= text.count("x") <= 1_000
        assert "only the first 1000 bytes of the response were read" in text


def test_it_may_ask_to_come_later(tmp_path: Path) -> None:
    end, _ = asyncio.run(one(tmp_path, b"HTTP/1.1 429 Too Many\r\nRetry-After: 90\r\nContent-Length: 0\r\n\r\n"))
    assert (end.outcome, end.result, end.delay_ms) == (Outcome.FAILED, b'{"status":429}', 90_000)


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        (None, None),
        ("0", 0),
        ("120", 120_000),
        ("9" * 40, 86_400_000),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 1_000),
        ("Fri, 31 Dec 1999 23:59:57 GMT", 0),
        ("Sat, 31 Dec 2099 23:59:59 GMT", 86_400_000),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("Fri, 99 Dec 1999 23:59:59 GMT", None),
        ("", None),
    ],
)
def test_how_much_later(text: str | None, delay_ms: int | None) -> None:
    assert retry_after_of(text, 946_684_798_000) == delay_ms
