"""The remote workers that have a session, as /v1/workers lists them. Its secret is in no answer."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import permits
from raftsched.api.cluster.overview import running_of
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_page, reply_value
from raftsched.api.rows import get_instance, namespace_of, newest_session, page
from raftsched.api.serving import serves
from raftsched.api.workers.seen import Word, own_word, words_of
from raftsched.core import rows
from raftsched.core.ids import instance_text, job_text
from raftsched.core.rules.executors import WORKER_KEYS, worker_key, worker_name
from raftsched.core.subjects.cluster import Session
from raftsched.core.tables import KEY_MAX, ReadView, Table, after, from_u64, u64
from raftsched.surface import workers
from raftsched.surface.operation import READ

RUNS_SHOWN = 200  # of one worker
_LISTING = "workers"
_ABSENT = 'There is no worker "{}" with an open session.'


@serves(workers.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    before = query.cursor(_LISTING)
    low, high = WORKER_KEYS
    told = await words_of(ctx, call.request, _target(call))
    with ctx.read() as view:
        numbers = view.scan(Table.NODES, low if before is None else before + b"\0", high)
        found, last = page(numbers, query.limit(), lambda _, raw: rows.SESSIONS.get(view, from_u64(raw)))
        items = [_encode(_shown(ctx, view, session, told)) for session in found]
    return reply_page(call.request, items, _LISTING, query.filters(), last)


@serves(workers.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    name = call.path["name"]
    told = await words_of(ctx, call.request, _target(call))
    with ctx.read() as view:
        key = worker_key(name)
        session = newest_session(view, key) if len(key.encode()) <= KEY_MAX else None
        if session is None:
            raise Problem("not-found", _ABSENT.format(name[:128]))
        runs, left_out = _runs(view, session)
        shown = workers.WorkerDetail(
            **msgspec.structs.asdict(_shown(ctx, view, session, told)), runs=runs, runs_left_out=left_out
        )
    return reply_value(shown)


_encode = msgspec.json.Encoder().encode


def _target(call: Call[Any]) -> str:
    """Returns the same for the leader: the page that is asked for, without how fresh it has to be."""
    url = call.request.rel_url
    return url.without_query_params(*READ).raw_path_qs


def _shown(ctx: ApiContext, view: ReadView, session: Session, told: dict[str, Word] | None) -> workers.WorkerOut:
    name = worker_name(session.node) or ""
    word = own_word(ctx, name) if told is None else told.get(name, Word())
    return workers.WorkerOut(
        name=name,
        session=session.id,
        labels=dict(session.labels),
        slots=session.slots,
        weight=session.weight,
        queues=None if session.queues is None else list(session.queues),
        namespaces=None if session.namespaces is None else [one for one in session.namespaces if permits(one)],
        handlers=list(session.handlers),
        running=running_of(view, session.id),
        last_heartbeat_at=word.last_heartbeat_at,
        version=session.version or None,
        opened_at=format_time(session.opened_at_ms),
        trouble=word.trouble,
        quiet_since=word.quiet_since,
    )


def _runs(view: ReadView, session: Session) -> tuple[list[workers.WorkerRunOut], bool]:
    prefix = u64(session.id)
    live = list(islice(view.scan(Table.ASSIGNED, prefix, after(prefix)), RUNS_SHOWN + 1))
    found = []
    for row, key in live[:RUNS_SHOWN]:
        namespace, instance = namespace_of(view, key), get_instance(view, key)
        if instance is None or namespace is None or not permits(namespace):
            continue
        token = from_u64(row[8:])
        started = next((a.started_at_ms for a in instance.attempts if a.token == token), None)
        run, job = instance_text(key), job_text(instance.job_id)
        found.append(workers.WorkerRunOut(run, job, token, format_time_or_none(started)))
    return found, len(live) > RUNS_SHOWN
