"""The facts that `GET /v1/cluster/doctor` judges, as this node has them in its tables. Each look is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec
from aiohttp import web

from raftsched.api.auth.access import access_of
from raftsched.api.auth.audit_kept import cut_short, newest_notes
from raftsched.api.cluster.scaling_metrics import waiting_for
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.durations import parse_time
from raftsched.api.http.requests import PAGE_MAX
from raftsched.api.resources.kept import unreadable
from raftsched.api.rows import newest_session
from raftsched.api.runs.outages import PAUSE
from raftsched.api.workers.seen import own_word, words_of
from raftsched.core.levels import newest_level
from raftsched.core.rows import TERMS, decode_queue, decode_token
from raftsched.core.rules.executors import WORKER_KEYS, worker_name
from raftsched.core.subjects.access import CHANGES_RING
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.notices import QUOTA_QUEUE, SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView, Table
from raftsched.doctor import Facts, Pauses, Samples, Tokens, WorkerSeen
from raftsched.surface import workers
from raftsched.surface.cluster import ClusterOut

LOOK_MAX = 1_000  # rows of a kind
SOON = 20  # tokens that expire first
_SYSTEM = SYSTEM_NAMESPACE.encode()
_SETTINGS, _HOLD = "settings_patch", b'"upgrade_hold"'


async def facts_of(
    ctx: ApiContext,
    request: web.Request,
    cluster: ClusterOut,
    samples: Mapping[str, Samples],
    silent: Mapping[str, str],
) -> Facts:
    """Returns the facts. `cluster`: as this node sees it."""
    now_ms = ctx.now_ms()
    workers = await _workers(ctx, request, now_ms)
    with ctx.read() as view:
        state = meta(view)
        terms = (TERMS.decode(raw).at_ms for _, raw in view.scan(Table.TERMS, reverse=True))
        return Facts(
            asker=ctx.node_id,
            now_ms=now_ms,
            cluster=msgspec.to_builtins(cluster),
            samples=samples,
            silent=silent,
            clock_limit_ms=state.settings.clock_limit_ms,
            worker_ttl_ms=state.settings.worker_ttl_ms,
            newest_level=newest_level(),
            elected_ms_ago=[max(0, now_ms - at_ms) for at_ms in terms],
            tokens=_tokens(view, now_ms),
            pauses=_pauses(view, state, now_ms),
            waiting=sum(waiting_for(view).values()),
            workers=workers,
            unreadable=unreadable(ctx),
            audit_short_ms=cut_short(view, state.settings, now_ms),
            audit_keep_ms=state.settings.audit_keep_ms,
            users=_users(view, state),
            namespaces=[key.decode() for key, _ in islice(view.scan(Table.NAMESPACES), LOOK_MAX) if key != _SYSTEM],
        )


def _users(view: ReadView, state: Meta) -> dict[str, tuple[str, ...]]:
    """Returns the users of the jobs of each member that has a session."""
    sessions = {member.node: newest_session(view, member.node) for member in state.members}
    return {node: session.users for node, session in sessions.items() if session is not None and session.open}


async def _workers(ctx: ApiContext, request: web.Request, now_ms: int) -> list[WorkerSeen]:
    """Returns the remote workers with a session, PAGE_MAX of them; when each was heard of, the leader knows."""
    with ctx.read() as view:
        if not meta(view).workers:
            return []
        keys = [key.decode() for key, _ in islice(view.scan(Table.NODES, *WORKER_KEYS), LOOK_MAX)]
        sessions = {worker_name(key) or "": newest_session(view, key) for key in keys}
    words = await words_of(ctx, request, f"{workers.LIST.path}?limit={PAGE_MAX}")
    found = []
    for name, session in islice(sessions.items(), PAGE_MAX):
        if session is None or not session.open:
            continue
        word = own_word(ctx, name) if words is None else words.get(name)
        at = None if word is None or word.last_heartbeat_at is None else parse_time(word.last_heartbeat_at)
        silent_ms = None if at is None else max(0, now_ms - at)
        trouble = (word.trouble if word else None) or ""
        found.append(WorkerSeen(name=name, version=session.version, silent_ms=silent_ms, trouble=trouble))
    return found


def _tokens(view: ReadView, now_ms: int) -> Tokens:
    rows = list(islice(view.scan(Table.TOKENS), LOOK_MAX + 1))
    holding = [token for token in (decode_token(raw) for _, raw in rows[:LOOK_MAX]) if token.holds(now_ms)]
    ends = sorted(token.expires_at_ms - now_ms for token in holding if token.expires_at_ms is not None)
    never = sum(1 for token in holding if token.expires_at_ms is None)
    return Tokens(required=access_of(view).required, expire_in_ms=ends[:SOON], never=never, exact=len(rows) <= LOOK_MAX)


def _pauses(view: ReadView, state: Meta, now_ms: int) -> Pauses:
    queues = [decode_queue(raw) for _, raw in islice(view.scan(Table.QUEUES), LOOK_MAX)]
    paused = [one for one in queues if one.paused and not one.name.startswith(QUOTA_QUEUE)]
    return Pauses(
        cluster=state.paused,
        cluster_for_ms=_done_ago(view, now_ms, PAUSE) if state.paused else None,
        level_held_for_ms=_done_ago(view, now_ms, _SETTINGS, _HOLD) if state.settings.upgrade_hold else None,
        queues=[(one.name, max(0, now_ms - one.modified_at_ms)) for one in paused],
    )


def _done_ago(view: ReadView, now_ms: int, operation: str, change: bytes = b"") -> int | None:
    """Returns how long ago somebody did this last, as the newest notes of the audit have it."""
    for note in newest_notes(view, CHANGES_RING):
        if note.operation == operation and change in note.change:
            return max(0, now_ms - note.at_ms)
    return None
