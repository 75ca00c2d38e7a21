"""/v1/jobs:actions, DELETE /v1/jobs, /v1/operations: the same done to many jobs.

What is asked becomes a replicated operation, which the leader carries out in bounded steps; it goes on after a change
of leader. A job is acted on when it is there as the operation begins, and matches as its turn comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace

from raftsched.api.auth.callers import check_permitted, must_name, note_read_index, sees, sees_all, within
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.idempotency import Named, done_before, propose_once
from raftsched.api.http.problems import FieldError, ParameterError, Problem
from raftsched.api.http.replies import propose_one, reply_page, reply_value
from raftsched.api.http.requests import catch_up, id_of
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.due import shown_times
from raftsched.api.jobs.filters import of_body, of_query, shown
from raftsched.api.jobs.triggers import until_of
from raftsched.api.rows import get_job, page
from raftsched.api.serving import serves
from raftsched.core import transitions
from raftsched.core.commands import CancelOperation, StartOperation, encode
from raftsched.core.ids import job_text, parse_job
from raftsched.core.model import Job, JobState
from raftsched.core.rows import decode_operation
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import match, walk
from raftsched.core.subjects.operations import BulkAction, Operation, OperationState
from raftsched.core.tables import ReadView, Table, u64
from raftsched.errors import KINDS
from raftsched.surface import bulk
from raftsched.surface.jobs import FILTERS
from raftsched.surface.scalars import Nothing

LOOK_MAX = 1_000_000  # rows looked at for a dry run
SAMPLE_MAX = 10
_LISTING = "operations"
# An EXPIRED job is done: it has nothing that could be paused or resumed, and a filter without states is not about it.
_MAY_CHANGE = {
    action: tuple(state for state in JobState if (state, action) in transitions.JOB) for action in ("pause", "resume")
}

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Asked:
    """Either a filter (an empty one means all) or ids."""

    action: BulkAction
    filter: JobFilter | None
    ids: tuple[int, ...] = ()
    kill: bool = False
    resume_at_ms: int | None = None  # of a pause


@serves(bulk.ACT)
async def act(ctx: ApiContext, call: Call[bulk.ActionsIn]) -> web.Response:
    name = call.key("jobs:actions", call.raw)
    accepted = done_before(ctx, name)
    if accepted is not None and accepted.operation is not None:
        return _reply(accepted.operation, 202)
    given = call.body
    asked = _asked(given, ctx.now_ms())
    if asked.filter is not None and within() is not None:
        if asked.filter.namespace is None:
            raise must_name('name one of them in "filter"')
        check_permitted(asked.filter.namespace)
    if given.dry_run:
        return await _dry_run(ctx, asked)
    return _reply(await _start(ctx, asked, name), 202)


def _asked(given: bulk.ActionsIn, now_ms: int) -> _Asked:
    errors: list[FieldError] = []
    if given.action is None:
        errors.append(FieldError("/action", "is missing; give pause, resume, run, expire or delete"))
    if given.kill and given.action != "expire":
        errors.append(FieldError("/kill", 'goes with "expire" only; leave it out'))
    resume_at_ms = until_of(given.until, given.for_, now_ms, errors)
    if resume_at_ms is not None and given.action != "pause":
        errors.append(
            FieldError(
                "/for" if given.until is None else "/until", 'goes with "pause" only; leave it out', "inconsistent"
            )
        )
    wanted = None if given.filter is None else of_body(given.filter, errors)
    ids: list[int] = []
    for i, text in enumerate(given.ids or ()):
        job_id = parse_job(text)
        if job_id is None:
            errors.append(FieldError(f"/ids/{i}", f'names no job: "{text[:64]}"; ids have 13 characters'))
        else:
            ids.append(job_id)
    ways = (given.ids is not None) + (given.filter is not None) + given.all
    if ways != 1 or given.ids == [] or given.filter == bulk.JobFilterIn():
        detail = 'needs one of these three, and one only: "ids", a "filter" (neither of them empty), "all": true'
        errors.append(FieldError("", detail))
    if errors:
        raise Problem("invalid-body", errors=errors)
    assert given.action is not None
    if given.all:
        wanted = JobFilter()
    if wanted is not None and not wanted.states:
        wanted = replace(wanted, states=_MAY_CHANGE.get(given.action, ()))
    return _Asked(BulkAction[given.action.upper()], wanted, tuple(ids), given.kill, resume_at_ms)


@serves(bulk.DELETE_MATCHING)
async def delete_matching(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    wanted = of_query(query)
    if wanted.is_empty != query.flag("all"):
        detail = f"What to delete must be said in one way: by a filter ({', '.join(FILTERS)}), or by all=true."
        error = ParameterError("all", "must be true without a filter, and left out with one", "inconsistent")
        raise Problem("invalid-parameter", detail, [error])
    asked = _Asked(BulkAction.DELETE, wanted)
    name = call.key("delete jobs", call.request.query_string.encode())
    if query.flag("dry_run"):
        return await _dry_run(ctx, asked)
    done = done_before(ctx, name)
    started = await _start(ctx, asked, name) if done is None or done.operation is None else done.operation
    row = await _ended(ctx, started)
    status = 202 if row.state is OperationState.RUNNING else 200
    return reply_value(bulk.DeletedOut(row.changed, _shown(row)), status, {"Location": _location(row)})


async def _start(ctx: ApiContext, asked: _Asked, name: Named) -> Operation:
    allowed = within()
    where = None if allowed is None else tuple(sorted(allowed))
    command = StartOperation(
        asked.action, asked.filter, asked.ids, asked.kill, name.key, name.digest, where, asked.resume_at_ms
    )
    accepted = await propose_one(ctx, encode(command))
    assert accepted.operation is not None
    return accepted.operation


async def _ended(ctx: ApiContext, operation: Operation) -> Operation:
    """Returns the operation when it has ended, or as it is when this has taken as long as a request may."""
    until = ctx.clock.monotonic() + ctx.propose_timeout_s
    while operation.state is OperationState.RUNNING:
        left = until - ctx.clock.monotonic()
        if left <= 0:
            break
        seen = ctx.applied()
        note_read_index(seen)
        with ctx.read() as view:
            operation = _find(view, operation.id) or operation
        if operation.state is OperationState.RUNNING and not await ctx.log.wait_applied(seen + 1, left):
            break
    return operation


# ---------------------------------------------------------------- dry run


async def _dry_run(ctx: ApiContext, asked: _Asked) -> web.Response:
    counted = bulk.DryRunOut(asked.action.name.lower(), 0, 0, True, [])
    if asked.filter is None:
        await _count_ids(ctx, asked.ids, counted)
    else:
        await _count_matches(ctx, asked.filter, counted)
    return reply_value(counted)


async def _count_ids(ctx: ApiContext, ids: tuple[int, ...], counted: bulk.DryRunOut) -> None:
    slices = Slices()
    while counted.examined < len(ids):
        with ctx.read() as view:
            for job_id in ids[counted.examined :]:
                counted.examined += 1
                _count(counted, get_job(view, job_id))
                if slices.over:
                    break
        await slices.turn()


async def _count_matches(ctx: ApiContext, wanted: JobFilter, counted: bulk.DryRunOut) -> None:
    """A bounded number of rows at a time: no reader stays open for long, and others get their turns."""
    with ctx.read() as view:
        way = walk(wanted, meta(view).last_id)
    last = None
    slices, shown_time = Slices(), shown_times(ctx, ctx.now_ms())
    while True:
        with ctx.read() as view:
            for key, value in way.rows(view, last):
                if counted.examined >= LOOK_MAX:
                    counted.complete = False
                    return
                counted.examined += 1
                last = key
                raw = way.job(view, key, value)
                _count(counted, None if raw is None else match(wanted, raw, shown_time))
                if slices.over:
                    break
            else:
                return
        await slices.turn()


def _count(counted: bulk.DryRunOut, job: Job | None) -> None:
    if job is None:
        return
    counted.matched += 1
    if len(counted.sample) < SAMPLE_MAX:
        counted.sample.append(bulk.SampleOut(job_text(job.id), job.namespace, job.name, job.state.name))


# ---------------------------------------------------------------- operations


@serves(bulk.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    number = _number(call)
    with ctx.read() as view:
        found = _find(view, number)
    if found is None:
        raise _nothing(call)
    return reply_value(_shown(found))


@serves(bulk.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    state = query.choice("state", *(state.name for state in OperationState))
    before = query.cursor(_LISTING)

    def take(_: bytes, raw: bytes) -> Operation | None:
        one = decode_operation(raw)
        return one if _visible(one) and (state is None or one.state.name == state) else None

    with ctx.read() as view:
        rows = view.scan(Table.OPERATIONS, b"", before, reverse=True)
        found, last = page(rows, query.limit(), take)
    return reply_page(call.request, [_encode(_shown(one)) for one in found], _LISTING, query.filters(), last)


@serves(bulk.CANCEL)
async def cancel(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    number = _number(call)
    if within() is not None:
        await catch_up(ctx)
        with ctx.read() as view:
            found = _find(view, number)
        if found is None:
            raise _nothing(call)
        if not _is_bounded(found):
            raise must_name("this operation may act in any")
        for namespace in _namespaces(found):
            check_permitted(namespace)
    name = call.key("cancel", job_text(number).encode())
    accepted = await propose_once(ctx, name, CancelOperation(number))
    assert accepted.operation is not None
    return reply_value(_shown(accepted.operation))


_ABSENT = 'There is no operation "{}".'


def _number(call: Call[Any]) -> int:
    return id_of(call, parse_job, _ABSENT)


def _nothing(call: Call[Any]) -> Problem:
    return Problem("not-found", _ABSENT.format(call.path["id"][:64]))


def _find(view: ReadView, number: int) -> Operation | None:
    raw = view.get(Table.OPERATIONS, u64(number))
    found = None if raw is None else decode_operation(raw)
    return found if found is None or _visible(found) else None


def _visible(one: Operation) -> bool:
    """Returns True when the caller may see it: it acts on nothing outside of their namespaces."""
    return sees_all() or (_is_bounded(one) and all(sees(namespace) for namespace in _namespaces(one)))


def _is_bounded(one: Operation) -> bool:
    return one.namespaces is not None or (one.filter is not None and one.filter.namespace is not None)


def _namespaces(one: Operation) -> tuple[str, ...]:
    """All that it may act in, where it is bounded."""
    if one.filter is not None and one.filter.namespace is not None:
        return (one.filter.namespace,)
    return one.namespaces or ()


def _location(operation: Operation) -> str:
    return bulk.GET.path.format(id=job_text(operation.id))


def _reply(operation: Operation, status: int) -> web.Response:
    return reply_value(_shown(operation), status, {"Location": _location(operation)})


def _shown(row: Operation) -> bulk.OperationOut:
    return bulk.OperationOut(
        id=job_text(row.id),
        action=row.action.name.lower(),
        state=row.state.name,
        filter=None if row.filter is None else shown(row.filter),
        ids=row.total if row.filter is None else None,
        kill=row.kill,
        created_at=format_time(row.created_at_ms),
        modified_at=format_time(row.modified_at_ms),
        ended_at=format_time_or_none(row.ended_at_ms),
        total=row.total,
        examined=row.examined,
        matched=row.matched,
        changed=row.changed,
        unchanged=row.matched - row.changed - row.refused,
        refused=row.refused,
        refusals=[bulk.RefusalOut(job_text(one.job_id), one.code, _title(one.code)) for one in row.refusals],
        until=format_time_or_none(row.resume_at_ms),
    )


def _title(code: str) -> str:
    return KINDS[code].title if code in KINDS else code
