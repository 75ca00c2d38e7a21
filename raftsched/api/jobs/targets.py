"""Finds the job that a write is meant for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import propose_one
from raftsched.api.http.requests import catch_up, job_id_of
from raftsched.api.resources.amending import amend
from raftsched.api.rows import requested_job
from raftsched.core.commands import Accepted
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


async def change_target(
    ctx: ApiContext, call: Call[Any], job: Job, command: Callable[[Job, int | None], bytes], *, keyed: bool = False
) -> Accepted:
    """Proposes a change of the job that `target_job` returned, and returns apply's answer. `command` makes it of the
    job and the revision that it must have. By its name a job is changed as it was found alone: it may lose the name
    before that is applied, and another one get it. It is looked up again then. `keyed` as in `amend`. Raises Problem.
    """
    if "name" not in call.path:
        return await propose_one(ctx, command(job, call.if_match))
    found = [job]

    async def read() -> Job:
        return found.pop() if found else await target_job(ctx, call)

    async def propose(job: Job) -> bytes:
        return command(job, job.revision if call.if_match is None else call.if_match)

    return await amend(ctx, "The job", read, call.if_match, propose, keyed=keyed)
