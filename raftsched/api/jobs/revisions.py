"""/v1/jobs/{id}/revisions: what a job is now, and what it was before its newest edits."""

from __future__ import annotations

import msgspec
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_value
from raftsched.api.rows import requested_job
from raftsched.api.serving import serves
from raftsched.core.model import Job, PastRevision
from raftsched.core.rows import decode_past_revision
from raftsched.core.tables import ReadView, Table, after, from_u64, u64
from raftsched.surface import jobs


@serves(jobs.REVISIONS)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    with ctx.read() as view:
        job = requested_job(view, call)
        past = _kept(view, job)
    return reply_value({"items": _shown(job, past), "next": None})


def _kept(view: ReadView, job: Job) -> dict[int, PastRevision]:
    prefix = u64(job.id)
    return {
        from_u64(key[8:]): decode_past_revision(raw) for key, raw in view.scan(Table.HISTORY, prefix, after(prefix))
    }


def _shown(job: Job, past: dict[int, PastRevision]) -> list[jobs.RevisionOut]:
    """A revision begins when the one before it ends."""
    begins = {number + 1: format_time(row.until_ms) for number, row in past.items()}
    begins[1] = format_time(job.created_at_ms)
    shown = [
        jobs.RevisionOut(job.revision, job.name, begins.get(job.revision), None, job.by or None, msgspec.Raw(job.body))
    ]
    for number, row in sorted(past.items(), reverse=True):
        until = format_time(row.until_ms)
        shown.append(
            jobs.RevisionOut(number, row.name, begins.get(number), until, row.by or None, msgspec.Raw(row.body))
        )
    return shown
