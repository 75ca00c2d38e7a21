"""/v1/cluster/settings: limits and defaults that hold on every node alike; /v1/cluster/pause and resume."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiohttp import web
from msgspec import UNSET
from msgspec.structs import replace

from raftsched.api.auth.callers import caller, is_local
from raftsched.api.context import ApiContext, meta
from raftsched.api.http import strict
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_duration
from raftsched.api.http.idempotency import propose_once
from raftsched.api.http.problems import FieldError, Problem, pointer
from raftsched.api.http.replies import reply_fields, reply_tagged
from raftsched.api.jobs.triggers import duration_of
from raftsched.api.resources.amending import amend
from raftsched.api.serving import serves
from raftsched.bounds import TIME_MAX_MS
from raftsched.cluster_settings import SETTINGS, Settings
from raftsched.core.commands import PauseCluster, PutSettings, encode
from raftsched.quantities import is_duration, public_name, public_value
from raftsched.surface import settings as surface
from raftsched.surface.scalars import Nothing
from raftsched.surface.settings import SettingsIn

_DEFAULTS = Settings()


@serves(surface.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    return _reply(ctx, call)


@serves(surface.PATCH)
async def patch(ctx: ApiContext, call: Call[Any]) -> web.Response:
    change = _read(call.json())
    _check_audit(ctx, change)

    async def command(was: _Stored) -> bytes:
        return encode(PutSettings(replace(was.settings, **change), was.settings, call.if_match))

    async def stored() -> _Stored:
        return _stored(ctx)

    await amend(ctx, "What is set", stored, call.if_match, command)
    ctx.forget_settings()
    return _reply(ctx, call)


def _check_audit(ctx: ApiContext, change: dict[str, int]) -> None:
    """Raises Problem forbidden for a change that shortens the audit: callers whom it records must not be able to. While
    tokens are needed, only somebody who can read the disk of a node may."""
    who = caller()
    settings, _ = _stored(ctx)
    less = [name for name in ("audit_max", "audit_keep_ms") if change.get(name, TIME_MAX_MS) < getattr(settings, name)]
    if less and who.known and not is_local(who):
        raise Problem(
            "forbidden",
            f"{' and '.join(map(public_name, less))} can be raised with this token, and lowered only with the secret"
            " that lies in the data directory of a node:"
            " RAFTSCHED_TOKEN=$(cat DIR/local.token) raftsched cluster settings set ...",
        )


@serves(surface.PAUSE)
async def pause(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    return await _set_paused(ctx, call, True)


@serves(surface.RESUME)
async def resume(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    return await _set_paused(ctx, call, False)


async def _set_paused(ctx: ApiContext, call: Call[Nothing], paused: bool) -> web.Response:
    await propose_once(ctx, call.key("pause cluster" if paused else "resume cluster"), PauseCluster(paused))
    return reply_fields({"paused": paused})


class _Stored(NamedTuple):
    settings: Settings
    revision: int


def _stored(ctx: ApiContext) -> _Stored:
    with ctx.read() as view:
        cluster = meta(view)
        return _Stored(cluster.settings, cluster.settings_revision)


def _reply(ctx: ApiContext, call: Call[Any]) -> web.Response:
    settings, revision = _stored(ctx)
    return reply_tagged(call.request, _shown(settings), revision)


def _shown(settings: Settings) -> dict[str, Any]:
    return {public_name(field): public_value(field, getattr(settings, field)) for field in SETTINGS}


def _read(value: Any) -> dict[str, int]:
    """Returns the fields of Settings to change, with their values. Raises Problem invalid-body."""
    errors: list[FieldError] = []
    given = strict.examine(value, SettingsIn, errors)
    change: dict[str, int] = {}
    for field, row in SETTINGS.items():
        name = public_name(field)
        wanted = UNSET if given is None else getattr(given, name)
        if wanted is UNSET:
            continue
        if wanted is None:
            change[field] = getattr(_DEFAULTS, field)
        elif is_duration(field):
            ms = duration_of(wanted, pointer(name), errors)
            if ms is not None and not row.least <= ms <= row.most:
                bounds = f"from {format_duration(row.least)} to {format_duration(row.most)}"
                errors.append(
                    FieldError(pointer(name), f"is {format_duration(ms)}; it must be {bounds}", "out-of-range")
                )
            change[field] = ms or 0
        else:
            change[field] = wanted
    if errors or given is None:
        raise Problem("invalid-body", errors=errors)
    return change
