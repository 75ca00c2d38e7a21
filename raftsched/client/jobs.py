"""Jobs: made, looked at, changed, run.

A job is meant by its id, by "namespace/name", or by a Job or Created that was answered before. A name alone is taken
for an id: "default/nightly" is the job "nightly" of the namespace "default".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Unpack

import msgspec

from raftsched.client.creates import Creates
from raftsched.client.errors import ClientError, ConflictError
from raftsched.client.instances import Instances
from raftsched.client.models import Backfilled, Checked, Created, Crontab, Deleted, Instance, Page, Preview, Run
from raftsched.client.models_bulk import DryRun, Operation, Revision, Stats
from raftsched.client.models_cluster import JobExplanation
from raftsched.client.models_forecast import Forecast
from raftsched.client.models_generated import Job
from raftsched.client.models_workflows import Graph
from raftsched.client.moments import Duration, Moment
from raftsched.client.operations import Operations, Underway
from raftsched.client.pages import pages, part_of
from raftsched.client.spec import Action, BulkFilter, InstanceFilter, JobFilter, JobState
from raftsched.client.spec_generated import JobSpec
from raftsched.client.transport import Transport, encode, items
from raftsched.client.wire import condition, segment

JobRef = str | Job | Created
JobVersion = Job | Created | int  # a job as it was answered; or, of one that is meant by its id, its revision
AT_ONCE = 2_000  # creates of one create_many at a time
LOOK_S = (0.05, 1.0)  # between two looks at a job that is waited for: first, most


def path_of(ref: JobRef) -> str:
    """ValueError for what is neither id nor namespace/name."""
    text = ref if isinstance(ref, str) else ref.id
    namespace, slash, name = text.partition("/")
    if not slash and text:
        return f"/v1/jobs/{segment(text)}"
    if not namespace or not name or "/" in name or {namespace, name} & {".", ".."}:
        raise ValueError(f'{text!r} names no job; give its id, or "namespace/name" such as "default/nightly"')
    return f"/v1/namespaces/{segment(namespace)}/jobs/{segment(name)}"


class Jobs:
    def __init__(self, transport: Transport, creates: Creates) -> None:
        self._transport = transport
        self._creates = creates

    # ------------------------------------------------------------ making

    async def create(self, job: JobSpec | None = None, /, **fields: Unpack[JobSpec]) -> Created:
        """Returns when a majority has it on disk. Creates that are under way at one time travel together. With a name
        it can be called again after UnknownOutcomeError, also by another process: the same content gives the same job,
        another one a ConflictError."""
        spec: Mapping[str, Any] = {**(job or {}), **fields}
        name, namespace = spec.get("name"), spec.get("namespace")
        return await self._creates.create(
            encode(spec),
            name if isinstance(name, str) else None,
            namespace if isinstance(namespace, str) else "default",
            self._transport.timeout,
        )

    async def create_many(self, jobs: Iterable[JobSpec]) -> list[Created | ClientError]:
        """Returns the outcome of each, in order. Some may be made and others refused."""
        results: list[Created | ClientError] = []
        rest = iter(jobs)
        while some := list(islice(rest, AT_ONCE)):
            for done in await asyncio.gather(*(self.create(job) for job in some), return_exceptions=True):
                if isinstance(done, BaseException) and not isinstance(done, ClientError):
                    raise done
                results.append(done)
        return results

    async def put(self, ref: JobRef, job: JobSpec, *, if_match: JobVersion | None = None) -> Job:
        """The whole new content. By name it creates what does not exist. `if_match`: only while it is as it was
        answered there, and no other job under its name; else ConflictError "stale-revision"."""
        answer = await self._transport.send("PUT", path_of(ref), body=encode(job), headers=_only(if_match))
        return answer.decoded(Job)

    async def patch(self, ref: JobRef, changes: Mapping[str, Any], *, if_match: JobVersion | None = None) -> Job:
        """RFC 7396: what is given is changed, None takes out; `trigger`, `triggers` and `handler` are
        replaced whole, and of the first two one by the other. `if_match` as in `put`."""
        answer = await self._transport.send("PATCH", path_of(ref), body=encode(changes), headers=_only(if_match))
        return answer.decoded(Job)

    async def check(self, job: JobSpec | None = None, /, **fields: Unpack[JobSpec]) -> Checked:
        """Returns what `create` would make. Raises what it would raise, and makes nothing."""
        return await self._transport.post(Checked, "/v1/jobs:check", {**(job or {}), **fields})

    async def check_patch(
        self, ref: JobRef, changes: Mapping[str, Any], *, if_match: JobVersion | None = None
    ) -> Checked:
        """Returns what `patch` would make of the job. Raises what it would raise, and changes nothing."""
        path, headers = f"{path_of(ref)}/check", _only(if_match)
        answer = await self._transport.send("POST", path, body=encode(changes), headers=headers, repeatable=True)
        return answer.decoded(Checked)

    async def from_crontab(
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
        body = {
            "text": text,
            "timezone": timezone,
            "namespace": namespace,
            "user_column": user_column,
            "seconds": seconds,
            "prefix": prefix,
            "file": file,
        }
        return await self._transport.post(Crontab, "/v1/schedules/crontab", body)

    async def delete(self, ref: JobRef, *, if_match: JobVersion | None = None) -> Deleted:
        """Its runs that are under way are asked to end; its name is free again. `if_match` as in `put`."""
        answer = await self._transport.send("DELETE", path_of(ref), headers=_only(if_match))
        return answer.decoded(Deleted) if answer.body else Deleted()

    # ------------------------------------------------------------ looking

    async def get(self, ref: JobRef) -> Job:
        """NotFoundError: there is none."""
        return await self._transport.get(Job, path_of(ref))

    async def explain(self, ref: JobRef) -> JobExplanation:
        """Why it does not run, or when it does: what is in its way, what moves its times, how its newest runs went."""
        return await self._transport.get(JobExplanation, f"{path_of(ref)}/explain")

    async def instances(
        self, ref: JobRef, *, most: int | None = None, **filters: Unpack[InstanceFilter]
    ) -> AsyncIterator[Instance]:
        """The newest scheduled time first."""
        async for page in pages(self._transport, Instance, f"{path_of(ref)}/instances", filters, most):
            for instance in page:
                yield instance

    async def next(
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
        query = {"count": count, "from": start, "to": end, "by_day": by_day}
        return await self._transport.get(Preview, f"{path_of(ref)}/next", query)

    async def graph(self, *, job: JobRef | None = None, namespace: str | None = None) -> Graph:
        """Which jobs follow which: around one, of a namespace, or (None) all."""
        name = job if job is None or isinstance(job, str) else job.id
        return await self._transport.get(Graph, "/v1/jobs:graph", {"job": name, "namespace": namespace})

    async def forecast(
        self,
        *,
        namespace: str | None = None,
        queue: str | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        length: Duration | None = None,
        step: Literal["1m", "5m", "15m", "1h"] | None = None,
    ) -> Forecast:
        """Returns how many runs are due, step by step, and the slots for them: from `start` (None: now) to before
        `end`, or for `length` (None: 24 hours); of one namespace or queue, or (None) of all. `step` None: a minute, or
        the shortest that such a window allows."""
        lasts = length if length is None or isinstance(length, str) else msgspec.to_builtins(length)
        query = {"namespace": namespace, "queue": queue, "from": start, "to": end, "for": lasts, "step": step}
        return await self._transport.get(Forecast, "/v1/forecast", query)

    async def state(self, ref: JobRef) -> JobState:
        return (await self._transport.get(_State, f"{path_of(ref)}/state")).state

    async def revisions(self, ref: JobRef) -> list[Revision]:
        """Returns what it is now, and what it was before its newest edits; the newest first."""
        return items(Revision, await self._transport.get(Page, f"{path_of(ref)}/revisions"))

    async def stats(
        self, ref: JobRef, *, start: Moment | None = None, end: Moment | None = None, state: str | None = None
    ) -> Stats:
        """Returns statistics of its runs: of all instances that are kept, or of those due from `start` to before `end`.
        `state`: only of those in this state, or in one of several with commas."""
        return await self._transport.get(Stats, f"{path_of(ref)}/stats", {"from": start, "to": end, "state": state})

    async def wait(self, ref: JobRef, *, timeout: float | None = None) -> Instance:
        """The end of its run that is under way, or else of its next one. `timeout` in seconds; TimeoutError after that.
        ConflictError "illegal-transition" when it has expired and never ran; of one that ran before it expired, the
        last run."""
        pause, most = LOOK_S
        async with asyncio.timeout(timeout):
            job = await self.get(ref)
            before = job.last_instance
            while not (job.active or job.state == "EXPIRED") and job.last_instance in (None, before):
                await asyncio.sleep(pause)
                pause = min(most, pause * 1.5)
                job = await self.get(job)
            if job.last_instance is None:
                raise ConflictError("illegal-transition", f"The job {job.id} has expired; it will not run.")
            return await Instances(self._transport).wait(job.last_instance)

    # ------------------------------------------------------------ doing

    async def run(self, ref: JobRef, *, params: Mapping[str, Any] | None = None, priority: int | None = None) -> Run:
        """Now, beside its schedule; `params` and `priority` for this run only."""
        body = {k: v for k, v in (("params", params), ("priority", priority)) if v is not None}
        return await self._transport.post(Run, f"{path_of(ref)}/run", body)

    async def pause(self, ref: JobRef, *, until: Moment | None = None, length: Duration | None = None) -> Job:
        """Not scheduled until it is resumed, by itself at the time `until`, or after `length`, where one of these is
        given; what runs goes on. A later pause replaces an earlier one."""
        return await self._transport.post(Job, f"{path_of(ref)}/pause", _lasting(until, length))

    async def resume(self, ref: JobRef) -> Job:
        """Schedules it again. What was missed meanwhile is not caught up; see `backfill`."""
        return await self._transport.post(Job, f"{path_of(ref)}/resume")

    async def expire(self, ref: JobRef, *, kill: bool = False) -> Job:
        """Never scheduled again; `kill` ends what runs."""
        return await self._transport.post(Job, f"{path_of(ref)}/expire", {"kill": kill})

    async def skip_next(self, ref: JobRef, at: Moment | None = None) -> Job:
        """`at`: the nominal time that is meant. Without it the next one is looked up first, so that a request that has
        to be sent again leaves out no second one."""
        if at is None:
            coming = (await self.next(ref, 1)).next
            at = coming[0].at if coming else None
        return await self._transport.post(Job, f"{path_of(ref)}/skip-next", {} if at is None else {"at": at})

    async def backfill(
        self, ref: JobRef, start: Moment, end: Moment | None = None, *, dry_run: bool = False
    ) -> Backfilled:
        """A run for each time from `start` on, to before `end` (now), that was not run."""
        body: dict[str, Any] = {"from": start, "dry_run": dry_run}
        if end is not None:
            body["to"] = end
        return await self._transport.post(Backfilled, f"{path_of(ref)}/backfill", body)

    async def set_state(self, ref: JobRef, state: Literal["SCHEDULED", "SUSPENDED", "EXPIRED"]) -> Job:
        """As `resume`, `pause` and `expire` do; in that state already it stays as it is."""
        path = f"{path_of(ref)}/state"
        if state == "EXPIRED":
            return (await self._transport.send("DELETE", path)).decoded(Job)
        return (await self._transport.send("PUT", path, body=encode({"state": state}))).decoded(Job)

    # ------------------------------------------------------------ many at a time

    async def act(
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
        body = {**_many(action, ids, all, filters, kill=kill), **_lasting(until, length)}
        operation = await self._transport.post(Operation, "/v1/jobs:actions", body)
        return Underway(Operations(self._transport), operation)

    async def dry_run(
        self, action: Action, *, ids: Sequence[str] | None = None, all: bool = False, **filters: Unpack[BulkFilter]
    ) -> DryRun:
        """Returns the number of jobs that `act` would change now, and some of them; nothing is done."""
        body = _many(action, ids, all, filters, dry_run=True)
        return await self._transport.post(DryRun, "/v1/jobs:actions", body)

    async def list(self, *, most: int | None = None, **filters: Unpack[JobFilter]) -> AsyncIterator[Job]:
        """`most` of them (None: all), page after page; what is made or deleted meanwhile may be in it or not."""
        async for page in pages(self._transport, Job, "/v1/jobs", filters, most):
            for job in page:
                yield job

    async def list_fields(
        self, *fields: str, most: int | None = None, **filters: Unpack[JobFilter]
    ) -> AsyncIterator[dict[str, Any]]:
        """Gives only these fields of each, as JSON has them: a hundred thousand jobs are light then. InvalidError names
        the fields that there are."""
        async for page in pages(self._transport, dict[str, Any], "/v1/jobs", part_of(fields, filters), most):
            for job in page:
                yield job


def _only(version: JobVersion | None) -> dict[str, str]:
    """Returns the headers that let a change happen only to this version of a job; None: to any."""
    if version is None or isinstance(version, int):
        return condition(version)
    return condition(f"{version.id}.{version.revision}")


def _lasting(until: Moment | None, length: Duration | None) -> dict[str, Any]:
    """Returns what a request says of how long a pause lasts."""
    return {name: value for name, value in (("until", until), ("for", length)) if value is not None}


class _State(msgspec.Struct):
    state: JobState


def _many(
    action: Action, ids: Sequence[str] | None, all: bool, filters: Mapping[str, Any], **more: bool
) -> dict[str, Any]:
    body: dict[str, Any] = {"action": action, **{name: True for name, said in more.items() if said}}
    if ids is not None:
        body["ids"] = [*ids]
    if filters:
        body["filter"] = filters
    if all:
        body["all"] = True
    return body
