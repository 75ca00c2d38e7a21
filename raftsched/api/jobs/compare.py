"""POST /v1/namespaces/{ns}/jobs/{name}/compare: what a PUT of the same body would change. POST /v1/jobs:compare: the
same of many. Nothing is done."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace

from raftsched import names
from raftsched.api.auth.callers import check_permitted
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.checking import is_same, refuse_missing
from raftsched.api.jobs.defaults import read_defaults
from raftsched.api.jobs.endpoints import identify
from raftsched.api.jobs.parse import Content, read_job, too_large
from raftsched.api.jobs.render import etag
from raftsched.api.jobs.texts import job_texts
from raftsched.api.jobs.warnings import warnings_now
from raftsched.api.rows import get_named
from raftsched.api.serving import serves
from raftsched.cluster_settings import Settings
from raftsched.core.model import Job, JobState, Trigger, TriggerKind
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.core.tables import ReadView
from raftsched.surface import jobs

_PAUSED = (JobState.NEW, JobState.SUSPENDED)


class _Named(msgspec.Struct):
    name: str | None = None
    namespace: str = DEFAULT_NAMESPACE


_named = msgspec.json.Decoder(_Named)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


@serves(jobs.COMPARE_ALL)
async def compare_all(ctx: ApiContext, call: Call[Any]) -> web.Response:
    slices = Slices()
    texts = await job_texts(call.raw, slices)
    settings, now_ms = ctx.settings(), ctx.now_ms()
    items = []
    for text in texts:
        with ctx.read() as view:
            items.append(_compared(ctx, view, text, settings, now_ms))
        await slices.turn()
    return reply_value(jobs.ComparedPage(items))


def _compared(ctx: ApiContext, view: ReadView, raw: bytes, settings: Settings, now_ms: int) -> jobs.ComparedOut:
    try:
        if len(raw) > settings.body_max_bytes:
            raise too_large(len(raw), settings.body_max_bytes)
        address = _named.decode(raw)
        if address.name is None:
            raise Problem("invalid-job", errors=[FieldError("/name", "is missing; jobs are compared by their names")])
        check_permitted(address.namespace)
        job = _job(view, address.namespace, address.name)
        content = _content(view, raw, settings, now_ms, address.namespace, address.name, job)
        refuse_missing(view, content, address.namespace, job)
    except Problem as problem:
        where = [f"{one.pointer or '/'} {one.detail}" for one in problem.errors if isinstance(one, FieldError)]
        return jobs.ComparedOut("refused", "; ".join(where) or problem.detail)
    except (ValueError, RecursionError):
        return jobs.ComparedOut("refused", "This is no job.")
    if job is not None and _is_same(view, _as_exported(job, content), content):
        return jobs.ComparedOut("unchanged", etag=etag(job))
    warnings = warnings_now(ctx, content.policy, address.namespace)
    if job is None:
        return jobs.ComparedOut("created", warnings=warnings)
    return jobs.ComparedOut("changed", etag=etag(job), warnings=warnings)


def _job(view: ReadView, namespace: str, name: str) -> Job | None:
    return get_named(view, namespace, name) if names.JOB.allows(name) and names.NAMESPACE.allows(namespace) else None


def _content(
    view: ReadView, raw: bytes, settings: Settings, now_ms: int, namespace: str, name: str, job: Job | None
) -> Content:
    defaults = read_defaults(view, namespace)
    kept = None if job is None else job.policy
    content = read_job(raw, settings, now_ms, lambda _: defaults, namespace, kept=kept, tolerant=True)
    identify(content, namespace, name)
    return content


def _as_exported(job: Job, content: Content) -> Job:
    """Returns the job as if it had been given as exports write it, where that is what it is compared with."""
    return job if job.body == content.body else _in_zone(_timed(job, content), content)


def _timed(job: Job, content: Content) -> Job:
    """Returns the job with its time: `in` counts from a creation, so that what is to stay or to be made elsewhere is
    written with its time."""
    given = content.policy.trigger
    same_time = job.fire_at_ms is not None and given == Trigger(kind=TriggerKind.AT, at_ms=job.fire_at_ms)
    if job.policy.trigger.kind is not TriggerKind.IN or not same_time:
        return job
    body = {**_fields.decode(job.body), "trigger": _fields.decode(content.body)["trigger"]}
    return replace(job, policy=replace(job.policy, trigger=given), body=msgspec.json.encode(body))


def _in_zone(job: Job, content: Content) -> Job:
    """Returns the job with the time zone of its triggers: UTC is written where a namespace has another default."""
    there, given = _fields.decode(job.body), _fields.decode(content.body)
    zoned = {
        name: given[name]
        for name in ("trigger", "triggers")
        if name in there and name in given and _with_zones(there[name]) == _with_zones(given[name])
    }
    return replace(job, body=msgspec.json.encode({**there, **zoned})) if zoned else job


def _with_zones(raw: msgspec.Raw) -> list[dict[str, Any]]:
    found = msgspec.json.decode(raw)
    triggers = found if isinstance(found, list) else [found]
    return [{"timezone": "UTC", **one} if "cron" in one or "rrule" in one else one for one in triggers]


def _suspended(job: Job, content: Content) -> bool:
    """Returns whether the job would be paused. One that is stays so."""
    return job.state in _PAUSED or (content.suspended and job.state is JobState.SCHEDULED)


def _is_same(view: ReadView, job: Job, content: Content) -> bool:
    return is_same(view, job, content) and (job.state in _PAUSED) == _suspended(job, content)


@serves(jobs.COMPARE_NAMED)
async def compare_named(ctx: ApiContext, call: Call[Any]) -> web.Response:
    namespace, name = call.path["ns"], call.path["name"]
    with ctx.read() as view:
        job = _job(view, namespace, name)
        content = _content(view, call.raw, ctx.settings(), ctx.now_ms(), namespace, name, job)
        if job is not None:
            job = _as_exported(job, content)
        same = job is not None and _is_same(view, job, content)
    try:
        _check_named(ctx, content, namespace, job)
    except Problem:
        await ctx.catch_up_soon()  # what it names may have been made elsewhere a moment ago
        _check_named(ctx, content, namespace, job)
    if job is None:
        return reply_value(
            jobs.ComparisonOut("created", None, _given(namespace, name, content.suspended, content.body))
        )
    return reply_value(
        jobs.ComparisonOut(
            "unchanged" if same else "changed",
            _given(namespace, name, job.state in _PAUSED, job.body),
            _given(namespace, name, _suspended(job, content), content.body),
        )
    )


def _check_named(ctx: ApiContext, content: Content, namespace: str, job: Job | None) -> None:
    with ctx.read() as view:
        refuse_missing(view, content, namespace, job)


def _given(namespace: str, name: str, suspended: bool, body: bytes) -> dict[str, Any]:
    state = {"suspended": True} if suspended else {}
    return {"namespace": namespace, "name": name, **state, **msgspec.json.decode(body)}
