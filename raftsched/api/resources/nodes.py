"""/v1/nodes: the members as they run jobs. Drained, slots and labels can be said here, beside what each was started
with; membership itself is changed under /v1/cluster/members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web
from msgspec import UNSET
from msgspec.structs import replace

from raftsched.api.auth.callers import sees
from raftsched.api.cluster.overview import seen
from raftsched.api.context import ApiContext, meta
from raftsched.api.http import strict
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.idempotency import UNNAMED, Named, done_before, under
from raftsched.api.http.merging import merge
from raftsched.api.http.problems import FieldError, Problem, pointer
from raftsched.api.http.replies import reply_tagged, reply_value
from raftsched.api.http.requests import catch_up
from raftsched.api.resources.amending import amend
from raftsched.api.rows import newest_session, node_rule
from raftsched.api.serving import serves
from raftsched.bounds import LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX
from raftsched.core.commands import PutNodeRule
from raftsched.core.rules.allowed import Allowed
from raftsched.core.rules.eligibility import EVERY, slots_of
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.core.tables import ReadView
from raftsched.surface import nodes
from raftsched.surface.cluster import NodeOut
from raftsched.surface.scalars import Nothing

_Change = Callable[[NodeRule, Session | None], NodeRule]


@serves(nodes.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    return reply_value({"items": await _details(ctx, call), "next": None})


@serves(nodes.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    return await _reply(ctx, call)


@serves(nodes.DRAIN)
async def drain(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    return await _set_drained(ctx, call, True)


@serves(nodes.UNDRAIN)
async def undrain(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    return await _set_drained(ctx, call, False)


async def _set_drained(ctx: ApiContext, call: Call[Nothing], drained: bool) -> web.Response:
    key = call.key("drain" if drained else "undrain", call.path["id"].encode(), call.conditions)
    if done_before(ctx, key) is not None:
        return await _reply(ctx, call)
    return await _change(ctx, call, lambda rule, _: replace(rule, drained=drained), key)


@serves(nodes.PATCH)
async def patch(ctx: ApiContext, call: Call[Any]) -> web.Response:
    errors: list[FieldError] = []
    given = strict.examine(call.json(), nodes.NodeIn, errors, nodes.NodeDetail.__struct_fields__)
    if errors or given is None:
        raise Problem("invalid-body", errors=errors)

    def change(rule: NodeRule, session: Session | None) -> NodeRule:
        if given.drained is not UNSET:
            rule = replace(rule, drained=bool(given.drained))
        if given.slots is not UNSET:
            rule = replace(rule, slots=given.slots)
        if given.labels is not UNSET:
            labels = None if given.labels is None else _merged(_labels(rule, session), given.labels)
            rule = replace(rule, labels=labels)
        return rule

    return await _change(ctx, call, change)


async def _change(ctx: ApiContext, call: Call[Any], change: _Change, key: Named = UNNAMED) -> web.Response:
    """Changes again when somebody else changed the row in between: no change gets lost."""
    node = call.path["id"]

    async def command(was: NodeRule) -> bytes:
        with ctx.read() as view:
            session = newest_session(view, node)
        rule = change(was, session)
        return under(key, PutNodeRule(node, rule.drained, rule.slots, rule.labels, was, call.if_match))

    what = "What is said about the node"
    await amend(ctx, what, lambda: _target(ctx, node), call.if_match, command, keyed=bool(key.key))
    return await _reply(ctx, call)


async def _target(ctx: ApiContext, node: str) -> NodeRule:
    """Returns the rule that holds. This node catches up before it says that there is no such member."""
    with ctx.read() as view:
        known = any(m.node == node for m in meta(view).members)
    if not known:
        await catch_up(ctx)
    with ctx.read() as view:
        _check_member(view, node)
        return node_rule(view, node)


def _check_member(view: ReadView, node: str) -> None:
    names = [m.node for m in meta(view).members]
    if node not in names:
        raise Problem("no-such-member", f"There is no member {node[:64]!r}; members are {', '.join(names)}.")


def _labels(rule: NodeRule, session: Session | None) -> dict[str, str]:
    """Returns the labels that hold."""
    if rule.labels is not None:
        return dict(rule.labels)
    return {} if session is None else dict(session.labels)


def _merged(labels: dict[str, str], change: dict[str, str | None]) -> tuple[tuple[str, str], ...]:
    """Returns the labels after a merge patch. Raises Problem invalid-body."""
    merged: dict[str, str] = merge(labels, change)
    errors = []
    for key, value in change.items():
        at = pointer("labels", key[:32])
        if not 1 <= len(key) <= LABEL_KEY_MAX:
            errors.append(FieldError(at, f"needs a key of 1 to {LABEL_KEY_MAX} characters"))
        if value is not None and len(value) > LABEL_VALUE_MAX:
            errors.append(FieldError(at, f"is too long; at most {LABEL_VALUE_MAX} characters"))
    if len(merged) > LABELS_MAX:
        errors.append(
            FieldError("/labels", f"would be {len(merged)} labels; at most {LABELS_MAX} are allowed", "out-of-range")
        )
    if errors:
        raise Problem("invalid-body", errors=errors)
    return tuple(sorted(merged.items()))


async def _reply(ctx: ApiContext, call: Call[Any]) -> web.Response:
    node = call.path["id"]
    found = next((n for n in await _details(ctx, call) if n.id == node), None)
    if found is None:
        with ctx.read() as view:
            _check_member(view, node)
        raise Problem("no-such-member", f"{node} has just left the cluster.")
    return reply_tagged(call.request, found, found.revision)


def _users(said: Iterable[str]) -> list[str]:
    """Returns as whom jobs run, of the namespaces of which the caller may know."""
    return [one for one in said if (namespace := one.partition(":")[0]) == EVERY or sees(namespace)]


async def _details(ctx: ApiContext, call: Call[Any]) -> list[nodes.NodeDetail]:
    out = await seen(ctx, call.request)
    with ctx.read() as view:
        members = {m.node for m in meta(view).members}
        return [_detail(view, node) for node in out.nodes if node.id in members]


def _detail(view: ReadView, node: NodeOut) -> nodes.NodeDetail:
    session, rule = newest_session(view, node.id), node_rule(view, node.id)
    return nodes.NodeDetail(
        id=node.id,
        role=node.role,
        voter=node.voter,
        alive=node.alive,
        http=node.http,
        raft=node.raft,
        version=node.version,
        drained=rule.drained,
        running=node.running,
        slots=slots_of(session, rule),
        own_slots=session.slots if session else None,
        labels=_labels(rule, session),
        own_labels=dict(session.labels) if session else {},
        handlers=list(session.handlers) if session else [],
        limits_whole_runs=session is not None and session.limits_whole_runs,
        users=_users(session.users) if session else [],
        session=nodes.SessionOut(session.id, session.open, format_time(session.opened_at_ms)) if session else None,
        revision=rule.revision,
        trouble=node.trouble,
        last_heartbeat_at=node.last_heartbeat_at,
        allowed=None if session is None or session.allowed is None else _allowed(session.allowed),
        disk=node.disk,
        runs=session is None or session.slots > 0,
        weight=1 if session is None else session.weight,
    )


def _allowed(found: Allowed) -> nodes.AllowedOut:
    def shown(rules: tuple[str, ...] | None) -> list[str] | None:
        return None if rules is None else list(rules)

    return nodes.AllowedOut(
        shown(found.exec),
        shown(found.cwd),
        shown(found.python),
        list(found.http),
        list(found.http_deny),
        shown(found.env),
    )
