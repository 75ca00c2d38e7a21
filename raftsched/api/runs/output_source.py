"""The source of an output: the part of the attempt that is asked for, this node's disk, or the node that has it."""

from __future__ import annotations

import asyncio
import re

import aiohttp
from aiohttp import web
from yarl import URL

from raftsched.api import rows
from raftsched.api.auth.access import peer_header
from raftsched.api.auth.peers import trust, url_of, why_not
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.problems import ParameterError, Problem
from raftsched.api.http.requests import Query
from raftsched.api.http.streams import STREAMS
from raftsched.api.rows import requested_instance
from raftsched.api.runs.kept_words import aged, namespace_of, why_gone
from raftsched.core.ids import instance_text
from raftsched.core.model import Attempt, Instance, Outcome
from raftsched.core.rules.executors import is_worker
from raftsched.core.rules.kept_output import kept_of
from raftsched.errors import RaftschedError
from raftsched.output.following.places import in_order
from raftsched.output.keeping.store import GONE, NOWHERE, REMOVED
from raftsched.output.reading.text import Span, Text
from raftsched.surface.operation import EVENT_STREAM
from raftsched.surface.output import GET, PLACE
from raftsched.surface.worker_sessions import OFFSET_MAX

CLIENT: web.AppKey[aiohttp.ClientSession] = web.AppKey("output_client", aiohttp.ClientSession)
HOP = "Raftsched-Hop"
RESUME = "Last-Event-ID"
POLL_S = 0.25  # how soon a follower of output sees more
FRESH_S = 0.2  # a look at what is written counts for others for so long
TAIL_MAX = 100_000  # lines
ATTEMPT_MAX = 1_000_000_000
TAIL_BYTES_MIN = 64 * 1024  # below this a reader would be left behind all the time
CONNECT_S = 2.0
SILENT_S = 60.0

LOOK_S = 2.0  # how often all members are asked whether they have a copy

_RESUMED = re.compile(PLACE, re.ASCII)


class Asked:
    """Says which part of which output is asked for."""

    def __init__(self, request: web.Request, query: Query) -> None:
        self.attempt = query.integer("attempt", 1, ATTEMPT_MAX)
        self.stream = query.choice("stream", "stdout", "stderr")
        self.offset = query.integer("offset", 0, OFFSET_MAX) or 0
        self.tail = query.integer("tail", 0, TAIL_MAX)
        self.tail_bytes = query.integer("tail_bytes", TAIL_BYTES_MIN, OFFSET_MAX)
        self.limit_bytes = query.integer("limit_bytes", 1, OFFSET_MAX)
        self.follow = query.flag("follow")
        self.events = EVENT_STREAM in request.headers.get("Accept", "")
        if self.tail is not None and self.offset:
            raise _excludes("tail", '"tail" (lines) and "offset" (bytes) exclude each other.')
        if self.tail_bytes is not None and (self.tail is not None or self.offset or self.limit_bytes is not None):
            raise _excludes("tail_bytes", '"tail_bytes" excludes "tail" (lines), "offset" and "limit_bytes".')
        if self.limit_bytes is not None and self.tail is not None:
            raise _excludes("limit_bytes", '"limit_bytes" and "tail" (lines) exclude each other.')
        text = request.headers.get(RESUME)
        match = _RESUMED.fullmatch(text) if text else None
        if text and match is None:
            raise Problem("invalid-parameter", f"{RESUME} must be an id that was answered here, such as 1.4096.")
        self.end = None if self.limit_bytes is None else self.offset + self.limit_bytes
        self.resumed = False
        if match is not None and self.events:  # who is cut off goes on with the attempt that it was reading
            self.go_on(max(1, int(match[1])), int(match[2]))

    def go_on(self, attempt: int, offset: int) -> None:
        """Notes that what is before this place, of both streams, has been sent."""
        self.resumed, self.attempt, self.offset, self.tail = True, attempt, offset, None


def _excludes(name: str, detail: str) -> Problem:
    error = ParameterError(name, "excludes others that are given", "inconsistent")
    return Problem("invalid-parameter", detail, [error])


def find(ctx: ApiContext, key: bytes, asked: Asked) -> tuple[Instance, Attempt | None]:
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


def holder(ctx: ApiContext, attempt: Attempt) -> str | None:
    """Returns the node that has the output. None: an attempt on a remote worker goes on, and only who is asked tells
    whether it has a copy."""
    if attempt.output_node:
        return attempt.output_node
    if not is_worker(attempt.node):
        return attempt.node
    return None if attempt.outcome is None else ctx.node_id  # it has none, as any node knows


async def text_of(ctx: ApiContext, row: Instance, attempt: Attempt, stream: str | None) -> Text | None:
    """None: there is none, or not yet. Who reads what is still written shares a look at the disk with all others.
    Raises RaftschedError output-gone."""
    if attempt.outcome is None:
        now = asyncio.get_running_loop().time()
        text = ctx.output.being_read(attempt.token, stream)
        if text is not None and now - text.looked_at < FRESH_S:
            return text
        text = await asyncio.to_thread(ctx.output.open_live, attempt.token, stream)
        if text is not None:
            text.looked_at = now
        return text
    if attempt.output is not None:
        try:
            return await asyncio.to_thread(ctx.output.open, attempt.output, stream, attempt.token)
        except RaftschedError as error:
            if error.detail not in (GONE, REMOVED):
                raise
            why = _why_gone(ctx, row, attempt, removed=error.detail == REMOVED)
            raise Problem("output-gone", why) from None
    if attempt.outcome is Outcome.LOST:
        raise Problem("output-gone", "The worker was lost before it could report this attempt's output.")
    return None


def _why_gone(ctx: ApiContext, row: Instance, attempt: Attempt, *, removed: bool) -> str:
    with ctx.read() as view:
        namespace = namespace_of(view, row)
        kept = kept_of(view, namespace)
    return why_gone(attempt, kept, namespace, ctx.node_id, ctx.output_keep_most_ms, ctx.now_ms(), removed=removed)


async def start_in(text: Text | None, asked: Asked) -> int:
    if asked.tail is None:
        return asked.offset if asked.tail_bytes is None or text is None else max(0, text.size - asked.tail_bytes)
    return 0 if text is None else await asyncio.to_thread(text.start_of, asked.tail)


async def piece_of(text: Text | None, at: int) -> bytes:
    """Returns what comes next, at most PIECE bytes; empty: nothing at the moment."""
    if text is None or at >= text.size:
        return b""
    piece = text.has_read(at)
    return piece if piece is not None else await asyncio.to_thread(text.read, at)


async def printed_in(text: Text | None, asked: Asked) -> int:
    """Returns the place where events begin: bytes of both streams that were printed before."""
    if text is None or asked.resumed or (asked.tail is None and asked.tail_bytes is None):
        return asked.offset
    if asked.tail is not None:
        return await asyncio.to_thread(lambda: text.printed_before(text.start_of(asked.tail or 0)))
    return max(0, text.printed - (asked.tail_bytes or 0))


async def spans_of(text: Text | None, at: int) -> list[Span]:
    """Returns what was printed next; empty: nothing at the moment."""
    if text is None or at >= text.printed:
        return []
    spans = text.has_spans(at)
    return spans if spans is not None else await asyncio.to_thread(text.spans, at)


async def pause(request: web.Request) -> bool:
    """Waits a little; True when the caller has gone or the node stops."""
    stopping = request.app[STREAMS].stopping
    try:
        await asyncio.wait_for(stopping.wait(), POLL_S)
    except TimeoutError:
        pass
    return stopping.is_set() or request.transport is None or request.transport.is_closing()


def address_of(ctx: ApiContext, node: str) -> str:
    """Returns where the API of another node is; empty: that is not known."""
    with ctx.read() as view:  # a node may take a worker's output before it has a session of its own
        return rows.address_of(view, node, ctx.cluster.peers()) or ""


async def ask(
    ctx: ApiContext,
    request: web.Request,
    row: Instance,
    attempt: Attempt,
    asked: Asked,
    node: str,
    rest: int | None = None,
) -> aiohttp.ClientResponse:
    """The answer of the node that has it, whatever it says; `rest`: only what follows this offset. Raises Problem
    output-gone, output-unavailable."""
    its = "which ran it" if node == attempt.node else "which has its output"
    if HOP in request.headers:
        raise Problem("output-unavailable", f"The output is on {node}, not on {ctx.node_id}.")
    with ctx.read() as view:
        member = any(m.node == node for m in meta(view).members)
    if not member:
        raise Problem("output-gone", f"Node {node}, {its}, is no longer a member.")
    http = address_of(ctx, node)
    if not http:
        raise Problem("output-unavailable", f"Node {node}, {its}, has no known address.")
    parameters = dict(request.query)
    parameters["attempt"] = str(attempt.number)
    # So that it knows the end of the attempt, as this node does.
    parameters["min_index"] = str(ctx.cluster.status().applied_index)
    parameters.pop("consistency", None)
    passed = {name: request.headers[name] for name in ("Range", "Accept", RESUME) if name in request.headers}
    if rest is not None:
        for name in ("tail", "tail_bytes", "limit_bytes"):
            parameters.pop(name, None)
        passed.pop("Range", None)
        parameters["offset"] = str(rest)
        if asked.end is not None:
            parameters["limit_bytes"] = str(asked.end - rest)
    if asked.resumed:
        passed[RESUME] = f"{attempt.number}.{asked.offset}"
    path = GET.at(id=instance_text(row.key))
    url = URL(url_of(http, path)).with_query(parameters)
    headers = {HOP: ctx.node_id, **peer_header(ctx, node, url.raw_path_qs), **passed}
    # A run may be silent for long; only a stream of events says in between that it is there.
    silent_s = None if asked.follow and not asked.events else SILENT_S
    limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silent_s)
    try:
        answer = await request.app[CLIENT].get(
            url,
            headers=headers,
            timeout=limit,
            allow_redirects=False,
            ssl=await trust(ctx, http),
        )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why = f"Node {node}, {its}, does not answer.{why_not(error)}"
        raise Problem("output-unavailable", why) from None
    if answer.status in (401, 403):  # it does not know yet, or any more, what this node knows of tokens
        answer.release()
        raise Problem("output-unavailable", f"Node {node}, {its}, does not take this node for one.")
    return answer


class Copies:
    """The other nodes' copies of what one run on a remote worker prints: the worker sends it to one node, which nobody
    else knows for certain, and may change nodes."""

    def __init__(self, ctx: ApiContext, request: web.Request, asked: Asked) -> None:
        self._ctx = ctx
        self._request = request
        self._asked = asked
        self._looked_at = float("-inf")

    async def find(
        self, row: Instance, attempt: Attempt, rest: int | None = None
    ) -> tuple[str, aiohttp.ClientResponse] | None:
        """Returns a node that has a copy, and its answer; None: nobody is known to. Who had it last is asked first, and
        all others now and then."""
        ctx, known = self._ctx, None
        if HOP in self._request.headers:
            return None
        if ctx.received is not None:
            known = ctx.received.who_has(attempt.token)
        nodes = [] if known is None else [known]
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            nodes += [m.node for m in ctx.meta().members if m.node not in (ctx.node_id, known)]
        for node in nodes:
            try:
                answer = await ask(ctx, self._request, row, attempt, self._asked, node, rest)
            except Problem:
                continue
            if answer.status < 500:
                if ctx.received is not None:
                    ctx.received.note_elsewhere(attempt.token, node)
                return node, answer
            answer.release()
        return None


async def copy_of(ctx: ApiContext, attempt: Attempt, stream: str | None) -> Text | None:
    """Returns the output of an attempt that has ended from this node's copy of it; None: it has none."""
    if ctx.copied is None or attempt.output is None:
        return None
    of = attempt.output_node or attempt.node
    return await asyncio.to_thread(ctx.copied.open, of, attempt.output, stream, attempt.token)


async def from_copy(
    ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt, asked: Asked
) -> tuple[str, aiohttp.ClientResponse] | None:
    """Returns another node that has a second copy of an output, and its answer; None: there is none."""
    of = attempt.output_node or attempt.node
    others = [m.node for m in ctx.meta().members if m.node not in (ctx.node_id, of)]
    ref = attempt.output
    for node in in_order(of, ref.segment, others) if ref is not None and HOP not in request.headers else ():
        try:
            answer = await ask(ctx, request, row, attempt, asked, node)
        except Problem:
            continue
        if answer.status < 400 or answer.status == 416:
            return node, answer
        answer.release()
    return None


async def from_store(ctx: ApiContext, request: web.Request, attempt: Attempt, stream: str | None) -> Text | None:
    """Returns an output from the object store; None: it is not there, or there is none. Raises RaftschedError
    output-unavailable."""
    if ctx.stored is None or attempt.output is None or HOP in request.headers:  # who sent it here asks the store itself
        return None
    return await ctx.stored.open(attempt.output_node or attempt.node, attempt.output, stream, attempt.token)


def may_have_copy(ctx: ApiContext, row: Instance, attempt: Attempt, error: RaftschedError) -> bool:
    """Returns whether what cannot be read for this reason may be there a second time."""
    if error.code not in ("output-gone", "output-unavailable") or attempt.output is None:
        return False
    if attempt.output.segment == NOWHERE:
        return False
    with ctx.read() as view:
        keep_ms = kept_of(view, namespace_of(view, row)).keep_ms
    return not aged(attempt, keep_ms, ctx.now_ms())


def not_here(ctx: ApiContext) -> Problem:
    """The answer to another node, which asks whether there is a copy."""
    return Problem("output-unavailable", f"{ctx.node_id} has no copy of the output.")
