"""Made from surface/jobs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Unpack

from raftsched.client.encoding import encode
from raftsched.client.generated.jobs import Checked, JobFilter, Revision
from raftsched.client.models import Page
from raftsched.client.models_generated import Job
from raftsched.client.pages import each_of
from raftsched.client.refs import JobRef, JobVersion, job_condition, job_path
from raftsched.client.spec_generated import JobSpec
from raftsched.client.transport import Transport, items


class JobsCalls:
    """Methods that make one call."""

    _transport: Transport

    async def get(self, ref: JobRef) -> Job:
        """Read a job. NotFoundError: there is none."""
        return await self._transport.get(Job, job_path(ref))

    async def patch(self, ref: JobRef, changes: Mapping[str, Any], *, if_match: JobVersion | None = None) -> Job:
        """RFC 7396: what is given is changed, None takes out; `trigger`, `triggers` and `handler` are replaced whole,
        and of the first two one by the other. `if_match` as in `put`."""
        return (
            await self._transport.send("PATCH", job_path(ref), body=encode(changes), headers=job_condition(if_match))
        ).decoded(Job)

    async def check_patch(
        self, ref: JobRef, changes: Mapping[str, Any], *, if_match: JobVersion | None = None
    ) -> Checked:
        """Returns what `patch` would make of the job. Raises what it would raise, and changes nothing."""
        return (
            await self._transport.send(
                "POST", f"{job_path(ref)}/check", body=encode(changes), headers=job_condition(if_match), repeatable=True
            )
        ).decoded(Checked)

    async def revisions(self, ref: JobRef) -> list[Revision]:
        """Returns what it is now, and what it was before its newest edits; the newest first."""
        return items(Revision, await self._transport.get(Page, f"{job_path(ref)}/revisions"))

    async def put(self, ref: JobRef, job: JobSpec, *, if_match: JobVersion | None = None) -> Job:
        """The whole new content. By name it creates what does not exist. `if_match`: only while it is as it was
        answered there, and no other job under its name; else ConflictError "stale-revision"."""
        return (
            await self._transport.send("PUT", job_path(ref), body=encode(job), headers=job_condition(if_match))
        ).decoded(Job)

    def list(self, *, most: int | None = None, **filters: Unpack[JobFilter]) -> AsyncIterator[Job]:
        """`most` of them (None: all), page after page; what is made or deleted meanwhile may be in it or not."""
        return each_of(self._transport, Job, "/v1/jobs", filters, most)
