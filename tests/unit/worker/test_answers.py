"""Answers of servers that mean harm, or are broken: bounded, and never in the way of others. No network, no time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count, repeat

import h11
import pytest

from raftsched.worker.executors.answers import CHUNK, HEAD_MAX, INTERIM_MAX, PIECE_BYTES, PIECES_MAX, Answer, Failed

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Flood:
    """A server that is always ahead of its reader, as StreamReader is then: reading never waits."""

    def __init__(self, *begin: bytes, then: bytes = b"") -> None:
        self._pieces: Iterator[bytes] = iter([*begin])
        self._then: Iterator[bytes] = repeat(then)
        self.reads = 0

    async def read(self, size: int) -> bytes:
        self.reads += 1
        piece = next(self._pieces, None)
        return next(self._then) if piece is None else piece


def asked(flood: Flood, ms_a_look: float = 0.0) -> Answer:
    """An answer to a request that was sent, by a clock that goes on by so much whenever it is looked at."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    ticks = count()
    return Answer(http, flood, lambda: next(ticks) * ms_a_look / 1000)  # type: ignore[arg-type]


async def whole(answer: Answer) -> bytes:
    await answer.head()
    return b"".join([data async for data in answer.body()])


@pytest.mark.parametrize(
    "flood, reason",
    [
        (Flood(then=b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000), "more than 10 interim answers"),
        (Flood(then=b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), "more than 10 interim answers"),
        (Flood(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", then=b"x"), "is not HTTP/1.1"),
        (Flood(CHUNKED, then=b"1\r\ny\r\n" * 1_000), "in too small pieces"),
        (Flood(CHUNKED, then=b"1\r\ny\r\n"), "in too small pieces"),
        (Flood(CHUNKED, then=b"1;" + b"x" * 60_000 + b"\r\ny\r\n"), "are not its body"),
        (Flood(CHUNKED, then=b"1;xxxxxxxxxx"), "longer than 65536 bytes"),
        (Flood(CHUNKED, b"0\r\n", then=b"X: y\r\n" * 1_000), "longer than 65536 bytes"),
        (Flood(OK, then=b"X: y\r\n" * 1_000), "longer than 65536 bytes"),
        (Flood(OK, b"X: ", then=b"y"), "longer than 65536 bytes"),
        (Flood(OK + b"X: y\r\n" * 300 + b"\r\n"), "more than 200 header lines"),
        (Flood(b"HTTP/1.1 200 ", then=b"y"), "longer than 65536 bytes"),
        (Flood(then=b"\r\n"), "does not begin like HTTP/1.1"),
        (Flood(then=b"SSH-2.0-"), "does not begin like HTTP/1.1"),
        (Flood(b"\x00\x00\x12\x04\x00"), r"does not begin like HTTP/1.1: '\\x00\\x00\\x12"),  # HTTP/2's settings
        (Flood(), "closed the connection without an answer"),
        (Flood(OK + b"Content-Length: 5\r\n\r\nab"), "in the middle"),
        (Flood(CHUNKED + b"1\r\na\r\nzz\r\n"), "not HTTP/1.1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_never_ends_is_ended(flood: Flood, reason: str) -> None:
    with pytest.raises(Failed, match=reason):
        asyncio.run(whole(asked(flood)))
    assert flood.reads < 2 * max(HEAD_MAX, PIECES_MAX + PIECES_MAX // PIECE_BYTES)


def test_what_is_within_the_bounds_is_read() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n" * INTERIM_MAX
    headers = b"".join(b"X%d: %s\r\n" % (n, b"y" * 200) for n in range(200 - 1))
    head = OK + headers + b"Transfer-Encoding: chunked\r\n\r\n"
    chunks = b"1;a=b\r\ny\r\n" * PIECES_MAX
    answer = asyncio.run(whole(asked(Flood(interim + head, chunks, b"0\r\nT: v\r\n\r\n"))))
    assert answer == b"y" * PIECES_MAX


def test_what_came_before_a_fault_is_shown() -> None:
    came: list[bytes] = []

    async def body() -> None:
        answer = asked(Flood(CHUNKED + b"2\r\nab\r\n1\r\nc\r\nzz\r\n"))
        await answer.head()
        async for data in answer.body():
            came.append(data)

    with pytest.raises(Failed):
        asyncio.run(body())
    assert came == [b"abc"]


@pytest.mark.parametrize(
    "flood, ms_a_look",
    [
        (Flood(OK + b"\r\n", then=b"y" * CHUNK), 0.1),
        (Flood(CHUNKED, then=b"40\r\n" + b"y" * 64 + b"\r\n"), 0.1),
        (Flood(CHUNKED, then=(b"40\r\n" + b"y" * 64 + b"\r\n") * 10**4), 0.1),
        (Flood(CHUNKED, then=(b"40\r\n" + b"y" * 64 + b"\r\n") * 10**4), 10.0),
    ],
    ids=["body", "a chunk a read", "many chunks a read", "each dear"],
)
def test_others_have_their_turn_while_it_comes_and_it_can_be_ended(flood: Flood, ms_a_look: float) -> None:
    size = 0

    async def flooded() -> None:
        nonlocal size
        answer = asked(flood, ms_a_look)
        await answer.head()
        async for data in answer.body():
            size += len(data)
            assert size < 64 << 20, "nobody else has had a turn"

    async def body() -> None:
        run = asyncio.create_task(flooded())
        for _ in range(100):  # another's request, which would wait so often
            await asyncio.sleep(0)
            assert not run.done()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(body())
    assert size > 0


def test_a_turn_is_given_no_more_often_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    async def sleep(seconds: float) -> None:
        turns.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert asyncio.run(whole(asked(Flood(OK + b"Content-Length: 2\r\n\r\n", b"ok")))) == b"ok"
    assert turns == []
