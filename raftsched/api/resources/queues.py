"""/v1/queues: queues with limits. Jobs may name any queue; one that is not here has none."""

from __future__ import annotations

from typing import Any

import msgspec

from raftsched import names
from raftsched.api.auth.known import knows_queue
from raftsched.api.cluster.ready import count_lane
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_duration, format_time
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.jobs.concurrency import rate_of
from raftsched.api.resources.named import NamedResource, Write, serve
from raftsched.core.commands import DeleteQueue, PutQueue
from raftsched.core.rows import QUEUES as ROWS
from raftsched.core.rules.admission import blocked_reason
from raftsched.core.subjects.queue import Queue, QueueLimits, limits_of
from raftsched.core.tables import ReadView
from raftsched.surface import queues as surface
from raftsched.surface.queues import QueueIn, QueueOut, RateOut

COUNT_MAX = 10_000  # waiting instances counted for one request, and
COUNT_LEAST = 100  # of each queue of a page at least


def _shown(ctx: ApiContext, view: ReadView, queue: Queue, among: int) -> QueueOut:
    limit = max(COUNT_LEAST, COUNT_MAX // among)
    waiting, exact = count_lane(view, queue.lane, limit)
    return QueueOut(
        name=queue.name,
        max_running=queue.max_running,
        rate=_rate(queue),
        paused=queue.paused,
        running=queue.running,
        waiting=waiting,
        waiting_exact=exact,
        shut=blocked_reason(queue, ctx.now_ms()),
        revision=queue.revision,
        created_at=format_time(queue.created_at_ms),
        modified_at=format_time(queue.modified_at_ms),
    )


def _rate(queue: Queue) -> RateOut | None:
    return None if queue.rate_count is None else RateOut(queue.rate_count, format_duration(queue.rate_period_ms))


def _as_put(queue: Queue) -> dict[str, Any]:
    rate = _rate(queue)
    return {
        "max_running": queue.max_running,
        "rate": None if rate is None else msgspec.to_builtins(rate),
        "paused": queue.paused,
    }


async def _command(ctx: ApiContext, write: Write[Queue]) -> PutQueue:
    limits = _limits(write.value)
    count, period = limits.rate_count, limits.rate_period_ms
    was = None if write.was is None else limits_of(write.was)
    return PutQueue(write.name, limits.max_running, count, period, limits.paused, was, write.only_new, write.if_match)


def _limits(value: Any) -> QueueLimits:
    """Raises Problem invalid-body with all that is wrong."""
    errors: list[FieldError] = []
    given = strict.examine(value, QueueIn, errors)
    if errors or given is None:
        raise Problem("invalid-body", errors=errors)
    count, period = (None, 0) if given.rate is None else rate_of(given.rate, "/rate", errors)
    if errors:
        raise Problem("invalid-body", errors=errors)
    return QueueLimits(given.max_running, count, period, bool(given.paused))


QUEUES = NamedResource(
    surface.QUEUES,
    rows=ROWS,
    name_rules=(names.QUEUE,),
    absent='The queue "{0}" has no limits; PUT to it to give it some.',
    unmet="the queue has no limits; leave it out to give it some",
    shown=_shown,
    as_put=_as_put,
    command=_command,
    delete_command=DeleteQueue,
    is_visible=lambda view, queue: knows_queue(view, queue.name),
)
serve(QUEUES, surface.LIST, surface.GET, surface.PUT, surface.PATCH, surface.DELETE)
