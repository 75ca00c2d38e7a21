"""Output as server-sent events: each piece with its stream and its place, so that a reader who is cut off goes on, at
any node, behind what it has. A node that does not hold the output passes on what the other one sends.

A place is the number of bytes that both streams printed before, also of those that are not kept: it stays what it is
when the middle of the output is left out, and whichever stream is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NoReturn, TypeVar

import aiohttp
import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.peers import read_answer
from raftsched.api.http.problems import Problem
from raftsched.api.http.streams import STREAMS, Heartbeat, begin, frame, problem_frame, send
from raftsched.api.runs.output_source import (
    HOP,
    Asked,
    Copies,
    ask,
    copy_of,
    find,
    from_copy,
    from_store,
    holder,
    may_have_copy,
    not_here,
    pause,
    printed_in,
    spans_of,
    text_of,
)
from raftsched.core.model import FINAL, Attempt, Instance, Outcome
from raftsched.core.rules.executors import is_worker
from raftsched.errors import KINDS, RaftschedError
from raftsched.output.format.spool import STDERR, complete
from raftsched.output.reading.text import Span, Text
from raftsched.surface.output import End, More, Piece, StreamName

PIECE_MAX = 64 * 1024  # bytes of output in one event
_BEAT = b":\n\n"

_encode = msgspec.json.Encoder().encode
T = TypeVar("T")
_Opened = Callable[[str | None], Awaitable[Text | None]]  # opens one stream of an output, or both


async def follow(ctx: ApiContext, request: web.Request, key: bytes, asked: Asked) -> web.StreamResponse:
    """From the first piece to the end of the attempt, however long that takes."""
    row, attempt = find(ctx, key, asked)
    live = attempt is not None and holder(ctx, attempt) is None
    if HOP in request.headers and attempt is not None and live and await text_of(ctx, row, attempt, None) is None:
        raise not_here(ctx)
    if HOP in request.headers and attempt is not None and attempt.outcome is not None:
        await _is_readable(ctx, row, attempt)
    with request.app[STREAMS].one(request.remote):
        response = await begin(ctx, request, _BEAT)
        if request.method == "HEAD":
            return response
        try:
            await _Reading(ctx, request, response, key, asked).run()
        except RaftschedError as error:  # too late for a status
            await send(request, response, problem_frame(error))
        await response.write_eof()
        return response


async def _is_readable(ctx: ApiContext, row: Instance, attempt: Attempt) -> None:
    """Refuses another node's request for what is not here, while there is a status to say that with."""
    if holder(ctx, attempt) == ctx.node_id:
        await text_of(ctx, row, attempt, None)
    elif attempt.output is not None and await copy_of(ctx, attempt, None) is None:
        raise not_here(ctx)


class _Reading:
    def __init__(
        self, ctx: ApiContext, request: web.Request, response: web.StreamResponse, key: bytes, asked: Asked
    ) -> None:
        self._ctx = ctx
        self._request = request
        self._response = response
        self._key = key
        self._asked = asked
        self._beat = Heartbeat(ctx.clock)
        self._place = ""  # the id behind what the reader has, or asked not to be sent; empty: it is not known yet
        self._end = asked.end  # a place; None: the end of the attempt
        self._begins = False  # in the middle, perhaps of a character
        self._skipped = 0  # bytes, which nobody was told yet
        self._copies = Copies(ctx, request, asked)
        self._sent = False
        self._moved = False  # what another node asked for was here, and is not any more

    async def run(self) -> None:
        row, attempt = find(self._ctx, self._key, self._asked)
        while attempt is None and row.state not in FINAL:
            if not self._asked.follow:
                await self._send(frame(_encode(More(self._asked.offset)), event="more"))
                return
            if await self._over():
                return
            row, attempt = find(self._ctx, self._key, self._asked)
        if attempt is None:
            await self._send(frame(_encode(End(None, None, None, 0)), event="end"))
            return
        self._asked.attempt = attempt.number
        while not await self._read(row, attempt):  # its worker has changed nodes, or is to come to one
            row, again = find(self._ctx, self._key, self._asked)
            attempt = again or attempt

    async def _read(self, row: Instance, attempt: Attempt) -> bool:
        """Sends what there is, and what comes. False: it goes on, perhaps at another node."""
        if attempt.outcome is Outcome.LOST:  # with it what it had printed since
            await self._send(frame(_encode(End(attempt.number, "lost", None, 0)), event="end"))
            return True
        try:
            return await self._first_copy(row, attempt)
        except RaftschedError as error:
            if self._sent or not may_have_copy(self._ctx, row, attempt, error):
                raise
            return await self._second_copy(row, attempt, error)

    async def _second_copy(self, row: Instance, attempt: Attempt, why: RaftschedError) -> bool:
        opened: _Opened = partial(copy_of, self._ctx, attempt)
        if await opened(None) is None:
            found = await self._while_it_says_so(from_copy(self._ctx, self._request, row, attempt, self._asked))
            if found is not None:
                return await self._pass_on(found[0], attempt, found[1])
            opened = partial(from_store, self._ctx, self._request, attempt)
            if await self._while_it_says_so(opened(None)) is None:
                raise why
        return await self._own(row, attempt, opened)

    async def _first_copy(self, row: Instance, attempt: Attempt) -> bool:
        node = holder(self._ctx, attempt)
        if node == self._ctx.node_id:
            return await self._own(row, attempt)
        if self._moved:  # to a node that who asked here finds by itself
            self._cut_off("the worker has changed nodes")
        if node is not None:
            asking = ask(self._ctx, self._request, row, attempt, self._asked, node)
            return await self._pass_on(node, attempt, await self._while_it_says_so(asking))
        if await text_of(self._ctx, row, attempt, None) is not None:
            return await self._own(row, attempt)
        found = await self._while_it_says_so(self._copies.find(row, attempt))
        if found is not None:
            return await self._pass_on(found[0], attempt, found[1])
        if not self._asked.follow:
            await self._send(frame(_encode(More(self._asked.offset)), event="more"))
            return True
        return await self._over()

    async def _own(self, row: Instance, attempt: Attempt, opened: _Opened | None = None) -> bool:
        """From this node's disk, or as `opened` opens it. False: it is not there any more."""
        asked = self._asked
        opened = opened or partial(text_of, self._ctx, row, attempt)
        at = await printed_in(await opened(asked.stream if asked.tail else None), asked)
        text = await opened(None)  # of both: who reads another stream reads the same text
        self._begins = asked.tail_bytes is not None and not asked.resumed
        while True:
            before = at
            at = await self._send_next(attempt, text, at)
            if not self._skipped:  # else who comes again behind it would never be told of that
                self._place = f"{attempt.number}.{at}"
            limited = self._end is not None and at >= self._end
            if at != before and not limited:
                continue
            if attempt.outcome is not None and (text is None or at >= text.printed):
                cut = 0 if attempt.output is None else attempt.output.truncated
                end = End(attempt.number, attempt.outcome.name.lower(), attempt.exit_code, cut)
                await self._send(frame(_encode(end), f"{attempt.number}.{at}", "end"))
                return True
            if limited or not asked.follow:
                await self._send(frame(_encode(More(at)), f"{attempt.number}.{at}", "more"))
                return True
            if await self._over():
                return True
            attempt = find(self._ctx, self._key, asked)[1] or attempt
            node = holder(self._ctx, attempt)
            text = await text_of(self._ctx, row, attempt, None) if node in (None, self._ctx.node_id) else None
            if is_worker(attempt.node) and text is None and node != self._ctx.node_id:
                asked.go_on(attempt.number, at)
                self._moved = HOP in self._request.headers
                return False

    async def _send_next(self, attempt: Attempt, text: Text | None, at: int) -> int:
        """Sends a bounded part of what there is, and returns the place behind it."""
        if text is None:
            return at
        lag, most = text.printed - at, self._asked.tail_bytes
        spans = await spans_of(text, at if most is None or lag <= most else at + lag - most)
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
            if self._asked.stream in (None, name):
                shown = Piece(offset, piece.decode("utf-8", "replace"), name, self._skipped)
                events.append(frame(_encode(shown), f"{attempt}.{at}"))
                self._skipped = 0
        return at

    async def _pass_on(self, node: str, attempt: Attempt, answer: aiohttp.ClientResponse) -> bool:
        """Its node's stream as it is; who is cut off in the middle of it comes again, to a node that may know more. Of
        a run on a remote worker this node goes on by itself, and False is returned."""
        async with answer:
            if answer.status != 200:
                raise refusal(node, answer.status, await read_answer(answer))
            moves = is_worker(attempt.node)
            begun = b""
            try:
                async for part in answer.content.iter_any():
                    if not moves:
                        await self._send(part)
                        continue
                    whole, mark, begun = (begun + part).rpartition(b"\n\n")
                    if whole:
                        await self._send(whole + mark)
                        self._note(attempt.number, whole)
            except (aiohttp.ClientError, TimeoutError):
                if not moves:
                    self._cut_off("the node that has it fell silent")
                return await pause(self._request)
            return True

    def _note(self, attempt: int, events: bytes) -> None:
        """Notes the place behind these events, which were sent."""
        _, mark, ident = (b"\n" + events).rpartition(b"\nid: ")
        if mark:
            offset = int(ident.partition(b"\n")[0].partition(b".")[2])
            self._place = f"{attempt}.{offset}"
            self._asked.go_on(attempt, offset)

    def _cut_off(self, why: str) -> NoReturn:
        if self._request.transport is not None:
            self._request.transport.abort()  # an event may be cut in two: nothing may follow it
        raise ConnectionResetError(why)

    async def _send(self, data: bytes) -> None:
        self._sent = True
        self._beat.sent()
        await send(self._request, self._response, data)

    async def _say_so(self) -> None:
        """Says that the stream is there: nothing of the output."""
        self._beat.sent()
        await send(self._request, self._response, frame(ident=self._place) if self._place else _BEAT)

    async def _over(self) -> bool:
        """Waits a little; True when the reader has gone or the node stops."""
        if self._beat.due:
            await self._say_so()
        return await pause(self._request)

    async def _while_it_says_so(self, work: Awaitable[T]) -> T:
        """Returns the result of work that may take long, such as a question to a node that hangs."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([task], timeout=self._beat.left_s))[0]:
                await self._say_so()
            return task.result()
        finally:
            task.cancel()


class _Said(msgspec.Struct):
    """The fields of a problem that end a stream."""

    code: str
    detail: str


def refusal(node: str, status: int, raw: bytes) -> Problem:
    """Returns what another node's refusal is for the reader."""
    try:
        said = msgspec.json.decode(raw, type=_Said)
    except msgspec.DecodeError:
        said = _Said("", "")
    if status < 500 and said.code in KINDS:
        return Problem(said.code, said.detail)
    return Problem("output-unavailable", f"Node {node}, which has it, answers {status}. {said.detail}".rstrip())


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
