"""The answer to a request, as HTTP/1.1 has it: read within bounds, in turns with the other requests of its process.

Whom a job asks decides what comes and how fast. What is not the body has a bound in bytes, pieces of the body have one
in number, and after its share of TURN_S the loop gets its turn: so that the request itself can be ended, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sized
from typing import Protocol

import h11

CHUNK = 64 * 1024  # bytes that are read at a time
INTERIM_MAX = 10  # answers of 1xx before the one that counts
HEAD_MAX = 64 * 1024  # bytes of one head, of the trailers, or of one line between chunks
HEADERS_MAX = 200
BESIDE_MAX = 1 << 20  # bytes of an answer that are not its body, all together
PIECES_MAX = 20_000  # pieces that a body may come in, and
PIECE_BYTES = 16  # one more for each so many bytes of it
TURN_S = 0.002  # of work between two turns of the loop, shared by all requests, but
TURN_LEAST_S = 0.0002  # for each no less: a usual answer takes half of it
_BEGIN_MAX = 80  # bytes that are shown of what is not HTTP


class Failed(Exception):
    """The reason, for the user."""


class Parser:
    """Parses what has come of an answer, by h11, without I/O. Raises Failed when that is not HTTP/1.1, ended too soon,
    or keeps to no bound."""

    def __init__(self, http: h11.Connection, beside_max: int = BESIDE_MAX) -> None:
        """`http`: has made the request. `beside_max`: bytes that are not the body, all together."""
        self._http = http
        self._beside_max = beside_max
        self._received = 0  # bytes
        self._body_size = 0  # bytes, of what was received
        self._pieces = 0
        self._interim = 0
        self._begin = b""
        self._at_end = False

    def event(self) -> object:
        """Returns the next event of h11, or NEED_DATA: give it to `receive`."""
        try:
            found = self._http.next_event()
        except h11.RemoteProtocolError as exc:
            if not self._received:
                raise Failed("the server closed the connection without an answer") from None
            if self._at_end:
                raise Failed("the connection ended in the middle of the response") from None
            if exc.error_status_hint == 431:  # h11's word for its own bound
                raise Failed(f"a head, trailers or a line between chunks are longer than {HEAD_MAX} bytes") from None
            raise Failed(f"the response is not HTTP/1.1: {exc}") from None
        if found is h11.NEED_DATA and self._received - self._body_size > self._beside_max:
            raise Failed(f"more than {self._beside_max} bytes of the response are not its body")
        return found

    def final(self, event: object) -> h11.Response | None:
        """Returns the event as the head of the response; None: it is that of an interim one."""
        if isinstance(event, h11.InformationalResponse):
            self._interim += 1
            if self._interim > INTERIM_MAX:
                raise Failed(f"more than {INTERIM_MAX} interim answers (1xx) came, and no response")
            return None
        if not isinstance(event, h11.Response):
            raise Failed(f"the response is not HTTP/1.1: {type(event).__name__} in place of a status line")
        if len(event.headers) > HEADERS_MAX:
            raise Failed(f"more than {HEADERS_MAX} header lines in the response")
        return event

    def count(self, size: int) -> None:
        """Counts a piece of the body."""
        self._body_size += size
        self._pieces += 1
        if self._pieces > PIECES_MAX + self._body_size // PIECE_BYTES:
            raise Failed(
                f"the response comes in too small pieces: {self._pieces} for {self._body_size} bytes of its body"
            )

    def receive(self, data: bytes) -> None:
        """Takes what has come; empty: the end."""
        self._received += len(data)
        self._at_end = not data
        if len(self._begin) < _BEGIN_MAX:
            self._begin += data[: _BEGIN_MAX - len(self._begin)]
            self._check_begin()
        try:
            self._http.receive_data(data)
        except h11.RemoteProtocolError as exc:
            raise Failed(f"the response is not HTTP/1.1: {exc}") from None

    def _check_begin(self) -> None:
        """Raises Failed as soon as the first line is there, or begins with what is no text: h11 says so only after an
        empty line, which a server of something else may never send."""
        line, ended, _ = self._begin.partition(b"\n")
        known = ended or self._at_end or len(line) >= _BEGIN_MAX or line[:1] < b"\t"
        if known and line and not line.startswith(b"HTTP/1."):
            shown = line.decode("latin-1").rstrip("\r")
            raise Failed(f"the response does not begin like HTTP/1.1: {shown!r}")


class Reader(Protocol):
    """The part of a connection that an answer needs."""

    async def read(self, size: int) -> bytes:
        """Returns what has come, at most so much of it; empty: the end."""


class Answer:
    """The answer on one connection. Raises Failed as Parser does."""

    def __init__(
        self,
        http: h11.Connection,
        reader: Reader,
        now: Callable[[], float],
        requests: Sized = ("it",),
        begin: bytes | None = None,
    ) -> None:
        """`now`: seconds of any clock that never goes backwards. `requests`: all that take turns, itself among them.
        `begin`: what was read of it already."""
        self._parser = Parser(http)
        self._reader = reader
        self._now = now
        self._requests = requests
        self._turn_began = now()
        if begin is not None:
            self._parser.receive(begin)

    async def head(self) -> h11.Response:
        """Returns the status line and the headers of the response that is final."""
        while True:
            event = self._parser.event()
            if event is h11.NEED_DATA:
                await self._read()
            elif (found := self._parser.final(event)) is not None:
                return found
            await self._give_way()

    async def body(self) -> AsyncIterator[bytes]:
        """Yields the body, as much at a time as is there."""
        waiting: list[bytes] = []
        while True:
            try:
                event = self._parser.event()
            except Failed:
                if waiting:
                    yield b"".join(waiting)
                raise
            if isinstance(event, h11.Data):
                waiting.append(event.data)
                self._parser.count(len(event.data))
                if not self._turn_is_over():
                    continue
            if waiting:
                yield b"".join(waiting)
                waiting.clear()
            if event is h11.NEED_DATA:
                await self._read()
            elif not isinstance(event, h11.Data):
                return
            await self._give_way()

    async def _read(self) -> None:
        before = self._now()
        data = await self._reader.read(CHUNK)  # waits only when there is none
        self._turn_began += self._now() - before
        self._parser.receive(data)

    def _turn_is_over(self) -> bool:
        return self._now() - self._turn_began >= max(TURN_LEAST_S, TURN_S / len(self._requests))

    async def _give_way(self) -> None:
        """Gives the others their turn, when it is time."""
        if self._turn_is_over():
            await asyncio.sleep(0)
            self._turn_began = self._now()
