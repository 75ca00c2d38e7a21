"""/v1/jobs and /v1/namespaces/{ns}/jobs/{name}: create, read, replace, patch, delete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.idempotency import done_before
from raftsched.api.http.merging import merge, merge_retry
from raftsched.api.http.problems import FieldError, Problem, of_a_change, pointer
from raftsched.api.http.replies import job_of, propose_one, reply_job, reply_value, reply_written
from raftsched.api.http.requests import catch_up
from raftsched.api.jobs.parse import Content, DefaultsLookup, create_command, read_job, read_plain
from raftsched.api.jobs.render import etag
from raftsched.api.jobs.resolving import refresh_defaults, retry_on_stale_defaults
from raftsched.api.jobs.rules import PARTS_ONE_WAY
from raftsched.api.jobs.targets import change_target, check_tag, target_job
from raftsched.api.resources.amending import amend
from raftsched.api.resources.webhooks_seen import Find, check_notify
from raftsched.api.rows import get_named, requested_job
from raftsched.api.serving import serves
from raftsched.bounds import LABELS_MAX
from raftsched.core.commands import Accepted, DeleteJob, EditJob, encode
from raftsched.core.model import Job
from raftsched.surface import jobs
from raftsched.surface.content import MisfireIn, NotifyIn, PlacementIn, RetentionIn, RetryIn
from raftsched.surface.job_shapes import READ_ONLY
from raftsched.surface.jobs_generated import JobIn

_WHOLE = ("trigger", "handler")  # replaced whole by PATCH: merging would leave two of them
_FIELDS = frozenset(JobIn.__struct_encode_fields__)
_NESTED = {
    "notify": frozenset(NotifyIn.__struct_encode_fields__),
    "retry": frozenset(RetryIn.__struct_encode_fields__),
    "misfire": frozenset(MisfireIn.__struct_encode_fields__),
    "placement": frozenset(PlacementIn.__struct_encode_fields__),
    "retention": frozenset(RetentionIn.__struct_encode_fields__),
}


@serves(jobs.CREATE)
async def create(ctx: ApiContext, call: Call[Any]) -> web.Response:  # in its plainest form: see http/fastpath.py
    settings = ctx.settings()
    raw, if_none = call.raw, call.create_only
    name = call.key("create", raw, b"*" if if_none else b"")
    accepted = done_before(ctx, name)
    if accepted is None:

        async def write() -> Accepted:
            content = read_job(raw, settings, ctx.now_ms(), ctx.defaults_of)
            await check_notify(ctx, content)
            command = create_command(content, if_none=if_none, key=name.key, digest=name.digest)
            return await propose_one(ctx, command)

        accepted = await retry_on_stale_defaults(ctx, write)
    return reply_written(ctx, job_of(accepted), created=accepted.created)


@serves(jobs.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    with ctx.read() as view:
        job = requested_job(view, call)
    if call.not_modified(etag(job)):
        return web.Response(status=304, headers={"ETag": etag(job)})
    return reply_job(ctx, job)


@serves(jobs.PUT)
async def put(ctx: ApiContext, call: Call[Any]) -> web.Response:
    job = await target_job(ctx, call)
    call.must_not_exist()

    async def write() -> web.Response:
        settings, kept = ctx.settings(), job.policy
        content = read_job(call.raw, settings, ctx.now_ms(), ctx.defaults_of, job.namespace, kept=kept, tolerant=True)
        _check_not_moved(content, job)
        await check_notify(ctx, content, _as_is(job))
        return await _edit(ctx, job, content, call.if_match, content.name or job.name)

    return await retry_on_stale_defaults(ctx, write)


@serves(jobs.PUT_NAMED)
async def put_named(ctx: ApiContext, call: Call[Any]) -> web.Response:
    if call.must_exist:
        return await _replace_named(ctx, call)
    return await retry_on_stale_defaults(ctx, lambda: _put_named(ctx, call))


async def _put_named(ctx: ApiContext, call: Call[Any]) -> web.Response:
    content = await _named_content(ctx, call, _named(ctx, call))
    # Whether there is one the log alone says: what is read here may be deleted.
    accepted = await propose_one(ctx, create_command(content, replace=True, if_none=call.create_only))
    return reply_written(ctx, job_of(accepted), created=accepted.created)


async def _replace_named(ctx: ApiContext, call: Call[Any]) -> web.Response:
    """A job that is deleted, or loses the name, after it was looked up is not the one that is meant: the name is looked
    up again."""

    async def read() -> Job:
        job = _named(ctx, call)
        if job is None:
            raise Problem("stale-revision", "If-Match was given, but the job does not exist; leave it out to create.")
        return check_tag(call, job)

    async def command(job: Job) -> bytes:
        content = await _named_content(ctx, call, job)
        call.must_not_exist()
        return encode(
            EditJob(job.id, content.policy, content.body, job.revision, job.name, content.defaults, content.suspended)
        )

    await catch_up(ctx)
    try:
        done = await amend(ctx, "The job", read, call.if_match, command, again=refresh_defaults)
    except Problem as problem:
        if problem.code == "stale-revision":  # what is wrong with the body comes first, as by id
            await _named_content(ctx, call, _named(ctx, call))
        raise
    return reply_written(ctx, job_of(done))


def _named(ctx: ApiContext, call: Call[Any]) -> Job | None:
    namespace, name = call.path["ns"], call.path["name"]
    if not names.JOB.allows(name) or not names.NAMESPACE.allows(namespace):
        return None
    with ctx.read() as view:
        return get_named(view, namespace, name)


async def _named_content(ctx: ApiContext, call: Call[Any], job: Job | None) -> Content:
    """Returns what the body says of the job that the address names. `job`: as it is until now."""
    namespace, name = call.path["ns"], call.path["name"]
    kept = None if job is None else job.policy
    content = read_job(call.raw, ctx.settings(), ctx.now_ms(), ctx.defaults_of, namespace, kept=kept, tolerant=True)
    identify(content, namespace, name)
    await check_notify(ctx, content, lambda view: get_named(view, namespace, name))
    return content


@serves(jobs.PATCH)
async def patch(ctx: ApiContext, call: Call[Any]) -> web.Response:
    change = call.json()
    if call.create_only:
        await target_job(ctx, call)
        call.must_not_exist()

    async def command(job: Job) -> bytes:
        content = patched(ctx, job, change, ctx.defaults_of)
        await check_notify(ctx, content, _as_is(job))
        return encode(EditJob(job.id, content.policy, content.body, job.revision, content.name, content.defaults))

    done = await amend(ctx, "The job", lambda: target_job(ctx, call), call.if_match, command, again=refresh_defaults)
    return reply_written(ctx, job_of(done))


def patched(ctx: ApiContext, job: Job, change: Any, lookup: DefaultsLookup) -> Content:
    """Returns the content of the job with the change merged in. Raises Problem invalid-job, invalid-trigger."""
    if not isinstance(change, dict):
        raise Problem("invalid-job", errors=[FieldError("", "must be an object with the fields to change")])
    errors = [*(FieldError(place, detail) for place, detail in _unknown_nulls(change)), *_wrong_by_itself(change)]
    if errors:
        raise Problem("invalid-job", errors=errors)
    given = msgspec.json.decode(job.body)
    given["name"] = job.name
    whole = {key: given.pop(key, None) for key in _WHOLE}
    whole.update({key: change[key] for key in _WHOLE if key in change})
    merged = merge(merge_retry(given, change), {k: v for k, v in change.items() if k not in _WHOLE})
    _drop_replaced_trigger(whole, merged, change)
    not_given = frozenset(key for key, value in change.items() if value is None or key in ("trigger", "triggers"))
    kept = job.policy
    with of_a_change():
        content = read_plain({**merged, **whole}, ctx.settings(), ctx.now_ms(), lookup, job.namespace, kept, not_given)
    _check_not_moved(content, job)
    return content


def _drop_replaced_trigger(whole: dict[str, Any], merged: dict[str, Any], change: dict[str, Any]) -> None:
    """A job has a trigger, or several: the one that is given replaces the other."""
    if change.get("triggers") and "trigger" not in change:
        whole["trigger"] = None
    elif change.get("trigger") is not None:
        for name in ("triggers", "max_runs"):
            if name not in change:
                merged.pop(name, None)


def _wrong_by_itself(change: dict[str, Any]) -> Iterator[FieldError]:
    """Yields what no job makes right that the change is merged into: the description refuses the change."""
    if "handler" in change and change["handler"] is None:
        yield FieldError("/handler", "is null; a job needs one, so give it whole or leave it out")
    labels = {"/labels": change.get("labels")}
    placement = change.get("placement")
    if isinstance(placement, dict):
        labels |= {f"/placement/{name}": placement.get(name) for name in ("labels", "prefer")}
        if placement.get("on") is not None and placement.get("shards") is not None:
            yield FieldError("/placement/shards", PARTS_ONE_WAY)
    for at, given in labels.items():
        count = sum(value is not None for value in given.values()) if isinstance(given, dict) else 0
        if count > LABELS_MAX:
            yield FieldError(at, f"has {count} labels; at most {LABELS_MAX} are allowed")


def _unknown_nulls(change: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """null takes a field out; of what is no field that would go unnoticed."""
    places = [("", change, _FIELDS)]
    places += [(f"/{key}", change[key], known) for key, known in _NESTED.items() if isinstance(change.get(key), dict)]
    for at, part, known in places:
        for key in part:
            if part[key] is None and key not in known:
                if not at and key in READ_ONLY:
                    detail = "is set by the cluster; leave it out"
                else:
                    detail = f"is not a known field; known are {', '.join(sorted(known))}"
                yield at + pointer(key[:128]), detail


@serves(jobs.DELETE)
async def delete(ctx: ApiContext, call: Call[None]) -> web.Response:
    job = await target_job(ctx, call)
    call.must_not_exist()
    done = await change_target(ctx, call, job, lambda job, revision: encode(DeleteJob(job.id, revision)))
    return reply_value(jobs.JobDeleted(deleted=1, ending=job_of(done).active))


async def _edit(ctx: ApiContext, job: Job, content: Content, revision: int | None, name: str | None) -> web.Response:
    command = EditJob(job.id, content.policy, content.body, revision, name, content.defaults)
    return reply_written(ctx, job_of(await propose_one(ctx, encode(command))))


def _as_is(job: Job) -> Find:
    return lambda view: job


def _check_not_moved(content: Content, job: Job) -> None:
    """Refuses an edit that would move the job to another namespace, or suspend it. Raises Problem invalid-job."""
    errors = []
    if content.namespace is not None and content.namespace != job.namespace:
        errors.append(FieldError("/namespace", f'is fixed; the job is in "{job.namespace}"', "inconsistent"))
    if content.suspended:
        errors.append(FieldError("/suspended", "is for creation; POST to /pause or /resume of the job instead"))
    if errors:
        raise Problem("invalid-job", errors=errors)


def identify(content: Content, namespace: str, name: str) -> None:
    """The address names the job; the body may repeat it."""
    errors = []
    if content.namespace is not None and content.namespace != namespace:
        errors.append(
            FieldError("/namespace", f'differs from the address, which says "{namespace[:64]}"', "inconsistent")
        )
    if content.name is not None and content.name != name:
        errors.append(FieldError("/name", f'differs from the address, which says "{name[:128]}"', "inconsistent"))
    if not names.NAMESPACE.allows(namespace):
        errors.append(FieldError("/namespace", f"in the address: use {names.NAMESPACE.rule}"))
    if not names.JOB.allows(name):
        errors.append(FieldError("/name", f"in the address: use {names.JOB.rule}"))
    if errors:
        raise Problem("invalid-job", errors=errors)
    content.namespace, content.name = namespace, name
