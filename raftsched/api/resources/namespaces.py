"""/v1/namespaces: what is said about namespaces. Jobs may name any; one need not be declared."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.auth.callers import permits
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_time
from raftsched.api.http.merging import merge, merge_retry
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply_page, reply_value
from raftsched.api.http.requests import (
    PATCH_TYPES,
    READ,
    Query,
    catch_up,
    check_type,
    create_only,
    etag_of,
    fresh_enough,
    if_match,
    read_body,
)
from raftsched.api.jobs.actions import BODY_MAX
from raftsched.api.jobs.defaults import FILLED, NamespaceContent, content_of_namespace, find_namespace, own
from raftsched.api.jobs.generated import DefaultsIn, JobIn
from raftsched.api.jobs.parse import content_of
from raftsched.api.jobs.schema import HandlerIn, TriggerIn
from raftsched.api.openapi.operation import BODIES, JSON, MERGE_PATCH, WRITES, PageOf, Reply, operation
from raftsched.api.resources.amending import amend
from raftsched.api.resources.operators_schema import (
    NAMESPACE_READ_ONLY,
    NamespaceIn,
    NamespaceLimits,
    NamespaceLimitsOut,
    NamespaceOut,
)
from raftsched.api.resources.webhooks_seen import is_limited, unseen
from raftsched.api.rows import following, page
from raftsched.bounds import DESCRIPTION_MAX, OWNER_MAX
from raftsched.core.cluster import Settings
from raftsched.core.commands import encode
from raftsched.core.model import Policy
from raftsched.core.namespaces import CONTENT_MAX, DeleteNamespace, Namespace, PutNamespace
from raftsched.core.notices import SYSTEM_NAMESPACE
from raftsched.core.rows import decode_namespace
from raftsched.core.tables import Table

_json = msgspec.json.Encoder(order="deterministic").encode


@operation(
    "List namespaces",
    {200: Reply(PageOf(NamespaceOut), "A page of namespaces.", ("Link",))},
    query=("limit", "cursor", *READ),
    role="viewer",
    scope="checked",
)
async def list_all(ctx: ApiContext, request: web.Request) -> web.Response:
    """By name: those that are declared, and those that merely have jobs or secrets."""
    query = Query(request, "limit", "cursor", *READ)
    await fresh_enough(ctx, query)
    last = query.cursor("namespaces")
    with ctx.read() as view:
        rows = view.scan(Table.NAMESPACES, b"" if last is None else following(last))
        shown, last = page(rows, query.limit(), _take)
    return reply_page(request, [msgspec.json.encode(out) for out in shown], "namespaces", query.filters(), last)


@operation("Read a namespace", {200: Reply(NamespaceOut, "The namespace.", ("ETag",))}, query=READ, role="viewer")
async def get(ctx: ApiContext, request: web.Request) -> web.Response:
    """The ETag is the revision of what is said about it, "0" when it merely has jobs or secrets."""
    await fresh_enough(ctx, Query(request, *READ))
    return _reply(ctx, request)


@operation(
    "Create or replace a namespace",
    {
        201: Reply(NamespaceOut, "It is declared now.", ("ETag", "Location")),
        200: Reply(NamespaceOut, "As it is now.", ("ETag",)),
    },
    headers=("If-Match", "If-None-Match"),
    body=NamespaceIn,
    codes=(*BODIES, *WRITES, "exists", "stale-revision", "not-possible"),
    role="operator",
)
async def put(ctx: ApiContext, request: web.Request) -> web.Response:
    """Says all that is said about it, anew; what was answered may be put back. Its defaults are taken over by jobs that
    are written from then on, and change none that exists. With If-Match it must be declared, with If-None-Match: * it
    must not be."""
    check_type(request)
    Query(request)
    name = request.match_info["ns"]
    if not names.NAMESPACE.allows(name):
        raise Problem("invalid-parameter", f"A namespace has {names.NAMESPACE.rule}.")
    value = strict.parse(await read_body(request, BODY_MAX))
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k not in NAMESPACE_READ_ONLY}
    revision = if_match(request)
    if revision is None and "If-Match" in request.headers:
        await _exists(ctx, request)
    if is_limited():
        await catch_up(ctx)  # it is said here which webhooks there are for the caller
    command = _command(ctx, name, value, revision, if_none=create_only(request))
    accepted = await propose_one(ctx, encode(command))
    ctx.forget_spaces()
    return _reply(ctx, request, created=accepted.created)


@operation(
    "Change a namespace",
    {200: Reply(NamespaceOut, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    body=NamespaceIn,
    media=(JSON, MERGE_PATCH),
    codes=(*BODIES, *WRITES, "stale-revision"),
    role="operator",
)
async def patch(ctx: ApiContext, request: web.Request) -> web.Response:
    """RFC 7396. Without If-Match, a change in between means to merge again: none gets lost."""
    check_type(request, PATCH_TYPES)
    Query(request)
    change = strict.parse(await read_body(request, BODY_MAX))
    errors: list[FieldError] = []
    strict.examine(change, NamespaceIn, errors, NAMESPACE_READ_ONLY)
    if errors:
        raise Problem("invalid-body", errors=errors)
    wanted = if_match(request)
    if is_limited():
        await catch_up(ctx)

    async def command(was: Namespace) -> bytes:
        return encode(_command(ctx, was.name, _merged(_given(was), change), was.revision))

    await amend(ctx, "The namespace", lambda: _target(ctx, request), wanted, command)
    ctx.forget_spaces()
    return _reply(ctx, request)


@operation(
    "Delete a namespace",
    {204: None},
    headers=("If-Match",),
    codes=(*WRITES, "stale-revision", "in-use"),
    role="operator",
)
async def delete(ctx: ApiContext, request: web.Request) -> web.Response:
    """Refused while it holds jobs or secrets."""
    Query(request)
    name = request.match_info["ns"]
    if not names.NAMESPACE.allows(name):
        raise _unknown(name)
    revision = if_match(request)
    if revision is None and "If-Match" in request.headers:
        await _exists(ctx, request)
    await propose_one(ctx, encode(DeleteNamespace(name, revision)))
    ctx.forget_spaces()
    return web.Response(status=204)


def _unknown(name: str) -> Problem:
    return Problem("not-found", f'The namespace "{name[:64]}" is not declared, and nothing is in it; PUT declares it.')


def _find(ctx: ApiContext, name: str) -> Namespace | None:
    with ctx.read() as view:
        return find_namespace(view, name) if names.NAMESPACE.allows(name) else None


async def _target(ctx: ApiContext, request: web.Request) -> Namespace:
    """The declared namespace that a change is meant for; this node catches up before it says that there is none."""
    name = request.match_info["ns"]
    found = _find(ctx, name)
    if (found is None or not found.revision) and names.NAMESPACE.allows(name):
        await catch_up(ctx)
        found = _find(ctx, name)
    if found is None or not found.revision:
        raise Problem("not-found", f'The namespace "{name[:64]}" is not declared; PUT declares it.')
    return found


async def _exists(ctx: ApiContext, request: web.Request) -> None:
    """If-Match: *. Raises Problem stale-revision."""
    try:
        await _target(ctx, request)
    except Problem:
        detail = "If-Match was given, but the namespace is not declared; leave it out to declare it."
        raise Problem("stale-revision", detail) from None


def _reply(ctx: ApiContext, request: web.Request, *, created: bool = False) -> web.Response:
    name = request.match_info["ns"]
    found = _find(ctx, name)
    if found is None:
        raise _unknown(name)
    headers = {"ETag": etag_of(found.revision)}
    if created:
        headers["Location"] = f"/v1/namespaces/{name}"
    return reply_value(_shown(found), 201 if created else 200, headers)


def _take(key: bytes, raw: bytes) -> NamespaceOut | None:
    name = key.decode()
    return _shown(decode_namespace(raw)) if permits(name) and name != SYSTEM_NAMESPACE else None


def _shown(namespace: Namespace) -> NamespaceOut:
    content = content_of_namespace(namespace)
    declared = namespace.revision > 0
    return NamespaceOut(
        name=namespace.name,
        declared=declared,
        description=content.description,
        owner=content.owner,
        defaults=content.defaults or DefaultsIn(),
        limits=_limits(namespace),
        jobs=namespace.jobs,
        secrets=namespace.secrets,
        revision=namespace.revision,
        created_at=format_time(namespace.created_at_ms) if declared else None,
        modified_at=format_time(namespace.modified_at_ms) if declared else None,
    )


def _limits(namespace: Namespace) -> NamespaceLimitsOut:
    return NamespaceLimitsOut(
        namespace.max_jobs, namespace.max_running, namespace.max_starts_per_minute, namespace.output_bytes
    )


def _merged(given: dict[str, Any], change: dict[str, Any]) -> Any:
    defaults = change.get("defaults")
    if isinstance(defaults, dict) and isinstance(given.get("defaults"), dict):
        given = {**given, "defaults": merge_retry(given["defaults"], defaults)}
    return merge(given, change)


def _given(namespace: Namespace) -> dict[str, Any]:
    """As it would be put."""
    found: dict[str, Any] = msgspec.to_builtins(content_of_namespace(namespace))
    return {**found, "limits": msgspec.to_builtins(_limits(namespace))}


def _command(ctx: ApiContext, name: str, value: Any, revision: int | None, *, if_none: bool = False) -> PutNamespace:
    """Raises Problem invalid-body with all that is wrong."""
    errors: list[FieldError] = []
    given = strict.examine(value, NamespaceIn, errors)
    if errors or given is None:
        raise Problem("invalid-body", errors=errors)
    if given.description is not None and len(given.description) > DESCRIPTION_MAX:
        errors.append(FieldError("/description", f"is too long; at most {DESCRIPTION_MAX} characters are allowed"))
    if given.owner is not None and not 1 <= len(given.owner) <= OWNER_MAX:
        errors.append(FieldError("/owner", f"must have 1 to {OWNER_MAX} characters"))
    defaults = given.defaults
    if defaults == DefaultsIn():
        defaults = None
    if defaults is not None:
        policy = _check(defaults, ctx.settings(), ctx.now_ms(), errors)
        with ctx.read() as view:
            wrong = None if errors else unseen(view, policy, _told(find_namespace(view, name)))
        if wrong is not None:
            errors.append(FieldError("/defaults" + wrong.pointer, wrong.detail))
    content = _json(NamespaceContent(given.description, given.owner, defaults))
    if not errors and len(content) > CONTENT_MAX:
        errors.append(FieldError("", f"takes {len(content):,} bytes; {CONTENT_MAX:,} is the limit"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    most = given.limits or NamespaceLimits()
    return PutNamespace(
        name,
        content,
        most.max_jobs,
        revision,
        if_none,
        most.max_running,
        most.max_starts_per_minute,
        most.output_bytes,
    )


def _told(namespace: Namespace | None) -> set[str | None]:
    """The webhooks that its defaults name until now."""
    defaults = None if namespace is None else content_of_namespace(namespace).defaults
    notify = None if defaults is None else defaults.notify
    return {one.webhook for one in (notify if isinstance(notify, list) else [notify]) if one is not None}


def _check(defaults: DefaultsIn, settings: Settings, now_ms: int, errors: list[FieldError]) -> Policy:
    """Each is checked as in a job that says it."""
    job = JobIn(
        trigger=TriggerIn(cron="0 0 * * *", timezone=defaults.timezone),
        handler=HandlerIn(exec=["true"]),
        **{field: own(getattr(defaults, field)) for field in FILLED},
    )
    found: list[FieldError] = []
    policy = content_of(job, settings, now_ms, found).policy
    for error in found:
        errors.append(FieldError("/defaults" + error.pointer.removeprefix("/trigger"), error.detail))
    return policy
