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
from raftsched.client.encoding import encode
from raftsched.client.errors import ClientError, ConflictError
from raftsched.client.generated import (
    explain_calls,
    forecast_calls,
    job_actions_calls,
    jobs_calls,
    read_states,
    runs_calls,
    schedules_calls,
    statistics_calls,
)
from raftsched.client.generated.bulk import BulkFilter, DryRun, Operation
from raftsched.client.generated.enums import Action
from raftsched.client.generated.graph import Graph
from raftsched.client.generated.jobs import Checked, Deleted, JobFilter
from raftsched.client.generated.runs import Instance
from raftsched.client.generated.states import JobState
from raftsched.client.instances import Instances
from raftsched.client.models import Created
from raftsched.client.models_generated import Job
from raftsched.client.moments import Duration, Moment
from raftsched.client.operations import Operations, Underway
from raftsched.client.pages import each_of, part_of
from raftsched.client.refs import JobRef, JobVersion, id_of, job_condition, job_path
from raftsched.client.spec_generated import JobSpec
from raftsched.client.transport import Transport
from raftsched.client.wire import said
from raftsched.surface.plain import bulk, graph, job_actions, jobs

AT_ONCE = 2_000  # creates of one create_many at a time
LOOK_S = (0.05, 1.0)  # between two looks at a job that is waited for: first, most


class Jobs(
    explain_calls.JobsCalls,
    runs_calls.JobsCalls,
    statistics_calls.JobsCalls,
    jobs_calls.JobsCalls,
    job_actions_calls.JobsCalls,
    schedules_calls.JobsCalls,
    forecast_calls.JobsCalls,
):
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

    async def check(self, job: JobSpec | None = None, /, **fields: Unpack[JobSpec]) -> Checked:
        """Returns what `create` would make. Raises what it would raise, and makes nothing."""
        return await self._transport.post(Checked, jobs.CHECK_NEW, {**(job or {}), **fields})

    async def delete(self, ref: JobRef, *, if_match: JobVersion | None = None) -> Deleted:
        """Its runs that are under way are asked to end; its name is free again. `if_match` as in `put`."""
        answer = await self._transport.send("DELETE", job_path(ref), headers=job_condition(if_match))
        return answer.decoded(Deleted) if answer.body else Deleted()

    # ------------------------------------------------------------ looking

    async def graph(self, *, job: JobRef | None = None, namespace: str | None = None) -> Graph:
        """Which jobs follow which: around one, of a namespace, or (None) all."""
        name = None if job is None else id_of(job)
        return await self._transport.get(Graph, graph.GRAPH, {"job": name, "namespace": namespace})

    async def state(self, ref: JobRef) -> JobState:
        return (await self._transport.get(_State, job_path(ref, job_actions.GET_STATE))).state

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

    async def skip_next(self, ref: JobRef, at: Moment | None = None) -> Job:
        """`at`: the nominal time that is meant. Without it the next one is looked up first, so that a request that has
        to be sent again leaves out no second one."""
        if at is None:
            coming = (await self.next(ref, 1)).next
            at = coming[0].at if coming else None
        return await self._transport.post(Job, job_path(ref, job_actions.SKIP_NEXT), said({"at": at}))

    async def set_state(self, ref: JobRef, state: Literal["SCHEDULED", "SUSPENDED", "EXPIRED"]) -> Job:
        """As `resume`, `pause` and `expire` do; in that state already it stays as it is."""
        path = job_path(ref, job_actions.PUT_STATE)
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
        body = {**_many(action, ids, all, filters, kill=kill), **said({"until": until, "for": length})}
        operation = await self._transport.post(Operation, bulk.ACT, body)
        return Underway(Operations(self._transport), operation)

    async def dry_run(
        self, action: Action, *, ids: Sequence[str] | None = None, all: bool = False, **filters: Unpack[BulkFilter]
    ) -> DryRun:
        """Returns the number of jobs that `act` would change now, and some of them; nothing is done."""
        body = _many(action, ids, all, filters, dry_run=True)
        return await self._transport.post(DryRun, bulk.ACT, body)

    async def list_fields(
        self, *fields: str, most: int | None = None, **filters: Unpack[JobFilter]
    ) -> AsyncIterator[dict[str, Any]]:
        """Gives only these fields of each, as JSON has them: a hundred thousand jobs are light then. InvalidError names
        the fields that there are."""
        async for job in each_of(self._transport, dict[str, Any], jobs.LIST, part_of(fields, filters), most):
            yield job


class _State(msgspec.Struct):
    state: read_states.JobState


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
