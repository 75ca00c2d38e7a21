"""/v1/namespaces: owners, defaults and limits of namespaces. Jobs may name any; one need not be declared."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from raftsched import names
from raftsched.api.auth.callers import permits
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_duration, format_time
from raftsched.api.http.merging import merge, merge_retry
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.requests import catch_up
from raftsched.api.jobs.defaults import FILLED, NamespaceContent, content_of_namespace, find_namespace, own
from raftsched.api.jobs.parse import content_of
from raftsched.api.jobs.triggers import duration_of
from raftsched.api.resources.named import NamedResource, Write, serve
from raftsched.api.resources.webhooks_seen import is_limited, unseen
from raftsched.bounds import DESCRIPTION_MAX, OWNER_MAX
from raftsched.cluster_settings import Settings
from raftsched.core.model import Policy
from raftsched.core.rows import NAMESPACES as ROWS
from raftsched.core.subjects.namespace import CONTENT_MAX, DeleteNamespace, Namespace, PutNamespace
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView
from raftsched.namespace_limits import LIMITS
from raftsched.quantities import is_duration, public_name, public_value
from raftsched.surface import namespaces as surface
from raftsched.surface.content import HandlerIn, TriggerIn
from raftsched.surface.jobs_generated import DefaultsIn, JobIn
from raftsched.surface.namespaces import NamespaceIn, NamespaceLimits, NamespaceLimitsOut, NamespaceOut

_json = msgspec.json.Encoder(order="deterministic").encode


def _shown(ctx: ApiContext, view: ReadView, namespace: Namespace, among: int) -> NamespaceOut:
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
    found = {}
    for field in LIMITS:
        value = getattr(namespace, field)
        found[public_name(field)] = None if value is None else public_value(field, value)
    return NamespaceLimitsOut(**found)


def _merged(given: dict[str, Any], change: dict[str, Any]) -> Any:
    defaults = change.get("defaults")
    if isinstance(defaults, dict) and isinstance(given.get("defaults"), dict):
        given = {**given, "defaults": merge_retry(given["defaults"], defaults)}
    return merge(given, change)


def _as_put(namespace: Namespace) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(content_of_namespace(namespace))
    return {**found, "limits": msgspec.to_builtins(_limits(namespace))}


async def _command(ctx: ApiContext, write: Write[Namespace]) -> PutNamespace:
    """Raises Problem invalid-body with all that is wrong."""
    if is_limited():
        await catch_up(ctx)  # it is decided here which webhooks exist for the caller
    errors: list[FieldError] = []
    given = strict.examine(write.value, NamespaceIn, errors)
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
            wrong = None if errors else unseen(view, policy, _told(find_namespace(view, write.name)))
        if wrong is not None:
            errors.append(FieldError("/defaults" + wrong.pointer, wrong.detail, wrong.code))
    limits = _given_limits(given.limits or NamespaceLimits(), errors)
    content = _json(NamespaceContent(given.description, given.owner, defaults))
    if not errors and len(content) > CONTENT_MAX:
        errors.append(FieldError("", f"takes {len(content):,} bytes; {CONTENT_MAX:,} is the limit", "out-of-range"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    return PutNamespace(write.name, content, if_revision=write.revision, if_none=write.only_new, **limits)


def _given_limits(given: NamespaceLimits, errors: list[FieldError]) -> dict[str, int | None]:
    """Returns the fields of PutNamespace that they stand for."""
    found = {}
    for field in LIMITS:
        value = getattr(given, public_name(field))
        found[field] = value if value is None or not is_duration(field) else _duration(field, value, errors)
    return found


def _duration(field: str, text: str, errors: list[FieldError]) -> int | None:
    place = f"/limits/{public_name(field)}"
    ms = duration_of(text, place, errors)
    least, most, _ = LIMITS[field]
    if ms is not None and not least <= ms <= most:
        bounds = f"from {format_duration(least)} to {format_duration(most)}"
        errors.append(FieldError(place, f"is {format_duration(ms)}; it must be {bounds}", "out-of-range"))
    return ms


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
        if error.pointer.startswith("/params"):
            continue  # the params that a key asks for are the job's to say
        place = "/defaults" + error.pointer.removeprefix("/trigger")
        errors.append(replace(error, pointer=place))
    return policy


NAMESPACES = NamedResource(
    surface.NAMESPACES,
    rows=ROWS,
    name_rules=(names.NAMESPACE,),
    absent='The namespace "{0}" is not declared, and nothing is in it; PUT declares it.',
    unset='The namespace "{0}" is not declared; PUT declares it.',
    unmet="the namespace is not declared; leave it out to declare it",
    shown=_shown,
    as_put=_as_put,
    command=_command,
    delete_command=DeleteNamespace,
    is_listed=lambda namespace: permits(namespace.name) and namespace.name != SYSTEM_NAMESPACE,
    is_set=lambda namespace: namespace.revision > 0,
    merge=_merged,
    on_change=ApiContext.forget_defaults,
)
serve(NAMESPACES, surface.LIST, surface.GET, surface.PUT, surface.PATCH, surface.DELETE)
