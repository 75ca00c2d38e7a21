"""Actions on a job: pause, resume, run, expire, skip the next run; and its state, to be read and put."""

from __future__ import annotations

from typing import Literal

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import within
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.answers import JobStateShown, RunMade
from raftsched.api.http.idempotency import UNNAMED, Named, conditions, done_before, named, propose_once, under
from raftsched.api.http.problems import FieldError, Problem, from_rejected
from raftsched.api.http.replies import job_of, propose_one, reply_fields, reply_job
from raftsched.api.http.requests import (
    READ,
    Query,
    catch_up,
    check_type,
    fresh_enough,
    if_match,
    job_id_of,
    optional_json,
    read_body,
)
from raftsched.api.jobs.render import never_fires
from raftsched.api.jobs.rules import check_run, encode_params
from raftsched.api.jobs.schema import ExpireIn, Nothing, RunIn, SkipNextIn, StateIn
from raftsched.api.jobs.targets import target_job
from raftsched.api.jobs.triggers import time_of
from raftsched.api.openapi.operation import BODIES, WRITES, Reply, operation
from raftsched.api.openapi.types import JOB
from raftsched.api.rows import get_job, requested_job
from raftsched.core.commands import Accepted, RunNow, SetJobState, SkipNext, encode
from raftsched.core.ids import instance_text, job_text
from raftsched.core.limits import RUN_MAX
from raftsched.core.model import Job, JobState
from raftsched.core.references import may_refer, missing, references_in

BODY_MAX = 4_096  # bytes, of what takes a word or two
SKIP_TRIES = 5
SKIP_WAIT_S = 0.5


class _Said(msgspec.Struct):
    """The fields of Job.body that a run needs."""

    handler: msgspec.Raw


_CHANGES = (*BODIES, *WRITES, "illegal-transition", "stale-revision")
_POSTS = (*_CHANGES, "idempotency-mismatch")

_nothing = msgspec.json.Decoder(Nothing)
_expire = msgspec.json.Decoder(ExpireIn)
_run = msgspec.json.Decoder(RunIn)
_skip = msgspec.json.Decoder(SkipNextIn)
_body = msgspec.json.Decoder(_Said)
_state = msgspec.json.Decoder(StateIn)


@operation(
    "Pause a job",
    {200: Reply(JOB, "As it is now.", ("ETag",))},
    headers=("Idempotency-Key", "If-Match"),
    body=Nothing,
    body_required=False,
    codes=_POSTS,
    role="editor",
    scope="checked",
)
async def pause(ctx: ApiContext, request: web.Request) -> web.Response:
    """A job that is NEW was never scheduled and stays NEW: there is nothing to pause, and that is answered with 200."""
    await read_nothing(request)
    return await _post(ctx, request, "pause", JobState.SUSPENDED)


@operation(
    "Resume a job",
    {200: Reply(JOB, "As it is now.", ("ETag",))},
    headers=("Idempotency-Key", "If-Match"),
    body=Nothing,
    body_required=False,
    codes=_POSTS,
    role="editor",
    scope="checked",
)
async def resume(ctx: ApiContext, request: web.Request) -> web.Response:
    await read_nothing(request)
    return await _post(ctx, request, "resume", JobState.SCHEDULED)


@operation(
    "Expire a job for good",
    {200: Reply(JOB, "As it is now.", ("ETag",))},
    headers=("Idempotency-Key", "If-Match"),
    body=ExpireIn,
    body_required=False,
    codes=_POSTS,
    role="editor",
    scope="checked",
)
async def expire(ctx: ApiContext, request: web.Request) -> web.Response:
    raw = await optional_json(request, BODY_MAX)
    given = strict.read(raw, ExpireIn, _expire, "invalid-body")
    return await _post(ctx, request, "expire", JobState.EXPIRED, raw, kill=given.kill)


@operation(
    "Run a job now",
    {202: Reply(RunMade, "An instance was made.", ("Location",), leads_to="/v1/instances/{id}")},
    headers=("Idempotency-Key",),
    body=RunIn,
    body_required=False,
    codes=(*BODIES, *WRITES, "illegal-transition", "idempotency-mismatch", "too-many"),
    role="editor",
    scope="checked",
    work=True,
)
async def run(ctx: ApiContext, request: web.Request) -> web.Response:
    """A manual run. With an Idempotency-Key it may be sent again (keys.py)."""
    raw = await optional_json(request, ctx.settings().body_max_bytes)
    Query(request)
    anywhere = "name" not in request.match_info and within() is None
    job_id = job_id_of(request) if anywhere else (await target_job(ctx, request)).id
    name = named(request, "run", job_text(job_id).encode(), raw)
    accepted = done_before(ctx, name) or await _propose_run(ctx, job_id, raw, name)
    assert accepted.instance is not None
    made = instance_text(accepted.instance)
    return reply_fields({"id": made, "job_id": job_text(job_id)}, 202, {"Location": f"/v1/instances/{made}"})


async def _propose_run(ctx: ApiContext, job_id: int, raw: bytes, name: Named) -> Accepted:
    settings = ctx.settings()
    given = strict.read(raw, RunIn, _run, "invalid-body")
    params = None
    if given.params is not None:
        errors: list[FieldError] = []
        params = encode_params(given.params, settings, errors)
        if not errors and len(params) + settings.body_max_bytes > RUN_MAX:
            _fits(ctx, job_id, params, errors)
        if not errors and may_refer(params):
            errors += await _missing(ctx, job_id, params)
        if errors:
            raise Problem("invalid-body", errors=errors)
    number = ctx.rng.getrandbits(64) or 1  # tells it from other runs of the same millisecond
    return await propose_one(ctx, encode(RunNow(job_id, number, params, given.priority, name.key, name.digest)))


def _fits(ctx: ApiContext, job_id: int, params: bytes, errors: list[FieldError]) -> None:
    with ctx.read() as view:
        job = get_job(view, job_id)
    handler = 0 if job is None else len(bytes(_body.decode(job.body).handler))  # apply says that there is no job
    check_run(handler, len(params), errors)


async def _missing(ctx: ApiContext, job_id: int, params: bytes) -> list[FieldError]:
    """Returns a warning for each secret that the params of a run refer to and that does not exist. A run fails when
    that is still so at its start."""
    for attempt in range(2):
        with ctx.read() as view:
            job = get_job(view, job_id)
            if job is None:
                return []
            found = list(missing(view, job.namespace, references_in(job.namespace, params)))
        if not found or attempt:
            break
        await catch_up(ctx)
    return [FieldError(reference.pointer, why) for reference, why in found]


@operation(
    "Skip the next run",
    {200: Reply(JOB, "As it is now.", ("ETag",))},
    headers=("Idempotency-Key", "If-Match"),
    body=SkipNextIn,
    body_required=False,
    codes=(*_POSTS, "not-next"),
    role="editor",
    scope="checked",
)
async def skip_next(ctx: ApiContext, request: web.Request) -> web.Response:
    """The next time is left out; with `at` only that one, so that a repeat leaves out no other. With an Idempotency-Key
    it may be sent again as well (keys.py)."""
    raw = await optional_json(request, BODY_MAX)
    given = strict.read(raw, SkipNextIn, _skip, "invalid-body")
    Query(request)
    errors: list[FieldError] = []
    at_ms = time_of(given.at, "/at", errors)
    if errors:
        raise Problem("invalid-body", errors=errors)
    job = await target_job(ctx, request)
    name = named(request, "skip-next", job_text(job.id).encode(), raw, conditions(request))
    done = done_before(ctx, name)
    if done is not None:
        return reply_job(ctx, job_of(done))
    for _ in range(SKIP_TRIES):
        revision = if_match(request)
        if revision is not None and revision != job.revision:
            raise Problem("stale-revision", f"The job is at revision {job.revision} now; read it again.")
        nominal_ms = job.nominal_at_ms if at_ms is None else at_ms
        if nominal_ms is not None:
            command = under(name, SkipNext(job.id, nominal_ms))
            answer = (await ctx.propose((command,), ctx.propose_timeout_s))[0]
            if isinstance(answer, Accepted):
                return reply_job(ctx, job_of(answer))
            if answer.code != "not-next" or at_ms is not None:
                raise from_rejected(answer)
        elif job.never_fires:
            raise Problem("illegal-transition", f"The job has no next time: {never_fires(job)}")
        elif job.state is not JobState.SCHEDULED or not job.policy.trigger.needs_calendar:
            why = "a run of it is active" if job.active else f"it is {job.state.name}"
            raise Problem("illegal-transition", f"The job has no next time at the moment: {why}.")
        await catch_up(ctx)  # the leader is about to say when a calendar job is due
        await ctx.log.wait_applied(ctx.cluster.status().applied_index + 1, SKIP_WAIT_S)
        job = await target_job(ctx, request)
    raise Problem("illegal-transition", "The next time of the job is not known yet; try again.")


async def read_nothing(request: web.Request) -> None:
    """A body is not needed; an empty object is welcome."""
    strict.read(await optional_json(request, BODY_MAX), Nothing, _nothing, "invalid-body")


async def _post(
    ctx: ApiContext, request: web.Request, kind: str, state: JobState, raw: bytes = b"", *, kill: bool = False
) -> web.Response:
    """With an Idempotency-Key it may be sent again (keys.py)."""
    Query(request)
    job = await target_job(ctx, request)
    name = named(request, kind, job_text(job.id).encode(), raw, conditions(request))
    return await _set(ctx, request, job, state, name, kill=kill)


async def _set(
    ctx: ApiContext, request: web.Request, job: Job, state: JobState, name: Named = UNNAMED, *, kill: bool = False
) -> web.Response:
    command = SetJobState(job.id, state, kill, if_match(request))
    return reply_job(ctx, job_of(await propose_once(ctx, name, command)))


# ---------------------------------------------------------------- as a state


@operation(
    "Read the state of a job",
    {200: Reply(JobStateShown, "Its state.", ("ETag",))},
    query=READ,
    role="viewer",
    scope="checked",
)
async def get_state(ctx: ApiContext, request: web.Request) -> web.Response:
    await fresh_enough(ctx, Query(request, *READ))
    with ctx.read() as view:
        job = requested_job(view, request)
    return reply_fields({"state": job.state.name}, headers={"ETag": f'"{job.revision}"'})


@operation(
    "Set the state of a job",
    {200: Reply(JOB, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    body=StateIn | Literal["SCHEDULED", "SUSPENDED"],
    codes=_CHANGES,
    role="editor",
    scope="checked",
)
async def put_state(ctx: ApiContext, request: web.Request) -> web.Response:
    """{"state": "SCHEDULED"} or {"state": "SUSPENDED"}; the bare string will do. NEW stays NEW, as with `pause`."""
    check_type(request)
    raw = await read_body(request, BODY_MAX)
    if raw.lstrip()[:1] == b'"':
        raw = b'{"state":' + raw + b"}"
    given = strict.read(raw, StateIn, _state, "invalid-body")
    if given.state is None:
        raise Problem("invalid-body", errors=[FieldError("/state", 'is missing; give "SCHEDULED" or "SUSPENDED"')])
    return await _set(ctx, request, await target_job(ctx, request), JobState[given.state])


@operation(
    "Expire a job for good",
    {200: Reply(JOB, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    codes=_CHANGES,
    role="editor",
    scope="checked",
)
async def delete_state(ctx: ApiContext, request: web.Request) -> web.Response:
    await read_nothing(request)
    return await _set(ctx, request, await target_job(ctx, request), JobState.EXPIRED)
