"""GET /v1/instances/{id}/output: from this node's disk, or fetched from the node that ran the attempt, one hop away."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.peers import read_answer
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import stamp
from raftsched.api.http.requests import instance_key_of
from raftsched.api.http.streams import STREAMS, send
from raftsched.api.rows import requested_instance
from raftsched.api.runs import output_stream
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
    piece_of,
    start_in,
    text_of,
)
from raftsched.api.serving import serves
from raftsched.core.model import FINAL, Attempt, Instance
from raftsched.errors import RaftschedError
from raftsched.output.reading.text import PIECE, Text
from raftsched.surface import output as surface

STORE = "object store"  # as who served it; no node is called so
_CHUNK = 64 * 1024
_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
_RELAYED = (
    "Content-Type",
    "Content-Length",
    "Content-Range",
    "Accept-Ranges",
    surface.ATTEMPT,
    surface.OFFSET,
    surface.TRUNCATED,
)


@serves(surface.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.StreamResponse:
    request = call.request
    asked = Asked(request, call.query)
    key = instance_key_of(call)
    if request.method == "HEAD" and not asked.events:
        asked.follow = False  # there is nothing to wait for
    if asked.events:
        return await output_stream.follow(ctx, request, key, asked)
    with request.app[STREAMS].one(request.remote) if asked.follow else nullcontext():
        return await _plain(ctx, request, key, asked)


async def _plain(ctx: ApiContext, request: web.Request, key: bytes, asked: Asked) -> web.StreamResponse:
    row, attempt = find(ctx, key, asked)
    while attempt is None and asked.follow and row.state not in FINAL and not await pause(request):
        row, attempt = find(ctx, key, asked)
    if attempt is None:
        return web.Response(body=b"", headers=_PLAIN)
    try:
        return await _of_attempt(ctx, request, row, attempt, asked)
    except RaftschedError as error:  # before anything was sent
        if not may_have_copy(ctx, row, attempt, error):
            raise
        return await _second_copy(ctx, request, row, attempt, asked, error)


async def _of_attempt(
    ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt, asked: Asked
) -> web.StreamResponse:
    node = holder(ctx, attempt)
    if node is None:
        return await _of_worker(ctx, request, row, attempt, asked)
    if node != ctx.node_id:
        return await _relay(ctx, request, row, attempt, asked, node)
    if asked.follow and attempt.outcome is None:
        return await _follow(ctx, request, row, asked, attempt)
    text = await text_of(ctx, row, attempt, asked.stream)
    return await _part(ctx, request, text, attempt, await start_in(text, asked), asked.limit_bytes)


async def _second_copy(
    ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt, asked: Asked, why: RaftschedError
) -> web.StreamResponse:
    text, by = await copy_of(ctx, attempt, asked.stream), ""
    if text is None:
        found = await from_copy(ctx, request, row, attempt, asked)
        if found is not None:
            node, answer = found
            async with answer:
                return await _pass_on(ctx, request, node, answer)
        text, by = await from_store(ctx, request, attempt, asked.stream), STORE
    if text is None:
        raise why
    return await _part(ctx, request, text, attempt, await start_in(text, asked), asked.limit_bytes, by)


async def _part(
    ctx: ApiContext,
    request: web.Request,
    text: Text | None,
    attempt: Attempt,
    offset: int,
    limit: int | None,
    served_by: str = "",
) -> web.StreamResponse:
    """All of it from there on, or `limit` bytes, or the one range of this that was asked for (RFC 9110, section 14).
    `served_by`: who has it, where it is not this node."""
    size = 0 if text is None else max(0, text.size - offset)
    if limit is not None:
        size = min(size, limit)
    headers = {**_PLAIN, surface.ATTEMPT: str(attempt.number), surface.OFFSET: str(offset), "Accept-Ranges": "bytes"}
    if served_by:
        headers[surface.SERVED_BY] = served_by
    if attempt.output is not None and attempt.output.truncated:
        headers[surface.TRUNCATED] = str(attempt.output.truncated)
    status, start, stop = 200, 0, size
    if "Range" in request.headers:
        try:
            start, stop, _ = request.http_range.indices(size)
            status = 206
        except ValueError:
            pass  # what is not understood is ignored
    if status == 206:
        if start >= stop:
            raise Problem(
                "unsatisfiable-range",
                f"The output has {size} bytes.",
                headers={"Content-Range": f"bytes */{size}"},
            )
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    at, end = offset + start, offset + stop
    if text is None or end - at <= PIECE:
        body = b"" if text is None else await asyncio.to_thread(text.read, at, end - at)
        return web.Response(body=body, status=status, headers=headers)
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = end - at
    stamp(ctx, response.headers)
    await response.prepare(request)
    while at < end and request.method != "HEAD":
        piece = await asyncio.to_thread(text.read, at, min(PIECE, end - at))
        if not piece:  # its file was cut off
            _cut_off(request)
            return response
        await send(request, response, piece)
        at += len(piece)
    await response.write_eof()
    return response


def _cut_off(request: web.Request) -> None:
    """An answer that is not whole must not look like a whole one."""
    if request.transport is not None:
        request.transport.abort()


async def _follow(
    ctx: ApiContext, request: web.Request, row: Instance, asked: Asked, attempt: Attempt
) -> web.StreamResponse:
    """Streams what there is, and what comes until the attempt ends."""
    text = await text_of(ctx, row, attempt, asked.stream)
    at = await start_in(text, asked)
    response = web.StreamResponse(headers={**_PLAIN, surface.ATTEMPT: str(attempt.number), surface.OFFSET: str(at)})
    stamp(ctx, response.headers)
    await response.prepare(request)
    number = attempt.number
    try:
        while True:
            while piece := (await piece_of(text, at))[: None if asked.end is None else max(0, asked.end - at)]:
                await send(request, response, piece)
                at += len(piece)
            if attempt.outcome is not None or (asked.end is not None and at >= asked.end):
                break
            if await pause(request):
                _cut_off(request)
                return response
            attempt = _again(ctx, row.key, number) or attempt
            text = await text_of(ctx, row, attempt, asked.stream)
    except Problem as problem:  # too late for a status
        await response.write(f"\n[{problem.detail}]\n".encode())
    await response.write_eof()
    return response


def _again(ctx: ApiContext, key: bytes, number: int) -> Attempt | None:
    with ctx.read() as view:
        row = requested_instance(view, key)
    return next((a for a in row.attempts if a.number == number), None)


# ---------------------------------------------------------------- from another node


async def _relay(
    ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt, asked: Asked, node: str
) -> web.StreamResponse:
    async with await ask(ctx, request, row, attempt, asked, node) as answer:
        return await _pass_on(ctx, request, node, answer)


async def _pass_on(
    ctx: ApiContext, request: web.Request, node: str, answer: aiohttp.ClientResponse
) -> web.StreamResponse:
    if answer.status >= 500 and answer.status != 503:
        raise Problem("output-unavailable", f"Node {node}, which has it, answers {answer.status}.")
    if answer.status == 410:
        raise output_stream.refusal(node, answer.status, await read_answer(answer))
    headers: CIMultiDict[str] = CIMultiDict((name, answer.headers[name]) for name in _RELAYED if name in answer.headers)
    headers[surface.SERVED_BY] = node
    response = web.StreamResponse(status=answer.status, headers=headers)
    stamp(ctx, response.headers)
    await response.prepare(request)
    if request.method == "HEAD":
        answer.close()
        return response
    try:
        async for part in answer.content.iter_chunked(_CHUNK):
            await send(request, response, part)
    except (aiohttp.ClientError, TimeoutError):
        _cut_off(request)
        return response
    await response.write_eof()
    return response


# ---------------------------------------------------------------- while a remote worker runs it


async def _of_worker(
    ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt, asked: Asked
) -> web.StreamResponse:
    """Sends what there is, or with `follow` what comes until the attempt ends, from whose copy there is."""
    text = await text_of(ctx, row, attempt, asked.stream)
    if text is None and HOP in request.headers:
        raise not_here(ctx)
    if asked.follow:
        return await _FollowWorker(ctx, request, row, attempt, asked).run(text)
    if text is None:
        found = await Copies(ctx, request, asked).find(row, attempt)
        if found is not None:
            node, answer = found
            async with answer:
                return await _pass_on(ctx, request, node, answer)
    return await _part(ctx, request, text, attempt, await start_in(text, asked), asked.limit_bytes)


class _FollowWorker:
    """One stream of what a run on a remote worker prints. Its worker may change nodes in the middle: the new node's
    copy holds the same bytes, and is read on from where this has come."""

    def __init__(self, ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt, asked: Asked) -> None:
        self._ctx = ctx
        self._request = request
        self._row = row
        self._attempt = attempt
        self._asked = asked
        self._copies = Copies(ctx, request, asked)
        self._response = web.StreamResponse(headers={**_PLAIN, surface.ATTEMPT: str(attempt.number)})
        self._at = 0
        self._first = True

    async def run(self, text: Text | None) -> web.StreamResponse:
        try:
            while True:
                ended = self._attempt.outcome is not None
                whole = await self._go_on(text)
                done = self._asked.end is not None and self._at >= self._asked.end
                if done or (ended and whole):
                    break
                if (ended and not whole) or await pause(self._request):
                    _cut_off(self._request)
                    return self._response
                self._attempt = _again(self._ctx, self._row.key, self._attempt.number) or self._attempt
                text, node = None, holder(self._ctx, self._attempt)
                if node in (None, self._ctx.node_id):
                    text = await text_of(self._ctx, self._row, self._attempt, self._asked.stream)
                if text is None and node != self._ctx.node_id and HOP in self._request.headers:
                    _cut_off(self._request)  # who asked finds by itself where it is now
                    return self._response
        except Problem as problem:
            if self._first:
                raise
            await self._response.write(f"\n[{problem.detail}]\n".encode())
        await self._response.write_eof()
        return self._response

    async def _go_on(self, text: Text | None) -> bool:
        """Sends what there is. False: it may have been cut off."""
        if text is None:
            found = await self._ask()
            if found is not None:
                node, answer = found
                async with answer:
                    return await self._pass_on(node, answer)
        if self._first:
            await self._prepare(await start_in(text, self._asked))
        end = self._asked.end
        while piece := (await piece_of(text, self._at))[: None if end is None else max(0, end - self._at)]:
            await send(self._request, self._response, piece)
            self._at += len(piece)
        return True

    async def _ask(self) -> tuple[str, aiohttp.ClientResponse] | None:
        node = holder(self._ctx, self._attempt)
        rest = None if self._first else self._at
        if node is None:
            return await self._copies.find(self._row, self._attempt, rest)
        if node == self._ctx.node_id:
            return None
        return node, await ask(self._ctx, self._request, self._row, self._attempt, self._asked, node, rest)

    async def _pass_on(self, node: str, answer: aiohttp.ClientResponse) -> bool:
        if answer.status != 200:
            raise output_stream.refusal(node, answer.status, await read_answer(answer))
        if self._first:
            self._response.headers[surface.SERVED_BY] = node
            await self._prepare(int(answer.headers.get(surface.OFFSET, "0")))
        try:
            async for part in answer.content.iter_chunked(_CHUNK):
                await send(self._request, self._response, part)
                self._at += len(part)
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True

    async def _prepare(self, at: int) -> None:
        self._first = False
        self._at = at
        self._response.headers[surface.OFFSET] = str(at)
        stamp(self._ctx, self._response.headers)
        await self._response.prepare(self._request)
