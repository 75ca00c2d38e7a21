"""GET /v1/jobs: a page of the jobs that match.

In the order of ids, which is that of creation; by name where a namespace and a name or prefix are given; by next fire
time where a range of that is asked for. A page goes on after the row that was looked at last, so jobs that come and go
move no others. What no index helps to find is looked for among a bounded number of rows: such a page may be
short, even empty, while `next` says that there is more to look through.
"""

from __future__ import annotations

from functools import partial

from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.replies import reply_page
from raftsched.api.http.requests import bad_parameter
from raftsched.api.http.slices import Slices
from raftsched.api.http.wanted_fields import wanted_fields
from raftsched.api.jobs.due import due_page, shown_times
from raftsched.api.jobs.failing import is_failing, is_late
from raftsched.api.jobs.filters import of_query
from raftsched.api.jobs.partial import PartialJobs
from raftsched.api.jobs.render import job_json
from raftsched.api.rows import paged
from raftsched.api.serving import serves
from raftsched.core.model import Job
from raftsched.core.rules.selection import match, walk
from raftsched.core.tables import ReadView, Table, from_u64
from raftsched.surface.job_shapes import FIELDS
from raftsched.surface.jobs import LIST


@serves(LIST)
async def list_jobs(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    wanted = of_query(query)
    fields = wanted_fields(query, FIELDS)
    reverse = query.choice("order", "asc", "desc") == "desc"
    last = query.cursor("jobs")
    way = walk(wanted)
    now_ms, slices = ctx.now_ms(), Slices()
    failing, late = (query.choice(name, "true", "false") for name in ("failing", "late"))
    if late is not None and wanted.by_due_time:
        raise bad_parameter("late", 'does not go with "next_from" and "next_to"', "inconsistent")

    def as_asked(view: ReadView, job: Job | None) -> Job | None:
        if job is None or (failing is not None and is_failing(job) != (failing == "true")):
            return None
        return None if late is not None and is_late(view, job, now_ms) != (late == "true") else job

    if way.table is Table.DUE:

        def take_due(view: ReadView, key: bytes, is_owed: bool) -> Job | None:
            due_ms = from_u64(key[:8])
            raw = way.job(view, key, b"")
            job = None if raw is None else match(wanted, raw, lambda _: due_ms)
            changed = job is not None and not is_owed and job.fire_at_ms != due_ms  # since its row was looked at
            return None if changed else as_asked(view, job)

        jobs, last = await due_page(ctx, way, last, query.limit(), take_due, now_ms, reverse=reverse)
    else:
        shown_time = shown_times(ctx, now_ms)

        def take(view: ReadView, key: bytes, value: bytes) -> Job | None:
            raw = way.job(view, key, value)
            return None if raw is None else as_asked(view, match(wanted, raw, shown_time))

        rows = partial(way.rows, reverse=reverse)
        jobs, last = await paged(ctx, slices, rows, query.limit(), take, last)
    part = None if fields is None else PartialJobs(ctx, fields, now_ms)
    shown: list[bytes] = []
    for job in jobs:
        shown.append(job_json(job, now_ms, ctx.calendar, ctx.live_attempt(job)) if part is None else part(job))
        await slices.turn()
    return reply_page(call.request, shown, "jobs", query.filters(), last)
