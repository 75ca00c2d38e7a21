"""Actions on a job: pause, resume, run, expire, skip the next run; and its state, to be read and put."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import within
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.call import Call, read_no_body
from raftsched.api.http.idempotency import UNNAMED, Named, done_before, under
from raftsched.api.http.problems import FieldError, Problem, from_rejected
from raftsched.api.http.replies import job_of, propose_one, reply_fields, reply_job
from raftsched.api.http.requests import catch_up, job_id_of
from raftsched.api.jobs.render import etag, never_fires
from raftsched.api.jobs.rules import check_run, encode_params
from raftsched.api.jobs.targets import change_target, target_job
from raftsched.api.jobs.triggers import time_of, until_of
from raftsched.api.rows import get_job, requested_job
from raftsched.api.serving import serves
from raftsched.core.commands import Accepted, RunNow, SetJobState, SkipNext, encode
from raftsched.core.ids import instance_text, job_text
from raftsched.core.limits import RUN_MAX
from raftsched.core.model import FINAL, InstanceState, Job, JobState
from raftsched.core.rows import decode_instance
from raftsched.core.rules.references import may_refer, missing, references_in
from raftsched.core.tables import Table, after, from_by_job, u64
from raftsched.errors import RaftschedError
from raftsched.surface import job_actions, runs
from raftsched.surface.scalars import Nothing
from raftsched.templates import TEMPLATE, wrong_in

SKIP_TRIES = 5
SKIP_WAIT_S = 0.5
ACTIVE_LOOK_MAX = 100  # runs that are looked at for one that is active


class _Said(msgspec.Struct):
    """The fields of Job.body that a run needs."""

    handler: msgspec.Raw


_body = msgspec.json.Decoder(_Said)
_state = msgspec.json.Decoder(job_actions.StateIn)


@serves(job_actions.PAUSE)
async def pause(ctx: ApiContext, call: Call[job_actions.PauseIn]) -> web.Response:
    errors: list[FieldError] = []
    resume_at_ms = until_of(call.body.until, call.body.for_, ctx.now_ms(), errors)
    if errors:
        raise Problem("invalid-body", errors=errors)
    raw = b"" if resume_at_ms is None else call.raw
    return await _post(ctx, call, "pause", JobState.SUSPENDED, raw, resume_at_ms=resume_at_ms)


@serves(job_actions.RESUME)
async def resume(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    return await _post(ctx, call, "resume", JobState.SCHEDULED)


@serves(job_actions.EXPIRE)
async def expire(ctx: ApiContext, call: Call[job_actions.ExpireIn]) -> web.Response:
    return await _post(ctx, call, "expire", JobState.EXPIRED, call.raw, kill=call.body.kill)


@serves(job_actions.RUN)
async def run(ctx: ApiContext, call: Call[job_actions.RunIn]) -> web.Response:
    anywhere = "name" not in call.path and within() is None
    job_id = job_id_of(call) if anywhere else (await target_job(ctx, call)).id
    name = call.key("run", job_text(job_id).encode(), call.raw)
    accepted = done_before(ctx, name) or await _propose_run(ctx, job_id, call.body, name)
    assert accepted.instance is not None
    made = instance_text(accepted.instance)
    return reply_fields({"id": made, "job_id": job_text(job_id)}, 202, {"Location": runs.GET.at(id=made)})


async def _propose_run(ctx: ApiContext, job_id: int, given: job_actions.RunIn, name: Named) -> Accepted:
    settings = ctx.settings()
    params = None
    if given.params is not None:
        errors: list[FieldError] = []
        params = encode_params(given.params, settings, errors)
        if not errors:
            _fits(ctx, job_id, params, len(params) + settings.body_max_bytes > RUN_MAX, errors)
        if not errors and may_refer(params):
            errors += await _missing(ctx, job_id, params)
        if errors:
            raise Problem("invalid-body", errors=errors)
    number = ctx.rng.getrandbits(64) or 1  # tells it from other runs of the same millisecond
    try:
        return await propose_one(ctx, encode(RunNow(job_id, number, params, given.priority, name.key, name.digest)))
    except RaftschedError as refused:
        if refused.code != "illegal-transition" or (active := _active_run(ctx, job_id)) is None:
            raise
        raise RaftschedError(refused.code, f"{refused.detail} The newest that is active is {active}.") from None


def _active_run(ctx: ApiContext, job_id: int) -> str | None:
    """Returns the newest of the job's active runs; None: there is none among its newest ACTIVE_LOOK_MAX."""
    with ctx.read() as view:
        job = get_job(view, job_id)
        if job is None or not job.active:
            return None
        prefix = u64(job_id)
        for row, state in islice(view.scan(Table.BY_JOB, prefix, after(prefix), reverse=True), ACTIVE_LOOK_MAX):
            if InstanceState(state[0]) not in FINAL:
                return instance_text(from_by_job(row))
        raw = None if job.last_instance is None else view.get(Table.INSTANCES, job.last_instance)
    own = None if raw is None else decode_instance(raw)  # the scheduled run of a one-shot is not listed
    return None if own is None or own.state in FINAL else instance_text(own.key)


def _fits(ctx: ApiContext, job_id: int, params: bytes, large: bool, errors: list[FieldError]) -> None:
    """Refuses params that the job's handler does not go with. `large`: they may be too much with it."""
    with ctx.read() as view:
        job = get_job(view, job_id)
    if job is None:
        return  # apply says so
    if large:
        check_run(len(bytes(_body.decode(job.body).handler)), len(params), errors)
    if TEMPLATE in job.body and not errors:
        handler = msgspec.json.decode(bytes(_body.decode(job.body).handler))
        if handler.get("template") is True:
            wrong = wrong_in(handler, msgspec.json.decode(params))
            errors += [
                FieldError("/params", f"do not go with the job: its {one.pointer} {one.detail}", "inconsistent")
                for one in wrong
            ]


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
    return [FieldError(reference.pointer, why, "unknown-reference") for reference, why in found]


@serves(job_actions.SKIP_NEXT)
async def skip_next(ctx: ApiContext, call: Call[job_actions.SkipNextIn]) -> web.Response:
    errors: list[FieldError] = []
    at_ms = time_of(call.body.at, "/at", errors)
    if errors:
        raise Problem("invalid-body", errors=errors)
    job = await target_job(ctx, call)
    name = call.key("skip-next", job_text(job.id).encode(), call.raw, call.conditions)
    done = done_before(ctx, name)
    if done is not None:
        return reply_job(ctx, job_of(done))
    for _ in range(SKIP_TRIES):
        if call.if_match is not None and call.if_match != job.revision:
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
        elif job.state is not JobState.SCHEDULED or not any(t.needs_calendar for t in job.policy.all_triggers):
            why = "a run of it is active" if job.active else f"it is {job.state.name}"
            raise Problem("illegal-transition", f"The job has no next time at the moment: {why}.")
        await catch_up(ctx)  # the leader is about to say when a calendar job is due
        await ctx.log.wait_applied(ctx.cluster.status().applied_index + 1, SKIP_WAIT_S)
        job = await target_job(ctx, call)
    raise Problem("illegal-transition", "The next time of the job is not known yet; try again.")


async def _post(
    ctx: ApiContext,
    call: Call[Any],
    kind: str,
    state: JobState,
    raw: bytes = b"",
    *,
    kill: bool = False,
    resume_at_ms: int | None = None,
) -> web.Response:
    """Acts on the job; with an Idempotency-Key the request may be sent again."""

    def named(job: Job) -> Named:
        return call.key(kind, job_text(job.id).encode(), raw, call.conditions)

    return await _set(ctx, call, state, named, kill=kill, resume_at_ms=resume_at_ms)


async def _set(
    ctx: ApiContext,
    call: Call[Any],
    state: JobState,
    named: Callable[[Job], Named] = lambda job: UNNAMED,
    *,
    kill: bool = False,
    resume_at_ms: int | None = None,
) -> web.Response:
    """`named`: the key of the request, when it is about this job."""

    def command(job: Job, revision: int | None) -> bytes:
        return under(named(job), SetJobState(job.id, state, kill, revision, resume_at_ms=resume_at_ms))

    job = await target_job(ctx, call)
    name = named(job)
    done = done_before(ctx, name) or await change_target(ctx, call, job, command, keyed=bool(name.key))
    return reply_job(ctx, job_of(done))


# ---------------------------------------------------------------- as a state


@serves(job_actions.GET_STATE)
async def get_state(ctx: ApiContext, call: Call[None]) -> web.Response:
    with ctx.read() as view:
        job = requested_job(view, call)
    return reply_fields({"state": job.state.name}, headers={"ETag": etag(job)})


@serves(job_actions.PUT_STATE)
async def put_state(ctx: ApiContext, call: Call[job_actions.StateIn]) -> web.Response:
    raw = call.raw
    if raw.lstrip()[:1] == b'"':
        raw = b'{"state":' + raw + b"}"
    given = strict.read(raw, job_actions.StateIn, _state, "invalid-body")
    if given.state is None:
        raise Problem("invalid-body", errors=[FieldError("/state", 'is missing; give "SCHEDULED" or "SUSPENDED"')])
    return await _set(ctx, call, JobState[given.state])


@serves(job_actions.DELETE_STATE)
async def delete_state(ctx: ApiContext, call: Call[None]) -> web.Response:
    await read_no_body(call)
    return await _set(ctx, call, JobState.EXPIRED)
