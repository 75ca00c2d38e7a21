"""Output as server-sent events: each piece with its stream and its place, so that a reader who is cut off goes on, at
any node, behind what it has. A node that does not hold the output passes on what the other one sends.

A place is the number of bytes that both streams printed before, also of those that are not kept: it stays what it is
when the middle of the output is left out, and whichever stream is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.streams import STREAMS, Heartbeat, begin, frame, problem_frame, send
from raftsched.api.runs.output_reading import Answer, Reading
from raftsched.api.runs.output_source import Asked
from raftsched.core.model import FINAL, Attempt, Outcome
from raftsched.core.rules.executors import is_worker
from raftsched.errors import RaftschedError
from raftsched.output.format.spool import STDERR, complete
from raftsched.output.reading.chain import Here, There
from raftsched.output.reading.text import Span, Text
from raftsched.surface.output import End, More, Piece, StreamName

PIECE_MAX = 64 * 1024  # bytes of output in one event
_BEAT = b":\n\n"

_encode = msgspec.json.Encoder().encode
T = TypeVar("T")


async def follow(ctx: ApiContext, request: web.Request, key: bytes, asked: Asked) -> web.StreamResponse:
    """From the first piece to the end of the attempt, however long that takes."""
    reading = _Events(ctx, request, key, asked)
    if reading.by_node and reading.attempt is not None:
        await reading.chain.open(reading.attempt, None)  # while there is a status to say that it is not here
    with request.app[STREAMS].one(request.remote):
        reading.response = await begin(ctx, request, _BEAT)
        if request.method == "HEAD":
            return reading.response
        try:
            await reading.run()
        except RaftschedError as error:  # too late for a status
            if reading.by_node and error.code == "output-unavailable":
                reading.cut_off("it is elsewhere now")  # who asked finds by itself where
            await send(request, reading.response, problem_frame(error))
        await reading.response.write_eof()
        return reading.response


class _Events(Reading):
    response: web.StreamResponse

    def __init__(self, ctx: ApiContext, request: web.Request, key: bytes, asked: Asked) -> None:
        super().__init__(ctx, request, key, asked)
        self._beat = Heartbeat(ctx.clock)
        self._place = ""  # the id behind what the reader has, or asked not to be sent; empty: it is not known yet
        self._end = asked.end  # a place; None: the end of the attempt
        self._begins = asked.tail_bytes is not None and not asked.resumed  # in the middle, perhaps of a character
        self._skipped = 0  # bytes, which nobody was told yet

    async def send_none(self) -> None:
        if self.row.state in FINAL:
            await self._send(frame(_encode(End(None, None, None, 0)), event="end"))
        elif not self.asked.follow:
            await self._send(frame(_encode(More(self.asked.offset)), event="more"))

    async def step(self, attempt: Attempt) -> bool:
        if attempt.outcome is Outcome.LOST:  # with it what it had printed since
            await self._send(frame(_encode(End(attempt.number, "lost", None, 0)), event="end"))
            return True
        return await super().step(attempt)

    # ------------------------------------------------------------ from here

    async def send(self, attempt: Attempt, place: Here) -> bool:
        text, asked = place.text, self.asked
        at = asked.offset
        if text is not None and not asked.resumed:
            at = await asyncio.to_thread(_printed_in, text, asked)
        before = -1
        while at != before and (self._end is None or at < self._end):
            before = at
            at = await self._send_next(attempt, text, at)
            if text is not None and not self._skipped:  # else who comes again behind it would never be told of that
                self._place = f"{attempt.number}.{at}"
        if text is not None:
            asked.go_on(at)
        if attempt.outcome is not None and (text is None or at >= text.printed):
            cut = 0 if attempt.output is None else attempt.output.truncated
            end = End(attempt.number, attempt.outcome.name.lower(), attempt.exit_code, cut)
            await self._send(frame(_encode(end), f"{attempt.number}.{at}", "end"))
            return True
        if asked.follow and (self._end is None or at < self._end):
            return False
        await self._send(frame(_encode(More(at)), f"{attempt.number}.{at}", "more"))
        return True

    async def _send_next(self, attempt: Attempt, text: Text | None, at: int) -> int:
        """Sends a bounded part of what there is, and returns the place behind it."""
        if text is None:
            return at
        lag, most = text.printed - at, self.asked.tail_bytes
        spans = await _spans_of(text, at if most is None or lag <= most else at + lag - most)
        events: list[bytes] = []
        for number, span in enumerate(spans, 1):
            start, data = self._trimmed(at, span)
            end = start + len(data)
            ended = attempt.outcome is not None and end >= text.printed
            at = self._add(
                events, attempt.number, span._replace(printed=start, data=data), whole=ended or number < len(spans)
            )
            if at in (self._end, start) or at < end:
                break
        if events:
            await self._send(b"".join(events))
        return at

    def _trimmed(self, at: int, span: Span) -> tuple[int, bytes]:
        """Returns what is to be sent of it, and its place; notes how much is left out between the last one and it."""
        start, data = span.printed, span.data
        if start > at or self._begins:
            lead = _inside(data)
            start, data = start + lead, data[lead:]
            self._skipped += 0 if self._begins else start - at
            self._begins = False
        if self._end is not None and start + len(data) >= self._end:
            data = data[: max(0, self._end - start)]
            data = data[: complete(data)] or data
            self._end = start + len(data)
        return start, data

    def _add(self, events: list[bytes], attempt: int, span: Span, *, whole: bool) -> int:
        """Returns the place behind what was added."""
        at, stream, data = span
        name: StreamName = "stderr" if stream == STDERR else "stdout"
        for piece in _pieces(data, whole=whole or at + len(data) == self._end):
            offset, at = at, at + len(piece)
            if self.asked.stream in (None, name):
                shown = Piece(offset, piece.decode("utf-8", "replace"), name, self._skipped)
                events.append(frame(_encode(shown), f"{attempt}.{at}"))
                self._skipped = 0
        return at

    # ------------------------------------------------------------ from another node

    async def pass_on(self, attempt: Attempt, place: There[Answer]) -> None:
        """Its node's stream as it is. Of a run on a remote worker this node may go on by itself: it sends whole
        events."""
        begun = b""
        async for part in place.answer.content.iter_any():
            if not is_worker(attempt.node):
                await self._send(part)
                continue
            whole, mark, begun = (begun + part).rpartition(b"\n\n")
            if whole:
                await self._send(whole + mark)
                self._note(whole)

    def _note(self, events: bytes) -> None:
        """Notes the place behind these events, which were sent."""
        _, mark, ident = (b"\n" + events).rpartition(b"\nid: ")
        if mark:
            self._place = ident.partition(b"\n")[0].decode()
            self._begins = False
            self.asked.go_on(int(self._place.partition(".")[2]))

    # ------------------------------------------------------------ in between

    async def _send(self, data: bytes) -> None:
        self._beat.sent()
        await send(self.request, self.response, data)

    async def _say_so(self) -> None:
        """Says that the stream is there: nothing of the output."""
        self._beat.sent()
        await send(self.request, self.response, frame(ident=self._place) if self._place else _BEAT)

    async def over(self) -> bool:
        if self._beat.due:
            await self._say_so()
        return await super().over()

    async def wait(self, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([task], timeout=self._beat.left_s))[0]:
                await self._say_so()
            return task.result()
        finally:
            task.cancel()


def _printed_in(text: Text, asked: Asked) -> int:
    """Returns the place where events begin: bytes of both streams that were printed before."""
    if asked.tail is not None:
        one = text.of(asked.stream if asked.tail else None)
        return one.printed_before(one.start_of(asked.tail))
    return asked.offset if asked.tail_bytes is None else max(0, text.printed - asked.tail_bytes)


async def _spans_of(text: Text, at: int) -> list[Span]:
    """Returns what was printed next; empty: nothing at the moment."""
    if at >= text.printed:
        return []
    spans = text.has_spans(at)
    return spans if spans is not None else await asyncio.to_thread(text.spans, at)


def _pieces(data: bytes, *, whole: bool) -> list[bytes]:
    """Returns these bytes cut between characters; those of one that is not complete wait, unless nothing follows."""
    pieces = []
    at, end = 0, len(data) if whole else complete(data)
    while at < end:
        size = min(PIECE_MAX, end - at)
        if at + size < end:
            size = complete(data[at : at + size]) or size
        pieces.append(data[at : at + size])
        at += size
    return pieces


def _inside(data: bytes) -> int:
    """Returns the number of bytes at the beginning that end a character."""
    return next((at for at, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), min(3, len(data)))
