"""Reads what is asked for of which output, and asks other nodes for it."""

from __future__ import annotations

import asyncio
import re

import aiohttp
from aiohttp import web

from raftsched.api import rows
from raftsched.api.context import ApiContext
from raftsched.api.http.peers import CLIENT, CONNECT_S, HOP, SILENT_S, call_node, said_in, whole
from raftsched.api.http.problems import ParameterError, Problem
from raftsched.api.http.requests import Query
from raftsched.api.http.streams import STREAMS
from raftsched.core.ids import instance_text
from raftsched.core.model import Attempt, Instance
from raftsched.errors import KINDS
from raftsched.output.reading.chain import Places
from raftsched.surface.operation import EVENT_STREAM
from raftsched.surface.output import GET, PLACE
from raftsched.surface.worker_sessions import OFFSET_MAX

RESUME = "Last-Event-ID"
POLL_S = 0.25  # how soon a follower of output sees more
TAIL_MAX = 100_000  # lines
ATTEMPT_MAX = 1_000_000_000
TAIL_BYTES_MIN = 64 * 1024  # below this a reader would be left behind all the time

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
            self.attempt = max(1, int(match[1]))
            self.go_on(int(match[2]))

    def go_on(self, offset: int) -> None:
        """Notes that what is before this place has been sent: of events those of both streams."""
        self.resumed, self.offset, self.tail = True, offset, None

    @property
    def left(self) -> int | None:
        """Returns how many bytes of what is asked for follow this place; None: all there are."""
        return None if self.end is None else max(0, self.end - self.offset)


def _excludes(name: str, detail: str) -> Problem:
    error = ParameterError(name, "excludes others that are given", "inconsistent")
    return Problem("invalid-parameter", detail, [error])


def find(ctx: ApiContext, key: bytes, asked: Asked) -> tuple[Instance, Attempt | None]:
    with ctx.read() as view:
        row = rows.requested_instance(view, key)
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


def places_of(ctx: ApiContext) -> Places:
    """Returns where this node looks for outputs."""
    return Places(ctx.node_id, ctx.output, ctx.copied, ctx.stored, ctx.received)


async def pause(request: web.Request) -> bool:
    """Waits a little; True when the caller has gone or the node stops."""
    stopping = request.app[STREAMS].stopping
    try:
        await asyncio.wait_for(stopping.wait(), POLL_S)
    except TimeoutError:
        pass
    return stopping.is_set() or request.transport is None or request.transport.is_closing()


# ---------------------------------------------------------------- other nodes


async def ask(
    ctx: ApiContext, request: web.Request, row: Instance, attempt: Attempt, asked: Asked, node: str
) -> aiohttp.ClientResponse:
    """Returns the answer of a node that has the output, to be passed on. Raises Problem: what it says where it has
    none; output-gone, output-unavailable."""
    if HOP in request.headers:
        raise Problem("output-unavailable", f"The output is on {node}, not on {ctx.node_id}.")
    named = f"Node {node}, {'which ran it' if node == attempt.node else 'which has its output'},"
    if all(member.node != node for member in ctx.meta().members):
        raise Problem("output-gone", f"{named} is no longer a member.")
    query = dict(request.query)
    query.pop("consistency", None)
    query["attempt"] = str(attempt.number)
    query["min_index"] = str(ctx.cluster.status().applied_index)  # so that it knows the attempt's end, as this node
    passed = {name: request.headers[name] for name in ("Range", "Accept", RESUME) if name in request.headers}
    passed[HOP] = ctx.node_id
    if asked.resumed or (asked.follow and attempt.outcome is None):  # what follows a part that was sent is no range
        passed.pop("Range", None)
    if asked.resumed and asked.events:
        passed[RESUME] = f"{attempt.number}.{asked.offset}"
    elif asked.resumed:
        query = {name: value for name, value in query.items() if name not in ("tail", "tail_bytes", "limit_bytes")}
        query["offset"] = str(asked.offset)
        if asked.left is not None:
            query["limit_bytes"] = str(asked.left)
    # A run may be silent for long; only a stream of events says in between that it is there.
    silent_s = None if asked.follow and not asked.events else SILENT_S
    limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silent_s)
    path = GET.at(id=instance_text(row.key))
    answer = await call_node(ctx, request.app[CLIENT], node, path, query, limit, headers=passed, named=named)
    if answer.status in (401, 403):  # it does not know yet, or any more, what this node knows of tokens
        answer.release()
        raise Problem("output-unavailable", f"{named} does not take this node for one.")
    if answer.status < 400 or answer.status == 416:
        return answer
    said = said_in(await whole(node, answer))
    if answer.status < 500 and said.code in KINDS:
        raise Problem(said.code, said.detail)
    detail = f"Node {node}, which has it, answers {answer.status}. {said.detail}"
    raise Problem("output-unavailable", detail.rstrip())
