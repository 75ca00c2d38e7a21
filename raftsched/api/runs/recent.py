"""GET /v1/instances:recent: the newest runs of many jobs, for lists that show a strip of them beside each job."""

from __future__ import annotations

from itertools import islice
from typing import NoReturn

from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import bad_parameter
from raftsched.api.http.slices import Slices
from raftsched.api.rows import get_job, instances_of
from raftsched.api.serving import serves
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.ids import instance_text, job_text, parse_job
from raftsched.core.model import Instance
from raftsched.core.rows import decode_instance
from raftsched.core.rules.lateness import lateness_ms
from raftsched.core.tables import ReadView
from raftsched.surface import runs as surface
from raftsched.surface.runs import RecentOut, RecentRun, RecentRuns


@serves(surface.RECENT)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    count = call.query.integer("count", 1, surface.RECENT_MAX) or surface.RECENT_DEFAULT
    text = call.query.text("jobs")
    if not text:
        _refuse("is missing")
    given = dict.fromkeys(text.split(","))
    if len(given) > surface.RECENT_JOBS_MAX:
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
    raise bad_parameter("jobs", f"{why}; it lists ids of 1 to {surface.RECENT_JOBS_MAX} jobs, with commas between them")


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
