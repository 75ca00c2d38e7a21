"""Tools that change something. Who may do it is decided by the cluster, by the role of the token."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from raftsched.cli.mcp.bounded import hidden_place
from raftsched.cli.mcp.tools import Arguments, JobRef, RunRef, Text, TimeArg, found_job, tool
from raftsched.client.aio import AsyncClient
from raftsched.client.errors import ClientError
from raftsched.client.models_generated import Job
from raftsched.client.refs import job_path
from raftsched.client.wire import said
from raftsched.security.shown import HIDDEN
from raftsched.surface import dead_letters, job_actions, jobs, runs

REQUEUE_MAX = 100  # dead letters at once
_SHOWN = ("id", "name", "namespace", "state", "revision", "next_fire_at", "resumes_at")  # of a job that was changed

Content = Annotated[dict[str, Any], Meta(description="as in the API: name, namespace, trigger, handler, ...")]
Revision = Annotated[int, Meta(ge=0, le=2**53, description="only while the job has this revision, as get_job shows it")]
DryRun = Annotated[bool, Meta(description="only check it, and change nothing")]


def _whole(value: Any, what: str) -> Any:
    """Returns the value. Raises ValueError where something in it is hidden, and would replace what is there."""
    place = hidden_place(value)
    if place is not None:
        raise ValueError(
            f"{what}{place} has {HIDDEN}, which stands for what is not shown here. Refer to a secret of the cluster, "
            "leave the field out, or change the job with `raftsched jobs edit`"
        )
    return value


def _brief(job: Any) -> dict[str, Any]:
    row = job if isinstance(job, dict) else msgspec.json.decode(msgspec.json.encode(job))
    return {name: row[name] for name in _SHOWN if row.get(name) is not None}


class CreateJob(Arguments):
    job: Content
    dry_run: DryRun = False


@tool(jobs.CREATE, jobs.CHECK_NEW, title="Create a job", writes=True)
async def create_job(client: AsyncClient, given: CreateJob) -> Any:
    """Creates a job. With dry_run it only says what would be created, in words and with the next times. Where a job of
    this name is there with the same content, it is answered as it is; with another content this is refused."""
    spec = _whole(given.job, "job")
    if given.dry_run:
        return await client.transport.post(dict[str, Any], jobs.CHECK_NEW.path, spec)
    made = await client.jobs.create(cast(Any, spec))
    return {**_brief(made), "created": made.created, "warnings": [warning.detail for warning in made.warnings]}


class EditJob(Arguments):
    job: JobRef
    changes: Annotated[
        dict[str, Any], Meta(description="a merge patch (RFC 7396); trigger and handler are replaced whole")
    ]
    revision: Revision | None = None
    dry_run: DryRun = False


@tool(jobs.GET, jobs.PATCH, jobs.CHECK_CHANGE, title="Edit a job", writes=True, destroys=True)
async def edit_job(client: AsyncClient, given: EditJob) -> Any:
    """Changes a job: fields that are given are replaced, null takes one out. With dry_run it only says what the job
    would be. It is refused where somebody else changed the job meanwhile."""
    changes = _whole(given.changes, "changes")
    job = await _at(client, given.job, given.revision)
    if given.dry_run:
        return await client.transport.post(dict[str, Any], job_path(job["id"], jobs.CHECK_CHANGE.path), changes)
    return _brief(await client.jobs.patch(job["id"], changes, if_match=job["revision"]))


class DeleteJob(Arguments):
    job: JobRef
    revision: Revision | None = None


@tool(jobs.GET, jobs.DELETE, title="Delete a job", writes=True, destroys=True)
async def delete_job(client: AsyncClient, given: DeleteJob) -> Any:
    """Deletes a job for good. Its runs that are under way are asked to end."""
    job = await _at(client, given.job, given.revision)
    gone = await client.jobs.delete(job["id"], if_match=job["revision"])
    return {**_brief(job), "state": "deleted", "runs_asked_to_end": gone.ending}


async def _at(client: AsyncClient, ref: str, revision: int | None) -> dict[str, Any]:
    """Returns the job. Raises ClientError where it has another revision."""
    job = await found_job(client, ref)
    if revision is not None and job["revision"] != revision:
        said = f"the job has revision {job['revision']}, not {revision}: read it again"
        raise ClientError("stale-revision", said, status=412)
    return job


class RunJob(Arguments):
    job: JobRef
    params: Annotated[dict[str, Any], Meta(description="of this run, instead of the job's")] | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None


@tool(jobs.GET, job_actions.RUN, title="Run a job now", writes=True)
async def run_job(client: AsyncClient, given: RunJob) -> Any:
    """Starts a run of a job now, beside its schedule, and answers with the id of the run; it does not wait for its
    end."""
    params = _whole(given.params, "params")
    job = await found_job(client, given.job)
    run = await client.jobs.run(job["id"], params=params, priority=given.priority)
    return {"run": run.id, "job_id": run.job_id}


class PauseJob(Arguments):
    job: JobRef
    until: TimeArg | None = None
    for_: Annotated[Text, Meta(description="a duration such as 2h, instead of `until`")] | None = msgspec.field(
        default=None, name="for"
    )


@tool(jobs.GET, job_actions.PAUSE, title="Pause a job", writes=True, repeatable=True)
async def pause_job(client: AsyncClient, given: PauseJob) -> Any:
    """Keeps a job from being scheduled, until it is resumed or up to a time. What runs goes on."""
    job = await found_job(client, given.job)
    body = said({"until": given.until, "for": given.for_})
    return _brief(await client.transport.post(Job, job_path(job["id"], job_actions.PAUSE.path), body))


class ResumeJob(Arguments):
    job: JobRef


@tool(jobs.GET, job_actions.RESUME, title="Resume a job", writes=True, repeatable=True)
async def resume_job(client: AsyncClient, given: ResumeJob) -> Any:
    """Schedules a paused job again. What was missed meanwhile is not caught up."""
    return _brief(await client.jobs.resume((await found_job(client, given.job))["id"]))


class KillRun(Arguments):
    run: RunRef


@tool(runs.KILL, title="End a run", writes=True, destroys=True, repeatable=True)
async def kill_run(client: AsyncClient, given: KillRun) -> Any:
    """Asks a run to end; one that has not started is ended at once."""
    run = await client.instances.kill(given.run)
    return {"run": run.id, "state": run.state, "kill_asked": run.kill_asked}


class RetryDeadLetters(Arguments):
    runs: Annotated[
        list[RunRef], Meta(min_length=1, max_length=REQUEUE_MAX, description=f"their ids, {REQUEUE_MAX} at most")
    ]


@tool(dead_letters.REQUEUE, title="Retry dead letters", writes=True)
async def retry_dead_letters(client: AsyncClient, given: RetryDeadLetters) -> Any:
    """Runs dead letters again, with the job as it is now and all of its retries."""
    sweep = await client.dead_letters.requeue(given.runs)
    refused = [{"run": one.id, "code": one.code, "detail": one.detail} for one in sweep.refused]
    return {"requeued": sweep.done, "refused": refused}


WRITES = (create_job, edit_job, delete_job, run_job, pause_job, resume_job, kill_run, retry_dead_letters)
