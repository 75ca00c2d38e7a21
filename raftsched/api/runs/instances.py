"""/v1/instances and /v1/jobs/{id}/instances: list, get, kill, rerun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from raftsched.api.auth.callers import allowed_namespaces, note_as_change, within
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.idempotency import done_before, propose_once
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import propose_one, reply, reply_page
from raftsched.api.http.requests import Query, bad_parameter, catch_up, instance_key_of
from raftsched.api.http.slices import Slices
from raftsched.api.http.wanted_fields import wanted_fields
from raftsched.api.rows import (
    get_job,
    instances_of,
    paged,
    permitted_instance,
    referred_job,
    requested_instance,
    requested_job,
)
from raftsched.api.runs.generated import instance_json
from raftsched.api.runs.instance_fields import INSTANCE, renderer_of
from raftsched.api.runs.parts import rows_of_parts, summed_up
from raftsched.api.runs.render import JobNames
from raftsched.api.runs.states import instance_states
from raftsched.api.serving import serves
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.commands import Accepted, Kill, Rerun, encode
from raftsched.core.ids import instance_text, parse_instance
from raftsched.core.model import Instance, Job
from raftsched.core.rows import decode_instance
from raftsched.core.rules.executors import node_name, worker_key
from raftsched.core.rules.lateness import began_late
from raftsched.core.tables import ReadView, Table, u64
from raftsched.surface import runs as surface
from raftsched.surface.runs import RerunIn
from raftsched.surface.scalars import Nothing

INSTANCE_KEY_BYTES = 24
Rows = Callable[[ReadView, bytes | None], Iterator[tuple[bytes, bytes]]]


_NOWHERE = "/"  # what no attempt was given to


@serves(surface.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    key = instance_key_of(call)
    with ctx.read() as view:
        row = requested_instance(view, key)
        shown = instance_json(row, JobNames(view), summed_up(view, row))
    return reply(shown)


@serves(surface.OF_JOB)
async def list_of_job(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    with ctx.read() as view:
        job = requested_job(view, call)
    return await _list(ctx, call, query, job)


@serves(surface.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    parent = query.text("parent")
    if parent is not None:
        return await _list_parts(ctx, call, query, parent)
    name = query.text("job")
    if name is None:
        return await _list(ctx, call, query, None)
    with ctx.read() as view:
        job = referred_job(view, name, query.text("namespace"))
    if job is None:
        raise Problem("not-found", f'There is no job "{name[:200]}"; give its id, or "namespace/name".')
    return await _list(ctx, call, query, job)


class _Filter:
    def __init__(self, query: Query, job: Job | None, *, parts: bool) -> None:
        self._executor = _executor(query)
        self._dead = query.choice("dead_letter", "true", "false")
        self._late = query.choice("late", "true", "false")
        self._namespace = query.text("namespace") if job is None else None
        self._namespaces: dict[int, str | None] = {}
        self._hides = job is None and self._namespace is None  # deliveries: they are shown by their namespace
        self._states = instance_states(query)
        self._parts = parts or query.text("node") is not None or query.text("worker") is not None

    def __call__(self, view: ReadView, _: bytes, raw: bytes) -> Instance | None:
        row = decode_instance(raw)
        if (row.notice is not None and self._hides) or (row.parent is not None and not self._parts):
            return None
        if self._states is not None and row.state not in self._states:
            return None
        if self._executor is not None and (not row.attempts or row.attempts[-1].node != self._executor):
            return None
        if self._dead is not None and row.dead_letter != (self._dead == "true"):
            return None
        if self._late is not None and began_late(row) != (self._late == "true"):
            return None
        if self._namespace is not None and self._namespace_of(view, row.job_id) != self._namespace:
            return None
        return row

    def _namespace_of(self, view: ReadView, job_id: int) -> str | None:
        if job_id not in self._namespaces:
            job = get_job(view, job_id)
            self._namespaces[job_id] = None if job is None else job.namespace
        return self._namespaces[job_id]


def _executor(query: Query) -> str | None:
    """Returns the node or worker whose instances are asked for; None: of all."""
    node, worker = query.text("node"), query.text("worker")
    if worker is None:
        return None if node is None else node_name(node) or _NOWHERE
    return worker_key(worker) if node is None else _NOWHERE  # no attempt is on both


async def _list_parts(ctx: ApiContext, call: Call[Any], query: Query, parent: str) -> web.Response:
    key = parse_instance(parent)
    if key is None:
        raise bad_parameter("parent", "is not the id of an instance")
    for name in ("job", "namespace", "from", "to"):
        if query.text(name) is not None:
            raise bad_parameter(name, 'does not go with "parent"', "inconsistent")

    def rows(view: ReadView, after: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        return rows_of_parts(view, requested_instance(view, key), after)

    return await _page(ctx, call, "parts", rows, None, parts=True)


async def _list(ctx: ApiContext, call: Call[Any], query: Query, job: Job | None) -> web.Response:
    """Newest scheduled time first; `from` is inclusive, `to` is not."""
    low_ms, high_ms = query.time("from") or 0, query.time("to")
    high_ms = TIME_MAX_MS if high_ms is None else high_ms
    if low_ms > high_ms:
        raise bad_parameter("from", 'is after "to"; it must not be', "inconsistent")

    def rows(view: ReadView, before: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if job is not None:
            return instances_of(view, job, low_ms, high_ms, before)
        high = u64(high_ms) if before is None else min(u64(high_ms), before)
        return view.scan(Table.INSTANCES, u64(low_ms), high, reverse=True)

    return await _page(ctx, call, "instances" if job is None else f"instances of {job.id}", rows, job)


async def _page(
    ctx: ApiContext, call: Call[Any], listing: str, rows: Rows, job: Job | None, *, parts: bool = False
) -> web.Response:
    """Answers those of the rows, which begin behind a key, that the query is about."""
    query = call.query
    filters, render = query.filters(), renderer_of(wanted_fields(query, INSTANCE))
    place = query.cursor(listing)
    if place is not None and len(place) != INSTANCE_KEY_BYTES:
        raise bad_parameter("cursor", "is not a cursor of this list", "unknown-reference")
    slices = Slices()
    found, last = await paged(ctx, slices, rows, query.limit(), _Filter(query, job, parts=parts), place)
    items: list[bytes] = []
    while len(items) < len(found):
        with ctx.read() as view:
            names = JobNames(view)
            for row in found[len(items) :]:
                items.append(render(row, names))
                if slices.over:
                    break
        await slices.turn()
    return reply_page(call.request, items, listing, filters, last)


@serves(surface.KILL)
async def kill(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    key = await _target(ctx, call)
    return _reply(ctx, key, await propose_once(ctx, call.key("kill", key), Kill(key)))


@serves(surface.RERUN)
async def rerun(ctx: ApiContext, call: Call[RerunIn]) -> web.Response:
    key, downstream = await _target(ctx, call), call.body.downstream
    name = call.key("rerun", key, *((b"downstream",) if downstream else ()))
    command = Rerun(key, name.key, name.digest)
    if downstream:
        note_as_change()  # as the kill of a workflow is
        command = Rerun(key, name.key, name.digest, True, allowed_namespaces())
    accepted = done_before(ctx, name) or await propose_one(ctx, encode(command))
    return _reply(ctx, key, accepted)


@serves(surface.CANCEL)
async def cancel(ctx: ApiContext, call: Call[None]) -> web.Response:
    key = await _target(ctx, call)
    return _reply(ctx, key, await propose_one(ctx, encode(Kill(key))))


async def _target(ctx: ApiContext, call: Call[Any]) -> bytes:
    """The instance that is to be changed. Whether it is the caller's can only be told where it is known."""
    key = instance_key_of(call)
    if within() is not None:
        with ctx.read() as view:
            known = permitted_instance(view, key)
        if not known:
            await catch_up(ctx)
        with ctx.read() as view:
            requested_instance(view, key)
    return key


def _reply(ctx: ApiContext, key: bytes, accepted: Accepted) -> web.Response:
    with ctx.read() as view:
        row = accepted.row or requested_instance(view, key)  # None: done before, under the same key
        shown = instance_json(row, JobNames(view))
    return reply(shown, 202, {"Location": surface.GET.at(id=instance_text(key))})
