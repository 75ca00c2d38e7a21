"""Output as server-sent events: each piece with its offset in bytes, so that a reader who is cut off goes on, at any
node, behind what it has. A node that does not hold the output passes on what the other one sends."""

from __future__ import annotations

import aiohttp
import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem
from raftsched.api.http.streams import HEARTBEAT_S, STREAMS, begin, frame, problem_frame, send
from raftsched.api.runs.output_source import POLL_S, Asked, ask, find, pause, piece_of, start_in, text_of
from raftsched.core.model import FINAL, Attempt, Instance, Outcome
from raftsched.errors import KINDS, RaftschedError

PIECE_MAX = 64 * 1024  # bytes of output in one event
_CHARACTER_MAX = 4  # bytes that UTF-8 makes of one
_BEAT = b":\n\n"

_encode = msgspec.json.Encoder().encode


class Piece(msgspec.Struct):
    """A piece of output, from `offset` on. The id is the attempt and the offset of what follows."""

    offset: int  # bytes
    text: str


class End(msgspec.Struct):
    """The attempt has ended, and all of its output was sent. Null: the instance ended without such an attempt."""

    attempt: int | None
    outcome: str | None
    exit_code: int | None
    truncated: int  # bytes left out in the middle


async def follow(ctx: ApiContext, request: web.Request, key: bytes, asked: Asked) -> web.StreamResponse:
    """From the first piece to the end of the attempt, however long that takes."""
    find(ctx, key, asked)
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


class _Reading:
    def __init__(
        self, ctx: ApiContext, request: web.Request, response: web.StreamResponse, key: bytes, asked: Asked
    ) -> None:
        self._ctx = ctx
        self._request = request
        self._response = response
        self._key = key
        self._asked = asked
        self._silent_s = 0.0

    async def run(self) -> None:
        row, attempt = find(self._ctx, self._key, self._asked)
        while attempt is None and row.state not in FINAL:
            if await self._over():
                return
            row, attempt = find(self._ctx, self._key, self._asked)
        if attempt is None:
            await self._send(frame(_encode(End(None, None, None, 0)), event="end"))
            return
        self._asked.attempt = attempt.number
        if attempt.outcome is Outcome.LOST:  # with it what it had printed since
            await self._send(frame(_encode(End(attempt.number, "lost", None, 0)), event="end"))
            return
        if attempt.node == self._ctx.node_id:
            await self._own(attempt)
        else:
            await self._pass_on(row, attempt)

    async def _own(self, attempt: Attempt) -> None:
        at: int | None = None
        while True:
            text = await text_of(self._ctx, attempt, self._asked.stream)
            if at is None:
                at = await start_in(text, self._asked)
            while read := await piece_of(text, at):
                last = attempt.outcome is not None and text is not None and at + len(read) >= text.size
                before = at
                for piece in _pieces(read, 0, whole=last):
                    shown = _encode(Piece(at, piece.decode("utf-8", "replace")))
                    at += len(piece)
                    await self._send(frame(shown, f"{attempt.number}.{at}"))
                if at == before:  # a part of a character
                    break
            if attempt.outcome is not None:
                cut = 0 if attempt.output is None else attempt.output.truncated
                end = End(attempt.number, attempt.outcome.name.lower(), attempt.exit_code, cut)
                await self._send(frame(_encode(end), f"{attempt.number}.{at}", "end"))
                return
            if await self._over():
                return
            attempt = find(self._ctx, self._key, self._asked)[1] or attempt

    async def _pass_on(self, row: Instance, attempt: Attempt) -> None:
        """Its node's stream as it is; who is cut off in the middle of it comes again, to a node that may know more."""
        async with await ask(self._ctx, self._request, row, attempt, self._asked) as answer:
            if answer.status != 200:
                raise _refusal(attempt.node, answer.status, await answer.read())
            try:
                async for part in answer.content.iter_any():
                    await self._send(part)
            except (aiohttp.ClientError, TimeoutError):
                if self._request.transport is not None:
                    self._request.transport.abort()  # an event may be cut in two: nothing may follow it
                raise ConnectionResetError("the node that has it fell silent") from None

    async def _send(self, data: bytes) -> None:
        self._silent_s = 0.0
        await send(self._request, self._response, data)

    async def _over(self) -> bool:
        """Waits a little; True when the reader has gone or the node stops."""
        self._silent_s += POLL_S
        if self._silent_s >= HEARTBEAT_S:
            await self._send(_BEAT)
        return await pause(self._request)


class _Said(msgspec.Struct):
    """The fields of a problem that end a stream."""

    code: str
    detail: str


def _refusal(node: str, status: int, raw: bytes) -> Problem:
    try:
        said = msgspec.json.decode(raw, type=_Said)
    except msgspec.DecodeError:
        said = _Said("", "")
    if status < 500 and said.code in KINDS:
        return Problem(said.code, said.detail)
    return Problem("output-unavailable", f"Node {node}, which ran it, answers {status}. {said.detail}".rstrip())


def _pieces(text: bytes, at: int, *, whole: bool) -> list[bytes]:
    """Yields what follows, cut between characters; the bytes of one that is not complete wait, unless nothing
    follows."""
    pieces = []
    end = len(text) if whole else at + _complete(text[at:])
    while at < end:
        size = min(PIECE_MAX, end - at)
        if at + size < end:
            size = _complete(text[at : at + size]) or size
        pieces.append(text[at : at + size])
        at += size
    return pieces


def _complete(data: bytes) -> int:
    """Returns the number of these bytes that end with a whole character (RFC 3629); what is no UTF-8 is one byte a
    character."""
    for back in range(1, min(_CHARACTER_MAX, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:  # begins one of 2, 3 or 4 bytes
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
        if byte < 0x80:
            break
    return len(data)
