"""GET /v1/instances:recent: the newest runs of many jobs, for lists that show a strip of them beside each job."""

from __future__ import annotations

from itertools import islice
from typing import NoReturn

import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import READ, bad_parameter
from raftsched.api.http.slices import Slices
from raftsched.api.openapi.operation import operation
from raftsched.api.rows import get_job, instances_of
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.ids import instance_text, job_text, parse_job
from raftsched.core.model import Instance
from raftsched.core.rows import decode_instance
from raftsched.core.rules.lateness import lateness_ms
from raftsched.core.tables import ReadView

JOBS_MAX = 50
COUNT_MAX = 50
COUNT_DEFAULT = 30


class RecentRun(msgspec.Struct):
    """`late_ms`: between the time when it was due and its first start; null before that, and for what was asked for."""

    id: str
    state: str
    scheduled_at: str
    started_at: str | None
    ended_at: str | None
    late_ms: int | None


class RecentRuns(msgspec.Struct):
    """The newest scheduled time comes first."""

    job_id: str
    runs: list[RecentRun]


class RecentOut(msgspec.Struct):
    """In the order in which the jobs were asked for, without those that are not there."""

    items: list[RecentRuns]


@operation(
    "Read the newest instances of many jobs",
    {200: RecentOut},
    query=("jobs", "count", *READ),
    required=("jobs",),
    schemas={"count": {"type": "integer", "minimum": 1, "maximum": COUNT_MAX, "default": COUNT_DEFAULT}},
    role="viewer",
    scope="checked",
)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    """The `count` newest of each of these `jobs`. A job that is not there is left out."""
    count = call.query.integer("count", 1, COUNT_MAX) or COUNT_DEFAULT
    text = call.query.text("jobs")
    if not text:
        _refuse("is missing")
    given = dict.fromkeys(text.split(","))
    if len(given) > JOBS_MAX:
        _refuse(f"names {len(given)} jobs")
    found: list[RecentRuns] = []
    slices = Slices()
    for one in given:
        job_id = parse_job(one)
        if job_id is None:
            _refuse(f'names "{one[:64]}", which is no id of a job')
        with ctx.read() as view:
            runs = _newest(view, job_id, count)
        if runs is not None:
            found.append(RecentRuns(job_text(job_id), runs))
        await slices.turn()
    return reply_value(RecentOut(found))


def _refuse(why: str) -> NoReturn:
    raise bad_parameter("jobs", f"{why}; it lists ids of 1 to {JOBS_MAX} jobs, with commas between them")


def _newest(view: ReadView, job_id: int, count: int) -> list[RecentRun] | None:
    job = get_job(view, job_id)
    if job is None:
        return None
    rows = islice(instances_of(view, job, 0, TIME_MAX_MS, None), count)
    return [_shown(decode_instance(raw)) for _, raw in rows]


def _shown(row: Instance) -> RecentRun:
    started_at_ms = row.attempts[-1].started_at_ms if row.attempts else None
    return RecentRun(
        instance_text(row.key),
        row.state.name,
        format_time(row.nominal_at_ms),
        format_time_or_none(started_at_ms),
        format_time_or_none(row.ended_at_ms),
        lateness_ms(row),
    )
