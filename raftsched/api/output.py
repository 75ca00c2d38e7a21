"""GET /v1/instances/{id}/output: from this node's disk, or fetched from the node that ran the attempt, one hop away."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from raftsched.api.context import ApiContext, meta
from raftsched.api.problems import Problem
from raftsched.api.replies import stamp
from raftsched.api.requests import READ, Query, fresh_enough, instance_key_of
from raftsched.api.rows import newest_session, requested_instance
from raftsched.core.ids import instance_text
from raftsched.core.model import FINAL, Attempt, Instance, Outcome

CLIENT: web.AppKey[aiohttp.ClientSession] = web.AppKey("output_client", aiohttp.ClientSession)
STOPPING: web.AppKey[asyncio.Event] = web.AppKey("stopping", asyncio.Event)
HOP = "Raftsched-Hop"
SERVED_BY = "Raftsched-Served-By"
POLL_S = 0.25  # how soon a follower of output sees more
TAIL_MAX = 100_000  # lines
_OFFSET_MAX = 2**53
_CHUNK = 64 * 1024
_PLAIN = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
_RELAYED = ("Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "Raftsched-Output-Truncated")


class _Asked:
    """Which part of which output."""

    def __init__(self, query: Query) -> None:
        self.attempt = query.integer("attempt", 1, 1_000_000_000)
        self.stream = query.choice("stream", "stdout", "stderr")
        self.offset = query.integer("offset", 0, _OFFSET_MAX) or 0
        self.tail = query.integer("tail", 0, TAIL_MAX)
        self.follow = query.flag("follow")
        if self.tail is not None and self.offset:
            raise Problem("invalid-parameter", '"tail" (lines) and "offset" (bytes) exclude each other.')


async def get(ctx: ApiContext, request: web.Request) -> web.StreamResponse:
    query = Query(request, "attempt", "stream", "offset", "tail", "follow", *READ)
    asked = _Asked(query)
    await fresh_enough(ctx, query)
    key = instance_key_of(request)
    row, attempt = _find(ctx, key, asked)
    while attempt is None and asked.follow and row.state not in FINAL and not await _pause(request):
        row, attempt = _find(ctx, key, asked)
    if attempt is None:
        return web.Response(body=b"", headers=_PLAIN)
    if attempt.node != ctx.node_id:
        return await _relay(ctx, request, row, attempt)
    if asked.follow and attempt.outcome is None:
        return await _follow(ctx, request, key, asked, attempt)
    return _part(request, _select(await _text(ctx, attempt, asked.stream), asked), attempt)


def _find(ctx: ApiContext, key: bytes, asked: _Asked) -> tuple[Instance, Attempt | None]:
    with ctx.read() as view:
        row = requested_instance(view, key)
    if asked.attempt is None:
        return row, row.attempts[-1] if row.attempts else None
    for attempt in row.attempts:
        if attempt.number == asked.attempt:
            return row, attempt
    if row.attempts and asked.attempt < row.attempts[0].number:
        raise Problem("output-gone", f"Attempt {asked.attempt} is no longer kept.")
    if not asked.follow:
        raise Problem("not-found", f"There is no attempt {asked.attempt} of {instance_text(key)} yet.")
    return row, None


async def _text(ctx: ApiContext, attempt: Attempt, stream: str | None) -> bytes:
    if attempt.outcome is None:
        return await asyncio.to_thread(ctx.output.live, attempt.token, stream) or b""
    if attempt.output is not None:
        return await asyncio.to_thread(ctx.output.read, attempt.output, stream)
    if attempt.outcome is Outcome.LOST:
        raise Problem("output-gone", "The worker was lost before it could report this attempt's output.")
    return b""


def _select(text: bytes, asked: _Asked) -> bytes:
    return text[_start(text, asked) :]


def _start(text: bytes, asked: _Asked) -> int:
    if asked.tail is None:
        return asked.offset
    if asked.tail == 0:
        return len(text)
    at = len(text) - 1 if text.endswith(b"\n") else len(text)
    for _ in range(asked.tail):
        at = text.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _part(request: web.Request, text: bytes, attempt: Attempt) -> web.Response:
    """All of it, or the one range that was asked for (RFC 9110, section 14)."""
    headers = {**_PLAIN, "Accept-Ranges": "bytes"}
    if attempt.output is not None and attempt.output.truncated:
        headers["Raftsched-Output-Truncated"] = str(attempt.output.truncated)
    if "Range" not in request.headers:
        return web.Response(body=text, headers=headers)
    try:
        start, stop, _ = request.http_range.indices(len(text))
    except ValueError:
        return web.Response(body=text, headers=headers)  # what is not understood is ignored
    if start >= stop:
        raise Problem(
            "unsatisfiable-range",
            f"The output has {len(text)} bytes.",
            headers={"Content-Range": f"bytes */{len(text)}"},
        )
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(text)}"
    return web.Response(body=text[start:stop], status=206, headers=headers)


async def _pause(request: web.Request) -> bool:
    """Waits a little; True when the caller has gone or the node stops."""
    stopping = request.app[STOPPING]
    try:
        await asyncio.wait_for(stopping.wait(), POLL_S)
    except TimeoutError:
        pass
    return stopping.is_set() or request.transport is None or request.transport.is_closing()


async def _follow(
    ctx: ApiContext, request: web.Request, key: bytes, asked: _Asked, attempt: Attempt
) -> web.StreamResponse:
    """What there is, and what comes until the attempt ends."""
    text = await _text(ctx, attempt, asked.stream)
    at = _start(text, asked)
    response = web.StreamResponse(headers=_PLAIN)
    stamp(ctx, response.headers)
    await response.prepare(request)
    number = attempt.number
    try:
        while True:
            if len(text) > at:
                await response.write(text[at:])
                at = len(text)
            if attempt.outcome is not None:
                break
            if await _pause(request):
                break
            attempt = _again(ctx, key, number) or attempt
            text = await _text(ctx, attempt, asked.stream)
    except Problem as problem:  # too late for a status
        await response.write(f"\n[{problem.detail}]\n".encode())
    await response.write_eof()
    return response


def _again(ctx: ApiContext, key: bytes, number: int) -> Attempt | None:
    with ctx.read() as view:
        row = requested_instance(view, key)
    return next((a for a in row.attempts if a.number == number), None)


# ---------------------------------------------------------------- from another node


async def _relay(ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt) -> web.StreamResponse:
    if HOP in request.headers:
        raise Problem("output-unavailable", f"The output is on {attempt.node}, not on {ctx.node_id}.")
    with ctx.read() as view:
        session = newest_session(view, attempt.node)
        member = any(m.node == attempt.node for m in meta(view).members)
    if not member:
        raise Problem("output-gone", f"Node {attempt.node}, which ran it, is no longer a member.")
    if session is None or not session.http:
        raise Problem("output-unavailable", f"Node {attempt.node}, which ran it, has no known address.")
    parameters = dict(request.query)
    parameters["attempt"] = str(attempt.number)
    parameters["min_index"] = str(ctx.status().applied_index)  # so that it knows the end of the attempt, as we do
    parameters.pop("consistency", None)
    headers = {HOP: ctx.node_id}
    if "Range" in request.headers:
        headers["Range"] = request.headers["Range"]
    url = f"http://{session.http}/v1/instances/{instance_text(row.key)}/output"
    try:
        answer = await request.app[CLIENT].get(url, params=parameters, headers=headers, allow_redirects=False)
    except (aiohttp.ClientError, TimeoutError, OSError):
        raise Problem("output-unavailable", f"Node {attempt.node}, which ran it, does not answer.") from None
    async with answer:
        return await _pass_on(ctx, request, attempt.node, answer)


async def _pass_on(
    ctx: ApiContext, request: web.Request, node: str, answer: aiohttp.ClientResponse
) -> web.StreamResponse:
    if answer.status >= 500 and answer.status != 503:
        raise Problem("output-unavailable", f"Node {node}, which ran it, answers {answer.status}.")
    headers: CIMultiDict[str] = CIMultiDict((name, answer.headers[name]) for name in _RELAYED if name in answer.headers)
    headers[SERVED_BY] = node
    headers["X-Content-Type-Options"] = "nosniff"
    response = web.StreamResponse(status=answer.status, headers=headers)
    stamp(ctx, response.headers)
    await response.prepare(request)
    try:
        async for part in answer.content.iter_chunked(_CHUNK):
            await response.write(part)
    except (aiohttp.ClientError, TimeoutError):
        if request.transport is not None:
            request.transport.abort()  # a cut answer must not look like a whole one
        return response
    await response.write_eof()
    return response
