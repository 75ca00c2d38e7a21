"""Made from client/jobs.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

from raftsched.client.encoding import Params
from raftsched.client.errors import ClientError
from raftsched.client.generated.bulk import BulkFilter, DryRun
from raftsched.client.generated.enums import Action, StepName
from raftsched.client.generated.explain import JobExplanation
from raftsched.client.generated.forecast import Forecast
from raftsched.client.generated.graph import Graph
from raftsched.client.generated.job_actions import Backfilled, Run
from raftsched.client.generated.jobs import Checked, Deleted, JobFilter, Revision
from raftsched.client.generated.runs import Instance, InstanceFilter
from raftsched.client.generated.schedules import Crontab, Preview
from raftsched.client.generated.states import JobState
from raftsched.client.generated.statistics import Stats
from raftsched.client.models import Created
from raftsched.client.models_generated import Job
from raftsched.client.moments import Duration, Moment
from raftsched.client.refs import JobRef, JobVersion
from raftsched.client.spec_generated import JobSpec
from raftsched.client.sync.bridge import Bridge
from raftsched.client.sync.underway import Underway


class Jobs:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def create(self, job: JobSpec | None = None, /, **fields: Unpack[JobSpec]) -> Created:
        """Returns when a majority has it on disk. Creates that are under way at one time travel together. With a name
        it can be called again after UnknownOutcomeError, also by another process: the same content gives the same job,
        another one a ConflictError."""
        return self._bridge.run(lambda c: c.jobs.create(job, **fields))

    def create_many(self, jobs: Iterable[JobSpec]) -> list[Created | ClientError]:
        """Returns the outcome of each, in order. Some may be made and others refused."""
        return self._bridge.run(lambda c: c.jobs.create_many(jobs))

    def check(self, job: JobSpec | None = None, /, **fields: Unpack[JobSpec]) -> Checked:
        """Returns what `create` would make. Raises what it would raise, and makes nothing."""
        return self._bridge.run(lambda c: c.jobs.check(job, **fields))

    def delete(self, ref: JobRef, *, if_match: JobVersion | None = None) -> Deleted:
        """Its runs that are under way are asked to end; its name is free again. `if_match` as in `put`."""
        return self._bridge.run(lambda c: c.jobs.delete(ref, if_match=if_match))

    def graph(self, *, job: JobRef | None = None, namespace: str | None = None) -> Graph:
        """Which jobs follow which: around one, of a namespace, or (None) all."""
        return self._bridge.run(lambda c: c.jobs.graph(job=job, namespace=namespace))

    def state(self, ref: JobRef) -> JobState:
        return self._bridge.run(lambda c: c.jobs.state(ref))

    def wait(self, ref: JobRef, *, timeout: float | None = None) -> Instance:
        """The end of its run that is under way, or else of its next one. `timeout` in seconds; TimeoutError after that.
        ConflictError "illegal-transition" when it has expired and never ran; of one that ran before it expired, the
        last run."""
        return self._bridge.run(lambda c: c.jobs.wait(ref, timeout=timeout))

    def skip_next(self, ref: JobRef, at: Moment | None = None) -> Job:
        """`at`: the nominal time that is meant. Without it the next one is looked up first, so that a request that has
        to be sent again leaves out no second one."""
        return self._bridge.run(lambda c: c.jobs.skip_next(ref, at))

    def set_state(self, ref: JobRef, state: Literal["SCHEDULED", "SUSPENDED", "EXPIRED"]) -> Job:
        """As `resume`, `pause` and `expire` do; in that state already it stays as it is."""
        return self._bridge.run(lambda c: c.jobs.set_state(ref, state))

    def act(
        self,
        action: Action,
        *,
        ids: Sequence[str] | None = None,
        all: bool = False,
        kill: bool = False,
        until: Moment | None = None,
        length: Duration | None = None,
        **filters: Unpack[BulkFilter],
    ) -> Underway:
        """The same done to many jobs: those with these ids, or all that match the filter, or with `all` every one.
        Returns when the cluster has accepted it: await what is returned for its end, or iterate it for its progress.
        `kill`: with expire, what runs is asked to end. `until`, `length`: with pause, as there. InvalidError when it is
        not said which in exactly one way."""
        return Underway(
            self._bridge,
            self._bridge.run(
                lambda c: c.jobs.act(action, ids=ids, all=all, kill=kill, until=until, length=length, **filters)
            ).operation,
        )

    def dry_run(
        self, action: Action, *, ids: Sequence[str] | None = None, all: bool = False, **filters: Unpack[BulkFilter]
    ) -> DryRun:
        """Returns the number of jobs that `act` would change now, and some of them; nothing is done."""
        return self._bridge.run(lambda c: c.jobs.dry_run(action, ids=ids, all=all, **filters))

    def list_fields(
        self, *fields: str, most: int | None = None, **filters: Unpack[JobFilter]
    ) -> Iterator[dict[str, Any]]:
        """Gives only these fields of each, as JSON has them: a hundred thousand jobs are light then. InvalidError names
        the fields that there are."""
        return self._bridge.each(lambda c: c.jobs.list_fields(most=most, **filters))

    def explain(self, ref: JobRef) -> JobExplanation:
        """Why it does not run, or when it does: what is in its way, what moves its times, how its newest runs went."""
        return self._bridge.run(lambda c: c.jobs.explain(ref))

    def instances(
        self, ref: JobRef, *, most: int | None = None, **filters: Unpack[InstanceFilter]
    ) -> Iterator[Instance]:
        """The newest scheduled time first."""
        return self._bridge.each(lambda c: c.jobs.instances(ref, most=most, **filters))

    def stats(
        self, ref: JobRef, *, start: Moment | None = None, end: Moment | None = None, state: str | None = None
    ) -> Stats:
        """Returns statistics of its runs: of all instances that are kept, or of those due from `start` to before `end`.
        `state`: only of those in this state, or in one of several with commas."""
        return self._bridge.run(lambda c: c.jobs.stats(ref, start=start, end=end, state=state))

    def get(self, ref: JobRef) -> Job:
        """Read a job. NotFoundError: there is none."""
        return self._bridge.run(lambda c: c.jobs.get(ref))

    def patch(self, ref: JobRef, changes: Mapping[str, Any], *, if_match: JobVersion | None = None) -> Job:
        """RFC 7396: what is given is changed, None takes out; `trigger`, `triggers` and `handler` are replaced whole,
        and of the first two one by the other. `if_match` as in `put`."""
        return self._bridge.run(lambda c: c.jobs.patch(ref, changes, if_match=if_match))

    def check_patch(self, ref: JobRef, changes: Mapping[str, Any], *, if_match: JobVersion | None = None) -> Checked:
        """Returns what `patch` would make of the job. Raises what it would raise, and changes nothing."""
        return self._bridge.run(lambda c: c.jobs.check_patch(ref, changes, if_match=if_match))

    def revisions(self, ref: JobRef) -> list[Revision]:
        """Returns what it is now, and what it was before its newest edits; the newest first."""
        return self._bridge.run(lambda c: c.jobs.revisions(ref))

    def put(self, ref: JobRef, job: JobSpec, *, if_match: JobVersion | None = None) -> Job:
        """The whole new content. By name it creates what does not exist. `if_match`: only while it is as it was
        answered there, and no other job under its name; else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.jobs.put(ref, job, if_match=if_match))

    def list(self, *, most: int | None = None, **filters: Unpack[JobFilter]) -> Iterator[Job]:
        """`most` of them (None: all), page after page; what is made or deleted meanwhile may be in it or not."""
        return self._bridge.each(lambda c: c.jobs.list(most=most, **filters))

    def pause(self, ref: JobRef, *, until: Moment | None = None, length: Duration | None = None) -> Job:
        """Not scheduled until it is resumed, by itself at the time `until`, or after `length`, where one of these is
        given; what runs goes on. A later pause replaces an earlier one."""
        return self._bridge.run(lambda c: c.jobs.pause(ref, until=until, length=length))

    def resume(self, ref: JobRef) -> Job:
        """Schedules it again. What was missed meanwhile is not caught up; see `backfill`."""
        return self._bridge.run(lambda c: c.jobs.resume(ref))

    def run(self, ref: JobRef, *, params: Params | None = None, priority: int | None = None) -> Run:
        """Now, beside its schedule; `params` and `priority` for this run only."""
        return self._bridge.run(lambda c: c.jobs.run(ref, params=params, priority=priority))

    def expire(self, ref: JobRef, *, kill: bool = False) -> Job:
        """Never scheduled again; `kill` ends what runs."""
        return self._bridge.run(lambda c: c.jobs.expire(ref, kill=kill))

    def backfill(self, ref: JobRef, start: Moment, end: Moment | None = None, *, dry_run: bool = False) -> Backfilled:
        """A run for each time from `start` on, to before `end` (now), that was not run."""
        return self._bridge.run(lambda c: c.jobs.backfill(ref, start, end, dry_run=dry_run))

    def next(
        self,
        ref: JobRef,
        count: int = 10,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        by_day: str | None = None,
    ) -> Preview:
        """Its trigger in words and its next `count` times, from `start` (None: now) to before `end`. `by_day`: as for
        `Client.preview`."""
        return self._bridge.run(lambda c: c.jobs.next(ref, count, start=start, end=end, by_day=by_day))

    def from_crontab(
        self,
        text: str,
        *,
        timezone: str = "UTC",
        namespace: str = "default",
        user_column: bool | None = None,
        seconds: bool | None = None,
        prefix: str = "",
        file: str = "crontab",
    ) -> Crontab:
        """Returns the jobs that the lines of a crontab would become, and why others would not. Nothing is stored:
        `create` takes the jobs. `user_column`, `seconds`: whether a user, or seconds, stand before each command; None:
        found out from the text. The same text, `file` and `prefix` give the same names."""
        return self._bridge.run(
            lambda c: c.jobs.from_crontab(
                text,
                timezone=timezone,
                namespace=namespace,
                user_column=user_column,
                seconds=seconds,
                prefix=prefix,
                file=file,
            )
        )

    def forecast(
        self,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        length: Duration | None = None,
        step: StepName | None = None,
    ) -> Forecast:
        """Returns how many runs are due, step by step, and the slots for them: from `start` (None: now) to before
        `end`, or for `length` (None: 24 hours); of one namespace or queue, or (None) of all. `step` None: a minute, or
        the shortest that such a window allows."""
        return self._bridge.run(
            lambda c: c.jobs.forecast(namespace=namespace, queue=queue, start=start, end=end, length=length, step=step)
        )
