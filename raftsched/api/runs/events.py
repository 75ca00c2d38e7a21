"""GET /v1/events: what changed, as a stream that can be taken up again at any node.

Every node has the same events under the same numbers, so that "everything after 4711.2" means the same everywhere.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import sees_all
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import MIN_INDEX_WAIT_S, Query, bad_parameter, check_namespace
from raftsched.api.http.slices import Slices
from raftsched.api.http.streams import STREAMS, Heartbeat, begin, frame, problem_frame, send
from raftsched.api.rows import decode_head, referred_job
from raftsched.api.serving import serves
from raftsched.core.ids import instance_key, instance_text, job_text, parse_job
from raftsched.core.model import InstanceState, JobState
from raftsched.core.rules.executors import node_name, worker_name
from raftsched.core.subjects.changes import (
    PER_ROW,
    POSITION_MAX,
    Change,
    ClusterChange,
    ClusterEvent,
    InstanceChange,
    InstanceEvent,
    JobChange,
    JobEvent,
    change_key,
    decode_row,
    split_change,
)
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView, Table, u64
from raftsched.errors import RaftschedError
from raftsched.surface import events as surface
from raftsched.surface.events import GROUPS, STATES, TYPES, ClusterEventOut, EventOut, InstanceEventOut, JobEventOut

GATHER_S = 0.02  # between two looks at least: a busy cluster makes hundreds of entries in a second

_NUMBER = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?", re.ASCII)
_JOB_TYPES = {(event, state): f"job.{event.name.lower()}" for event in JobEvent for state in JobState}
_JOB_TYPES |= {(JobEvent.STATE, state): f"job.{state.name.lower()}" for state in JobState}
_INSTANCE_TYPES = {(e, s): f"instance.{e.name.lower()}" for e in InstanceEvent for s in InstanceState}
_INSTANCE_TYPES |= {
    (event, state): f"instance.{state.name.lower()}"
    for event in (InstanceEvent.STATE, InstanceEvent.EXTENDED)
    for state in InstanceState
}
_CLUSTER_TYPES = {event: event.name.lower().replace("_", ".", 1) for event in ClusterEvent}

_encode = msgspec.json.Encoder().encode


def type_of(change: Change) -> str:
    if isinstance(change, ClusterChange):
        return _CLUSTER_TYPES[change.event]
    if isinstance(change, JobChange):
        return _JOB_TYPES[change.event, change.state]
    return _INSTANCE_TYPES[change.event, change.state]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """None: all."""

    types: frozenset[str] | None
    states: frozenset[str] | None
    namespace: str | None
    job_id: int | None

    def matches(self, change: Change) -> bool:
        if self.types is not None and type_of(change) not in self.types:
            return False
        if isinstance(change, ClusterChange):
            return self.states is None and self.namespace is None and self.job_id is None
        if change.namespace == SYSTEM_NAMESPACE and self.namespace is None and self.job_id is None:
            return False  # what the cluster does for itself is shown by its namespace
        return (
            (self.job_id is None or change.job_id == self.job_id)
            and (self.namespace is None or change.namespace == self.namespace)
            and (self.states is None or change.state.name in self.states)
        )


@serves(surface.LIST)
async def get(ctx: ApiContext, call: Call[None]) -> web.StreamResponse:
    query = call.query
    follow = query.choice("follow", "true", "false") != "false"
    wanted = _wanted(ctx, query)
    at = await _start(ctx, call, query, follow)
    request = call.request
    streams = request.app[STREAMS]
    with streams.one(request.remote):
        start = at
        slices = Slices()
        frames, at, more = _read(ctx, at, wanted, slices)
        # A reader that is cut off here goes on before what it was not sent.
        response = await begin(ctx, request, frame(ident=_number(start if frames else at)))
        if request.method == "HEAD":
            return response
        beat, silent = Heartbeat(ctx.clock), False
        try:
            while True:
                if frames or silent or beat.due:  # others may come all the time, and the reader is told of none
                    await send(request, response, b"".join(frames) or frame(ident=_number(at)))
                    beat.sent()
                    silent = False
                if not more:
                    if not follow:
                        break
                    silent = not await streams.unless_stopped(_comes(ctx, at, beat.left_s))
                    if not silent:
                        await asyncio.sleep(GATHER_S)
                    if streams.stopping.is_set():
                        break
                await slices.turn()
                frames, at, more = _read(ctx, at, wanted, slices)
        except RaftschedError as error:  # too late for a status
            await send(request, response, problem_frame(error))
        await response.write_eof()
        return response


# ---------------------------------------------------------------- what is asked for


def _wanted(ctx: ApiContext, query: Query) -> _Wanted:
    namespace, job = query.text("namespace"), query.text("job")
    check_namespace(namespace)
    job_id = None
    if job is not None:
        with ctx.read() as view:
            found = referred_job(view, job, namespace)
        job_id = parse_job(job) if found is None else found.id  # one that is gone may have left events
        if job_id is None or (found is None and namespace is None and not sees_all()):
            raise Problem("not-found", f'There is no job "{job[:200]}"; give its id, or "namespace/name".')
    types = _listed(query, "type", frozenset((*TYPES, *GROUPS)))
    if types is not None:
        types |= {name for name in TYPES if name.partition(".")[0] in types}
    return _Wanted(types, _listed(query, "state", frozenset(STATES)), namespace, job_id)


def _listed(query: Query, name: str, known: frozenset[str]) -> frozenset[str] | None:
    text = query.text(name)
    if text is None:
        return None
    given = frozenset(text.split(","))
    unknown = sorted(given - known)
    if unknown:
        raise bad_parameter(
            name, f"names {unknown[0][:64]!r}; it lists, with commas between them, any of {', '.join(sorted(known))}"
        )
    return given


async def _start(ctx: ApiContext, call: Call[Any], query: Query, follow: bool) -> bytes:
    """The number after which to begin. A browser that connects again says it in the header."""
    header = call.request.headers.get("Last-Event-ID")
    text = header or query.text("after")
    if text is None and follow:
        return change_key(ctx.cluster.status().applied_index, POSITION_MAX)
    if text is None or (text == "oldest" and not header):
        return ctx.meta().changes_gone or change_key(0, 0)
    match = _NUMBER.fullmatch(text)
    if match is None:
        rule = "must be the id of an event, such as 4711.2, or an index of the log"
        if header:
            raise Problem("invalid-parameter", f"Last-Event-ID {rule}.")
        raise bad_parameter("after", f'{rule}, or "oldest"')
    index = int(match[1])
    if index > ctx.cluster.status().applied_index and not await ctx.log.wait_applied(index, MIN_INDEX_WAIT_S):
        raise Problem("behind", f"This node has not applied index {index} yet; try again or ask another node.")
    return change_key(index, POSITION_MAX if match[2] is None else int(match[2]))


def _number(at: bytes) -> str:
    index, position = split_change(at)
    return str(index) if position == POSITION_MAX else f"{index}.{position}"


# ---------------------------------------------------------------- what there is


async def _comes(ctx: ApiContext, at: bytes, seconds: float) -> bool:
    """Returns True as soon as there may be more, False when nothing came for so long."""
    return await ctx.log.wait_applied(split_change(at)[0] + 1, seconds)


def _read(ctx: ApiContext, at: bytes, wanted: _Wanted, slices: Slices) -> tuple[list[bytes], bytes, bool]:
    """(frames, the number after which to go on, whether there is more already). Raises Problem events-gone."""
    applied = ctx.cluster.status().applied_index
    start = at
    frames: list[bytes] = []
    with ctx.read() as view:
        _check(meta(view), at)
        index, position = split_change(at)
        low = change_key(index + 1, 0) if position == POSITION_MAX else change_key(index, position - position % PER_ROW)
        names: dict[int, str | None] = {}
        for key, raw in view.scan(Table.CHANGES, low):
            if at > start and slices.over:
                return frames, at, True
            when_ms, changes = decode_row(raw)
            index, first = split_change(key)
            when = format_time(when_ms)
            for number, change in enumerate(changes, first):
                here = change_key(index, number)
                if here > at:
                    at = here
                    if wanted.matches(change):
                        ident = f"{index}.{number}"
                        frames.append(frame(_encode(_shown(view, names, ident, when, change)), ident))
    return frames, max(at, change_key(applied, POSITION_MAX)), False


def _check(now: Meta, at: bytes) -> None:
    if not now.settings.events_max:
        raise Problem("not-possible", "Events are turned off; set the cluster's events_max to more than 0.")
    if at < now.changes_gone:
        raise Problem(
            "events-gone",
            f"Events up to {_number(now.changes_gone)} are no longer kept, and you have read up to {_number(at)}. Read "
            "anew what you watch (GET /v1/jobs, GET /v1/instances), then the events after the Raftsched-Index of that "
            "answer; or go on with after=oldest and miss those in between.",
        )


def _shown(view: ReadView, names: dict[int, str | None], ident: str, when: str, change: Change) -> EventOut:
    kind = type_of(change)
    if isinstance(change, ClusterChange):
        return ClusterEventOut(ident, when, kind, change.subject or None)
    if change.job_id not in names:
        raw = view.get(Table.JOBS, u64(change.job_id))
        names[change.job_id] = None if raw is None else decode_head(raw).name
    name, job = names[change.job_id], job_text(change.job_id)
    if isinstance(change, JobChange):
        return JobEventOut(ident, when, kind, change.namespace, job, name, change.state.name, change.revision)
    return _instance(ident, when, kind, job, name, change)


def _instance(ident: str, when: str, kind: str, job: str, name: str | None, change: InstanceChange) -> InstanceEventOut:
    key = instance_key(change.nominal_at_ms, change.job_id, change.request)
    return InstanceEventOut(
        id=ident,
        at=when,
        type=kind,
        namespace=change.namespace,
        job_id=job,
        job=name,
        instance_id=instance_text(key),
        state=change.state.name,
        attempt=change.attempt,
        node=node_name(change.node),
        reason=change.reason,
        dead_letter=change.dead_letter,
        worker=worker_name(change.node),
    )
