"""What is done with a job: pause, resume, run, expire, and the same as a state to be read and put."""

from __future__ import annotations

from hashlib import sha256

import msgspec
from aiohttp import web

from raftsched.api import strict
from raftsched.api.context import ApiContext
from raftsched.api.jobs_in import encode_params
from raftsched.api.problems import FieldError, Problem
from raftsched.api.replies import job_of, propose_one, reply_job, reply_value
from raftsched.api.requests import (
    READ,
    Query,
    check_type,
    fresh_enough,
    if_match,
    optional_json,
    read_body,
)
from raftsched.api.rows import requested_job
from raftsched.api.schema import ExpireIn, RunIn, StateIn
from raftsched.api.targets import target_job
from raftsched.core.commands import RunNow, SetJobState, encode
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import JobState

BODY_MAX = 4_096  # bytes, of what takes a word or two


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


_nothing = msgspec.json.Decoder(_Nothing)
_expire = msgspec.json.Decoder(ExpireIn)
_run = msgspec.json.Decoder(RunIn)
_state = msgspec.json.Decoder(StateIn)


async def pause(ctx: ApiContext, request: web.Request) -> web.Response:
    await read_nothing(request)
    return await _set(ctx, request, JobState.SUSPENDED)


async def resume(ctx: ApiContext, request: web.Request) -> web.Response:
    await read_nothing(request)
    return await _set(ctx, request, JobState.SCHEDULED)


async def expire(ctx: ApiContext, request: web.Request) -> web.Response:
    given = strict.read(await optional_json(request, BODY_MAX), ExpireIn, _expire, "invalid-body")
    return await _set(ctx, request, JobState.EXPIRED, kill=given.kill)


async def run(ctx: ApiContext, request: web.Request) -> web.Response:
    """A manual run. The same Idempotency-Key makes one instance of a job, however often it is sent."""
    settings = ctx.settings()
    given = strict.read(await optional_json(request, settings.body_max_bytes), RunIn, _run, "invalid-body")
    Query(request)
    params = None
    if given.params is not None:
        errors: list[FieldError] = []
        params = encode_params(given.params, settings, errors)
        if errors:
            raise Problem("invalid-body", errors=errors)
    job = await target_job(ctx, request)
    number = request_number(ctx, request, job.id)
    accepted = await propose_one(ctx, encode(RunNow(job.id, number, params, given.priority)))
    assert accepted.instance is not None
    name = instance_text(accepted.instance)
    return reply_value({"id": name, "job_id": job_text(job.id)}, 202, {"Location": f"/v1/instances/{name}"})


def request_number(ctx: ApiContext, request: web.Request, job_id: int) -> int:
    """Tells one manual run from another: from the caller's key when there is one, else at random; never 0."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return ctx.rng.getrandbits(64) or 1
    digest = sha256(f"{job_id}\0{key}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") or 1


async def read_nothing(request: web.Request) -> None:
    """A body is not needed; an empty object is welcome."""
    strict.read(await optional_json(request, BODY_MAX), _Nothing, _nothing, "invalid-body")


async def _set(ctx: ApiContext, request: web.Request, state: JobState, *, kill: bool = False) -> web.Response:
    Query(request)
    job = await target_job(ctx, request)
    command = SetJobState(job.id, state, kill, if_match(request))
    return reply_job(ctx, job_of(await propose_one(ctx, encode(command))))


# ---------------------------------------------------------------- as a state


async def get_state(ctx: ApiContext, request: web.Request) -> web.Response:
    await fresh_enough(ctx, Query(request, *READ))
    with ctx.read() as view:
        job = requested_job(view, request)
    return reply_value({"state": job.state.name}, headers={"ETag": f'"{job.revision}"'})


async def put_state(ctx: ApiContext, request: web.Request) -> web.Response:
    """{"state": "SCHEDULED"} or {"state": "SUSPENDED"}; the bare string will do."""
    check_type(request)
    raw = await read_body(request, BODY_MAX)
    if raw.lstrip()[:1] == b'"':
        raw = b'{"state":' + raw + b"}"
    given = strict.read(raw, StateIn, _state, "invalid-body")
    if given.state is None:
        raise Problem("invalid-body", errors=[FieldError("/state", 'is missing; give "SCHEDULED" or "SUSPENDED"')])
    return await _set(ctx, request, JobState[given.state])


async def delete_state(ctx: ApiContext, request: web.Request) -> web.Response:
    await read_nothing(request)
    return await _set(ctx, request, JobState.EXPIRED)
