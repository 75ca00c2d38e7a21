"""Which job a write is meant for."""

from __future__ import annotations

from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import Addressed, catch_up, job_id_of
from raftsched.api.rows import requested_job
from raftsched.core.model import Job


async def target_job(ctx: ApiContext, request: Addressed) -> Job:
    """The job that a write is meant for. A name may have moved on, and an id may be too new for this node: it catches
    up with the leader before it says what there is not. Raises Problem not-found."""
    if "name" not in request.match_info:
        job_id_of(request)
        try:
            with ctx.read() as view:
                return requested_job(view, request)
        except Problem:
            pass
    await catch_up(ctx)
    with ctx.read() as view:
        return requested_job(view, request)
