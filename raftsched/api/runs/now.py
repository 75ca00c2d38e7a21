"""/v1/stats/now: what runs, waits, comes next and has failed, at a glance: a few of each, and how many there are.

Read from the indexes that the leader works with, so that it costs the same however many runs are kept, and once in a
while for all who ask a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from aiohttp import web

from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import READ, check_namespace
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.due import due_page
from raftsched.api.rows import JobHead, decode_head, get_instance
from raftsched.api.runs.waiting import waits_for
from raftsched.api.serving import serves
from raftsched.api.workers.seen import own_troubles
from raftsched.core import rows
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Instance
from raftsched.core.rules.executors import node_name, worker_name
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import walk
from raftsched.core.subjects.notices import QUOTA_QUEUE, SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView, Table, from_dead, from_lane, from_ready, from_u64, lane_key
from raftsched.surface import statistics as surface
from raftsched.surface.statistics import DeadOut, DueOut, NowOut, QueuedOut, RunningOut

LOOK_MAX = 1_000  # rows looked at for each number
SHOWN = 8  # of each kind
LANES_MAX = 32
_ALL_DUE = JobFilter(next_from_ms=0)
FRESH_S = 0.5  # how long an answer does for all who ask for the same


class _Glance(NamedTuple):
    number: int
    at_s: float
    out: NowOut


class Glances:
    """The newest look for each namespace. A node looks once at a time: a look takes tens of milliseconds where much
    waits, and who has to wait for it shares the next one."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.begun = 0  # looks
        self.newest: dict[str | None, _Glance] = {}


GLANCES: web.AppKey[Glances] = web.AppKey("glances", Glances)
GLANCES_MAX = 100  # namespaces


@serves(surface.NOW)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    namespace = query.text("namespace")
    check_namespace(namespace)
    glances = call.request.app[GLANCES]
    seen, begun = glances.newest.get(namespace), glances.begun
    if seen is not None and ctx.clock.monotonic() - seen.at_s < FRESH_S and not any(query.text(name) for name in READ):
        return reply_value(seen.out)
    async with glances.turn:
        seen = glances.newest.get(namespace)
        if seen is None or seen.number <= begun:
            glances.begun += 1
            number, at_s = glances.begun, ctx.clock.monotonic()
            seen = _Glance(number, at_s, await _look(ctx, namespace))
            if len(glances.newest) >= GLANCES_MAX:
                glances.newest.clear()
            glances.newest[namespace] = seen
    return reply_value(seen.out)


_Head = Callable[[bytes], JobHead | None]


class _Heads:
    """The jobs of a namespace, None: of all but what the cluster does for itself; each is read once."""

    def __init__(self, namespace: str | None) -> None:
        self._namespace = namespace
        self._known: dict[bytes, JobHead | None] = {}

    def of(self, view: ReadView, job_key: bytes) -> JobHead | None:
        """Returns the head of a job; None: it is not asked about."""
        if job_key not in self._known:
            raw = view.get(Table.JOBS, job_key)
            found = None if raw is None else decode_head(raw)
            self._known[job_key] = None if found is None or self._hides(found) else found
        return self._known[job_key]

    def _hides(self, job: JobHead) -> bool:
        if self._namespace is None:
            return job.namespace == SYSTEM_NAMESPACE
        return job.namespace != self._namespace


async def _look(ctx: ApiContext, namespace: str | None) -> NowOut:
    heads = _Heads(namespace)
    with ctx.read() as view:
        out = _running_now(view, lambda key: heads.of(view, key))

    def due(view: ReadView, key: bytes, _: bool) -> DueOut | None:
        return _due(key, heads.of(view, key[8:]))

    out.due, _ = await due_page(ctx, walk(_ALL_DUE), None, SHOWN, due, ctx.now_ms())
    slices = Slices()
    await slices.next()
    with ctx.read() as view:
        _see_dead(view, lambda key: heads.of(view, key), out)
        lanes = list(islice(_lanes(view), LANES_MAX))
        queues = {queue.lane: queue.name for queue in rows.QUEUES.all(view) if not queue.name.startswith(QUOTA_QUEUE)}
    for lane in (*lanes, None):
        await slices.turn()
        with ctx.read() as view:
            keys = _held(view) if lane is None else _ready(view, lane)
            queue = None if lane is None else queues.get(lane)
            found = _first_of(ctx, view, keys, lambda key: heads.of(view, key), queue)
        if found is not None:
            out.waiting.append(found)
    return out


def _running_now(view: ReadView, head: _Head) -> NowOut:
    live = sorted(islice(view.scan(Table.ASSIGNED), LOOK_MAX), key=lambda row: row[0][8:])  # by their tokens
    mine = [(key, job) for _, key in live if (job := head(key[8:16])) is not None]
    return NowOut(
        running=len(mine),
        running_exact=len(live) < LOOK_MAX,
        runs=[_running(row, job) for key, job in mine[:SHOWN] if (row := get_instance(view, key)) is not None],
        waiting=[],
        due=[],
        dead_letters=0,
        dead_letters_exact=True,
        dead=[],
    )


def _see_dead(view: ReadView, head: _Head, out: NowOut) -> None:
    dead = list(islice(view.scan(Table.DEAD, reverse=True), LOOK_MAX))
    gone = [(key, job) for row, _ in dead if (job := head((key := from_dead(row))[8:16])) is not None]
    out.dead_letters = len(gone)
    out.dead_letters_exact = len(dead) < LOOK_MAX
    out.dead = [_dead(row, job) for key, job in gone[:SHOWN] if (row := get_instance(view, key)) is not None]


def _running(row: Instance, job: JobHead) -> RunningOut:
    last = row.attempts[-1]
    started_at = None if last.started_at_ms is None else format_time(last.started_at_ms)
    return RunningOut(
        instance_text(row.key),
        job_text(job.id),
        job.name,
        job.namespace,
        node_name(last.node),
        last.number,
        started_at,
        worker_name(last.node),
    )


def _dead(row: Instance, job: JobHead) -> DeadOut:
    since = format_time(row.dead_at_ms or row.modified_at_ms)
    return DeadOut(instance_text(row.key), job_text(job.id), job.name, job.namespace, since, row.reason, row.error)


def _due(row: bytes, job: JobHead | None) -> DueOut | None:
    return None if job is None else DueOut(job_text(job.id), job.name, job.namespace, format_time(from_u64(row[:8])))


def _ready(view: ReadView, lane: int) -> Iterator[bytes]:
    """Yields what waits for a worker in a lane."""
    high = lane_key(lane + 1) if lane < 2**32 - 1 else None
    return (from_ready(row) for row, _ in view.scan(Table.READY, lane_key(lane), high))


def _held(view: ReadView) -> Iterator[bytes]:
    """Yields what waits behind other runs of its job."""
    return (row[16:] for row, _ in view.scan(Table.HELD))


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
            view, meta(view), ctx.cluster.status(), job, made_from.policy, row, ctx.now_ms(), own_troubles(ctx)
        )
    return QueuedOut(
        queue,
        len(mine),
        len(looked) < LOOK_MAX,
        instance_text(row.key),
        None if why is None else why.reason,
        None if why is None else why.text,
    )
