"""/v1/cluster/settings: limits and defaults that hold on every node alike; /v1/cluster/pause and resume."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiohttp import web
from msgspec import UNSET
from msgspec.structs import replace

from raftsched.api.auth.callers import caller, is_local
from raftsched.api.context import ApiContext, meta
from raftsched.api.http import strict
from raftsched.api.http.answers import Paused
from raftsched.api.http.durations import format_duration
from raftsched.api.http.idempotency import named, propose_once
from raftsched.api.http.problems import FieldError, Problem, pointer
from raftsched.api.http.replies import reply_fields, reply_value
from raftsched.api.http.requests import (
    PATCH_TYPES,
    READ,
    Query,
    check_type,
    etag_of,
    fresh_enough,
    if_match,
    not_modified,
    read_body,
)
from raftsched.api.jobs.actions import BODY_MAX, read_nothing
from raftsched.api.jobs.schema import Nothing
from raftsched.api.jobs.triggers import duration_of
from raftsched.api.openapi.operation import BODIES, JSON, MERGE_PATCH, WRITES, Reply, operation
from raftsched.api.resources.amending import amend
from raftsched.api.resources.operators_schema import SettingsIn, SettingsOut, is_duration, setting_name
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.cluster import Settings
from raftsched.core.commands import PauseCluster, PutSettings, encode
from raftsched.core.limits import SETTINGS

_DEFAULTS = Settings()


@operation(
    "Read the settings",
    {200: Reply(SettingsOut, "All of them.", ("ETag",)), 304: Reply(None, "Not changed.", ("ETag",))},
    query=READ,
    headers=("If-None-Match",),
    role="viewer",
    scope="shared",
)
async def get(ctx: ApiContext, request: web.Request) -> web.Response:
    await fresh_enough(ctx, Query(request, *READ))
    _, revision = _stored(ctx)
    if not_modified(request, etag_of(revision)):
        return web.Response(status=304, headers={"ETag": etag_of(revision)})
    return _reply(ctx)


@operation(
    "Change settings",
    {200: Reply(SettingsOut, "As they are now.", ("ETag",))},
    headers=("If-Match",),
    body=SettingsIn,
    media=(JSON, MERGE_PATCH),
    codes=(*BODIES, *WRITES, "stale", "stale-revision"),
    role="admin",
)
async def patch(ctx: ApiContext, request: web.Request) -> web.Response:
    """RFC 7396; null: the default. Without If-Match, a change in between means to merge again: none gets lost."""
    check_type(request, PATCH_TYPES)
    Query(request)
    change = _read(strict.parse(await read_body(request, BODY_MAX)))
    wanted = if_match(request)
    _check_audit(ctx, change)

    async def command(was: _Stored) -> bytes:
        return encode(PutSettings(replace(was.settings, **change), was.settings, wanted))

    async def stored() -> _Stored:
        return _stored(ctx)

    await amend(ctx, "What is set", stored, wanted, command)
    ctx.forget_settings()
    return _reply(ctx)


def _check_audit(ctx: ApiContext, change: dict[str, int]) -> None:
    """Who is in the audit must not be able to shorten it: while tokens are needed that takes who can read the disk of a
    node. Raises Problem forbidden."""
    who = caller()
    settings, _ = _stored(ctx)
    less = [name for name in ("audit_max", "audit_keep_ms") if change.get(name, TIME_MAX_MS) < getattr(settings, name)]
    if less and who.known and not is_local(who):
        raise Problem(
            "forbidden",
            f"{' and '.join(map(setting_name, less))} can be raised with this token, and lowered only with the secret"
            " that lies in the data directory of a node:"
            " RAFTSCHED_TOKEN=$(cat DIR/local.token) raftsched cluster settings set ...",
        )


@operation(
    "Pause the cluster",
    {200: Paused},
    headers=("Idempotency-Key",),
    body=Nothing,
    body_required=False,
    codes=(*BODIES, *WRITES, "idempotency-mismatch"),
    role="operator",
    scope="shared",
)
async def pause(ctx: ApiContext, request: web.Request) -> web.Response:
    """Nothing is fired or started any more; what runs goes on."""
    return await _set_paused(ctx, request, True)


@operation(
    "Resume the cluster",
    {200: Paused},
    headers=("Idempotency-Key",),
    body=Nothing,
    body_required=False,
    codes=(*BODIES, *WRITES, "idempotency-mismatch"),
    role="operator",
    scope="shared",
)
async def resume(ctx: ApiContext, request: web.Request) -> web.Response:
    """What was missed meanwhile is treated as each job's misfire policy says."""
    return await _set_paused(ctx, request, False)


async def _set_paused(ctx: ApiContext, request: web.Request, paused: bool) -> web.Response:
    await read_nothing(request)
    Query(request)
    await propose_once(ctx, named(request, "pause cluster" if paused else "resume cluster"), PauseCluster(paused))
    return reply_fields({"paused": paused})


class _Stored(NamedTuple):
    settings: Settings
    revision: int


def _stored(ctx: ApiContext) -> _Stored:
    with ctx.read() as view:
        cluster = meta(view)
        return _Stored(cluster.settings, cluster.settings_revision)


def _reply(ctx: ApiContext) -> web.Response:
    settings, revision = _stored(ctx)
    return reply_value(_shown(settings), headers={"ETag": etag_of(revision)})


def _shown(settings: Settings) -> dict[str, Any]:
    shown = {}
    for field in SETTINGS:
        value = getattr(settings, field)
        shown[setting_name(field)] = format_duration(value) if is_duration(field) else value
    return shown


def _read(value: Any) -> dict[str, int]:
    """The fields of Settings that are to change. Raises Problem invalid-body."""
    errors: list[FieldError] = []
    given = strict.examine(value, SettingsIn, errors)
    change: dict[str, int] = {}
    for field, (least, most) in SETTINGS.items():
        name = setting_name(field)
        wanted = UNSET if given is None else getattr(given, name)
        if wanted is UNSET:
            continue
        if wanted is None:
            change[field] = getattr(_DEFAULTS, field)
        elif is_duration(field):
            ms = duration_of(wanted, pointer(name), errors)
            if ms is not None and not least <= ms <= most:
                bounds = f"from {format_duration(least)} to {format_duration(most)}"
                errors.append(FieldError(pointer(name), f"is {format_duration(ms)}; it must be {bounds}"))
            change[field] = ms or 0
        else:
            change[field] = wanted
    if errors or given is None:
        raise Problem("invalid-body", errors=errors)
    return change
