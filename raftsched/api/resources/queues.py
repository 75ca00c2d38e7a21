"""/v1/queues: queues with limits. Jobs may name any queue; one that is not here has none."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_duration, format_time
from raftsched.api.http.merging import merge
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply_page, reply_value
from raftsched.api.http.requests import (
    PATCH_TYPES,
    READ,
    Query,
    catch_up,
    check_type,
    create_only,
    etag_of,
    fresh_enough,
    if_match,
    read_body,
)
from raftsched.api.jobs.actions import BODY_MAX
from raftsched.api.jobs.triggers import duration_of
from raftsched.api.openapi.operation import BODIES, JSON, MERGE_PATCH, WRITES, PageOf, Reply, operation
from raftsched.api.resources.amending import amend
from raftsched.api.resources.operators_schema import QUEUE_READ_ONLY, QueueIn, QueueOut, RateIn, RateOut
from raftsched.api.rows import following, page
from raftsched.core.admission import shut
from raftsched.core.commands import DeleteQueue, PutQueue, encode
from raftsched.core.limits import RATE_PERIOD_MS
from raftsched.core.notices import QUOTA_QUEUE
from raftsched.core.queues import Queue, QueueLimits, limits_of
from raftsched.core.rows import decode_queue
from raftsched.core.tables import ReadView, Table, after, lane_key

COUNT_MAX = 10_000  # waiting instances counted for one request, and
COUNT_LEAST = 100  # of each queue of a page at least


@operation(
    "List queues with limits",
    {200: Reply(PageOf(QueueOut), "A page of queues.", ("Link",))},
    query=("limit", "cursor", *READ),
    role="viewer",
    scope="shared",
)
async def list_all(ctx: ApiContext, request: web.Request) -> web.Response:
    """By name."""
    query = Query(request, "limit", "cursor", *READ)
    await fresh_enough(ctx, query)
    last = query.cursor("queues")
    with ctx.read() as view:
        rows = view.scan(Table.QUEUES, b"" if last is None else following(last))
        queues, last = page(rows, query.limit(), _take)
        most = max(COUNT_LEAST, COUNT_MAX // max(1, len(queues)))
        shown = [_shown(ctx, view, queue, most) for queue in queues]
    return reply_page(request, [msgspec.json.encode(out) for out in shown], "queues", query.filters(), last)


@operation("Read a queue", {200: Reply(QueueOut, "The queue.", ("ETag",))}, query=READ, role="viewer", scope="shared")
async def get(ctx: ApiContext, request: web.Request) -> web.Response:
    """The ETag is the revision of its limits; what runs and waits changes without it."""
    await fresh_enough(ctx, Query(request, *READ))
    return _reply(ctx, request)


@operation(
    "Create or replace a queue",
    {
        201: Reply(QueueOut, "It has limits now.", ("ETag", "Location")),
        200: Reply(QueueOut, "Its limits are set anew.", ("ETag",)),
    },
    headers=("If-Match", "If-None-Match"),
    body=QueueIn,
    codes=(*BODIES, *WRITES, "exists", "stale-revision", "not-possible"),
    role="operator",
    scope="shared",
)
async def put(ctx: ApiContext, request: web.Request) -> web.Response:
    """Creates the queue or sets all its limits anew; what was answered may be put back. With If-Match it must have
    limits, with If-None-Match: * it must have none yet."""
    check_type(request)
    Query(request)
    name = request.match_info["name"]
    if not names.QUEUE.allows(name):
        raise Problem("invalid-parameter", f"A queue has a name of {names.QUEUE.rule}.")
    value = strict.parse(await read_body(request, BODY_MAX))
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in QUEUE_READ_ONLY}
    limits = _limits(value)
    revision = if_match(request)
    if revision is None and "If-Match" in request.headers:
        await _exists(ctx, request)
    command = _command(name, limits, if_none=create_only(request), if_revision=revision)
    accepted = await propose_one(ctx, encode(command))
    return _reply(ctx, request, created=accepted.created)


@operation(
    "Change a queue",
    {200: Reply(QueueOut, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    body=QueueIn,
    media=(JSON, MERGE_PATCH),
    codes=(*BODIES, *WRITES, "stale", "stale-revision", "not-possible"),
    role="operator",
    scope="shared",
)
async def patch(ctx: ApiContext, request: web.Request) -> web.Response:
    """RFC 7396. Without If-Match, a change in between means to merge again: none gets lost."""
    check_type(request, PATCH_TYPES)
    Query(request)
    change = strict.parse(await read_body(request, BODY_MAX))
    errors: list[FieldError] = []
    strict.examine(change, QueueIn, errors, QUEUE_READ_ONLY)
    if errors:
        raise Problem("invalid-body", errors=errors)
    wanted = if_match(request)

    async def command(was: Queue) -> bytes:
        limits = _limits(merge(_given(was), change))
        return encode(_command(was.name, limits, was=limits_of(was), if_revision=wanted))

    await amend(ctx, "The queue", lambda: _target(ctx, request), wanted, command)
    return _reply(ctx, request)


@operation(
    "Delete a queue",
    {204: None},
    headers=("If-Match",),
    codes=(*WRITES, "stale-revision", "not-possible"),
    role="operator",
    scope="shared",
)
async def delete(ctx: ApiContext, request: web.Request) -> web.Response:
    """Its limits go; what waits in it goes on without."""
    Query(request)
    name = request.match_info["name"]
    if not names.QUEUE.allows(name):
        raise _unknown(name)
    await propose_one(ctx, encode(DeleteQueue(name, if_match(request))))
    return web.Response(status=204)


def _find(view: ReadView, name: str) -> Queue | None:
    raw = view.get(Table.QUEUES, name.encode()) if names.QUEUE.allows(name) else None
    return None if raw is None else _take(name.encode(), raw)


def _take(_: bytes, raw: bytes) -> Queue | None:
    """Those of namespaces are not shown here: not everybody may know of all namespaces."""
    queue = decode_queue(raw)
    return None if queue.name.startswith(QUOTA_QUEUE) else queue


def _unknown(name: str) -> Problem:
    return Problem("not-found", f'The queue "{name[:128]}" has no limits; PUT to it to give it some.')


async def _target(ctx: ApiContext, request: web.Request) -> Queue:
    """The queue that a change is meant for; this node catches up before it says that there is none."""
    name = request.match_info["name"]
    with ctx.read() as view:
        queue = _find(view, name)
    if queue is None and names.QUEUE.allows(name):
        await catch_up(ctx)
        with ctx.read() as view:
            queue = _find(view, name)
    if queue is None:
        raise _unknown(name)
    return queue


def _reply(ctx: ApiContext, request: web.Request, *, created: bool = False) -> web.Response:
    name = request.match_info["name"]
    with ctx.read() as view:
        queue = _find(view, name)
        if queue is None:
            raise _unknown(name)
        shown = _shown(ctx, view, queue, COUNT_MAX)
    headers = {"ETag": etag_of(queue.revision)}
    if created:
        headers["Location"] = f"/v1/queues/{name}"
    return reply_value(shown, 201 if created else 200, headers)


async def _exists(ctx: ApiContext, request: web.Request) -> None:
    """If-Match: *. Raises Problem stale-revision."""
    try:
        await _target(ctx, request)
    except Problem:
        detail = "If-Match was given, but the queue has no limits; leave it out to give it some."
        raise Problem("stale-revision", detail) from None


def _shown(ctx: ApiContext, view: ReadView, queue: Queue, most: int) -> QueueOut:
    waiting = 0
    lane = lane_key(queue.lane)
    for _ in view.scan(Table.READY, lane, after(lane)):
        if waiting >= most:
            exact = False
            break
        waiting += 1
    else:
        exact = True
    return QueueOut(
        name=queue.name,
        max_running=queue.max_running,
        rate=_rate(queue),
        paused=queue.paused,
        running=queue.running,
        waiting=waiting,
        waiting_exact=exact,
        shut=shut(queue, ctx.now_ms()),
        revision=queue.revision,
        created_at=format_time(queue.created_at_ms),
        modified_at=format_time(queue.modified_at_ms),
    )


def _rate(queue: Queue) -> RateOut | None:
    return None if queue.rate_count is None else RateOut(queue.rate_count, format_duration(queue.rate_period_ms))


def _given(queue: Queue) -> dict[str, Any]:
    """As it would be put."""
    rate = _rate(queue)
    return {
        "max_running": queue.max_running,
        "rate": None if rate is None else msgspec.to_builtins(rate),
        "paused": queue.paused,
    }


def _command(
    name: str,
    limits: QueueLimits,
    *,
    was: QueueLimits | None = None,
    if_none: bool = False,
    if_revision: int | None = None,
) -> PutQueue:
    count, period = limits.rate_count, limits.rate_period_ms
    return PutQueue(name, limits.max_running, count, period, limits.paused, was, if_none, if_revision)


def _limits(value: Any) -> QueueLimits:
    """Raises Problem invalid-body with all that is wrong."""
    errors: list[FieldError] = []
    given = strict.examine(value, QueueIn, errors)
    if errors or given is None:
        raise Problem("invalid-body", errors=errors)
    count, period = (None, 0) if given.rate is None else _read_rate(given.rate, errors)
    if errors:
        raise Problem("invalid-body", errors=errors)
    return QueueLimits(given.max_running, count, period, bool(given.paused))


def _read_rate(given: RateIn, errors: list[FieldError]) -> tuple[int | None, int]:
    period = duration_of(given.per, "/rate/per", errors)
    least, most = RATE_PERIOD_MS
    if given.count is None:
        errors.append(FieldError("/rate/count", "is missing; say how many starts there may be in each period"))
    if given.per is None:
        errors.append(FieldError("/rate/per", "is missing; give the period of the rate, such as 1m"))
    elif period is not None and not least <= period <= most:
        errors.append(FieldError("/rate/per", f"must be from {format_duration(least)} to {format_duration(most)}"))
    return given.count, period or 0
