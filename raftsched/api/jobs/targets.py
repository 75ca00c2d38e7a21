"""Which job a write is meant for."""

from __future__ import annotations

from typing import Any

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import catch_up, job_id_of
from raftsched.api.rows import requested_job
from raftsched.core.ids import job_text
from raftsched.core.model import Job


async def target_job(ctx: ApiContext, call: Call[Any]) -> Job:
    """The job that a write is meant for. A name may have moved on, and an id may be too new for this node: it catches
    up with the leader before it says what there is not. Raises Problem not-found, stale-revision."""
    if "name" not in call.path:
        job_id_of(call)
        try:
            with ctx.read() as view:
                job = requested_job(view, call)
        except Problem:
            pass
        else:
            return check_tag(call, job)
    await catch_up(ctx)
    with ctx.read() as view:
        return check_tag(call, requested_job(view, call))


def check_tag(call: Call[Any], job: Job) -> Job:
    """Returns the job, unless If-Match is the ETag of another one. Whether its revision is the right one is for apply
    to say. Raises Problem stale-revision."""
    if call.if_match_id not in (None, job.id):
        raise Problem(
            "stale-revision",
            f"If-Match names another job; this one is {job_text(job.id)}, at revision {job.revision}. Read it again.",
        )
    return job
