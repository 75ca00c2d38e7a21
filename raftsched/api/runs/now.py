"""/v1/stats/now: what runs, waits, comes next and has failed, at a glance: a few of each, and how many there are.

Read from the indexes that the leader works with, so that it costs the same however many runs are kept, and once in a
while for all who ask a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import READ, check_namespace
from raftsched.api.jobs.schema import Time
from raftsched.api.openapi.operation import operation
from raftsched.api.rows import JobHead, decode_head, get_instance
from raftsched.api.runs.waiting import waits_for
from raftsched.core import rows
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Instance
from raftsched.core.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView, Table, from_dead, from_lane, from_ready, from_u64, lane_key

LOOK_MAX = 1_000  # rows looked at for each number
SHOWN = 8  # of each kind
LANES_MAX = 32
FRESH_S = 0.5  # how long an answer does for all who ask for the same


class RunningOut(msgspec.Struct):
    id: str
    job_id: str
    job: str | None
    namespace: str
    node: str
    attempt: int
    started_at: Time | None


class QueuedOut(msgspec.Struct):
    """Runs that wait for the same: `queue` is null for all queues without limits. `reason` and `text` say why the first
    of them (`id`) waits. `overlap` stands for runs behind others of their own job."""

    queue: str | None
    count: int
    exact: bool
    id: str
    reason: str | None
    text: str | None


class DueOut(msgspec.Struct):
    job_id: str
    job: str | None
    namespace: str
    at: Time


class DeadOut(msgspec.Struct):
    id: str
    job_id: str
    job: str | None
    namespace: str
    since: Time
    reason: str | None
    error: str | None


class NowOut(msgspec.Struct):
    """`runs` are those that run the longest, `due` the next times, `dead` the newest dead letters. Where a number is
    not exact there are at least so many."""

    running: int
    running_exact: bool
    runs: list[RunningOut]
    waiting: list[QueuedOut]
    due: list[DueOut]
    dead_letters: int
    dead_letters_exact: bool
    dead: list[DeadOut]


class _Glance(NamedTuple):
    at_s: float
    out: NowOut


GLANCES: web.AppKey[dict[str | None, _Glance]] = web.AppKey("glances", dict)
GLANCES_MAX = 100  # namespaces


@operation("Read what runs, waits and comes next", {200: NowOut}, query=("namespace", *READ), role="viewer")
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    """Shows a few of each, and how many there are. Without `namespace` deliveries to webhooks are left out. Asked
    without `consistency` and `min_index` it may be half a second old."""
    query = call.query
    namespace = query.text("namespace")
    check_namespace(namespace)
    glances = call.request.app[GLANCES]
    seen, now_s = glances.get(namespace), ctx.clock.monotonic()
    if seen is not None and now_s - seen.at_s < FRESH_S and not any(query.text(name) for name in READ):
        return reply_value(seen.out)
    with ctx.read() as view:
        out = _look(ctx, view, namespace)
    if len(glances) >= GLANCES_MAX:
        glances.clear()
    glances[namespace] = _Glance(now_s, out)
    return reply_value(out)


def _look(ctx: ApiContext, view: ReadView, namespace: str | None) -> NowOut:
    known: dict[bytes, JobHead | None] = {}

    def head(job_key: bytes) -> JobHead | None:
        """Returns the head of a job; None: it is not asked about."""
        if job_key not in known:
            raw = view.get(Table.JOBS, job_key)
            found = None if raw is None else decode_head(raw)
            hidden = (
                found is not None
                and found.namespace != namespace
                and (namespace is not None or found.namespace == SYSTEM_NAMESPACE)
            )
            known[job_key] = None if hidden else found
        return known[job_key]

    live = sorted(islice(view.scan(Table.ASSIGNED), LOOK_MAX), key=lambda row: row[0][8:])  # by their tokens
    mine = [(key, job) for _, key in live if (job := head(key[8:16])) is not None]
    dead = list(islice(view.scan(Table.DEAD, reverse=True), LOOK_MAX))
    gone = [(key, job) for row, _ in dead if (job := head((key := from_dead(row))[8:16])) is not None]
    return NowOut(
        running=len(mine),
        running_exact=len(live) < LOOK_MAX,
        runs=[_running(row, job) for key, job in mine[:SHOWN] if (row := get_instance(view, key)) is not None],
        waiting=list(_waiting(ctx, view, head)),
        due=list(islice(_due(view, head), SHOWN)),
        dead_letters=len(gone),
        dead_letters_exact=len(dead) < LOOK_MAX,
        dead=[_dead(row, job) for key, job in gone[:SHOWN] if (row := get_instance(view, key)) is not None],
    )


_Head = Callable[[bytes], JobHead | None]


def _running(row: Instance, job: JobHead) -> RunningOut:
    last = row.attempts[-1]
    started_at = None if last.started_at_ms is None else format_time(last.started_at_ms)
    return RunningOut(
        instance_text(row.key), job_text(job.id), job.name, job.namespace, last.node, last.number, started_at
    )


def _dead(row: Instance, job: JobHead) -> DeadOut:
    since = format_time(row.dead_at_ms or row.modified_at_ms)
    return DeadOut(instance_text(row.key), job_text(job.id), job.name, job.namespace, since, row.reason, row.error)


def _due(view: ReadView, head: _Head) -> Iterator[DueOut]:
    for row, _ in islice(view.scan(Table.DUE), LOOK_MAX):
        job = head(row[8:])
        if job is not None:
            yield DueOut(job_text(job.id), job.name, job.namespace, format_time(from_u64(row[:8])))


def _waiting(ctx: ApiContext, view: ReadView, head: _Head) -> Iterator[QueuedOut]:
    """Yields what waits for a worker, by lane, and what waits behind other runs of its job."""
    queues = {queue.lane: queue.name for queue in rows.QUEUES.all(view)}
    for lane in islice(_lanes(view), LANES_MAX):
        low = lane_key(lane)
        keys = (
            from_ready(row) for row, _ in view.scan(Table.READY, low, lane_key(lane + 1) if lane < 2**32 - 1 else None)
        )
        found = _first_of(ctx, view, keys, head, queues.get(lane))
        if found is not None:
            yield found
    held = _first_of(ctx, view, (row[16:] for row, _ in view.scan(Table.HELD)), head, None)
    if held is not None:
        yield held


def _lanes(view: ReadView) -> Iterator[int]:
    low = b""
    while (first := next(view.scan(Table.READY, low), None)) is not None:
        lane = from_lane(first[0])
        yield lane
        if lane == 2**32 - 1:
            return
        low = lane_key(lane + 1)


def _first_of(
    ctx: ApiContext, view: ReadView, keys: Iterator[bytes], head: _Head, queue: str | None
) -> QueuedOut | None:
    """Counts the instances, and says why the first of them waits."""
    looked = list(islice(keys, LOOK_MAX))
    mine = [key for key in looked if head(key[8:16]) is not None]
    row = get_instance(view, mine[0]) if mine else None
    job = None if row is None else rows.JOBS.get(view, row.job_id)
    made_from = None if row is None or job is None else rows.revision_of(view, job, row)
    if row is None or job is None:
        return None
    why = None
    if made_from is not None:
        why = waits_for(
            view, meta(view), ctx.cluster.status(), job, made_from.policy, row, ctx.now_ms(), ctx.cluster.troubles()
        )
    return QueuedOut(
        queue,
        len(mine),
        len(looked) < LOOK_MAX,
        instance_text(row.key),
        None if why is None else why.reason,
        None if why is None else why.text,
    )
