"""Made from surface/job_actions.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from raftsched.client.encoding import Params
from raftsched.client.generated.job_actions import Backfilled, Run
from raftsched.client.models_generated import Job
from raftsched.client.moments import Duration, Moment
from raftsched.client.refs import JobRef, job_path
from raftsched.client.transport import Transport
from raftsched.client.wire import said


class JobsCalls:
    """Methods that make one call."""

    _transport: Transport

    async def pause(self, ref: JobRef, *, until: Moment | None = None, length: Duration | None = None) -> Job:
        """Not scheduled until it is resumed, by itself at the time `until`, or after `length`, where one of these is
        given; what runs goes on. A later pause replaces an earlier one."""
        return await self._transport.post(Job, f"{job_path(ref)}/pause", said({"until": until, "for": length}))

    async def resume(self, ref: JobRef) -> Job:
        """Schedules it again. What was missed meanwhile is not caught up; see `backfill`."""
        return await self._transport.post(Job, f"{job_path(ref)}/resume")

    async def run(self, ref: JobRef, *, params: Params | None = None, priority: int | None = None) -> Run:
        """Now, beside its schedule; `params` and `priority` for this run only."""
        return await self._transport.post(Run, f"{job_path(ref)}/run", said({"params": params, "priority": priority}))

    async def expire(self, ref: JobRef, *, kill: bool = False) -> Job:
        """Never scheduled again; `kill` ends what runs."""
        return await self._transport.post(Job, f"{job_path(ref)}/expire", {"kill": kill})

    async def backfill(
        self, ref: JobRef, start: Moment, end: Moment | None = None, *, dry_run: bool = False
    ) -> Backfilled:
        """A run for each time from `start` on, to before `end` (now), that was not run."""
        return await self._transport.post(
            Backfilled, f"{job_path(ref)}/backfill", said({"from": start, "to": end, "dry_run": dry_run})
        )
