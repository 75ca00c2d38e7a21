"""POST /v1/jobs:check and POST /v1/jobs/{id}/check: whether a create, or a PATCH, of the same body would be refused.
Nothing is done, and nothing is proposed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import check_permitted
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.problems import FieldError, Problem, from_rejected
from raftsched.api.http.replies import reply
from raftsched.api.jobs.defaults import find_namespace, read_defaults
from raftsched.api.jobs.endpoints import patched
from raftsched.api.jobs.moments import (
    COUNT_DEFAULT,
    Window,
    moments,
    seed_of_changed,
    seed_of_new,
    sources_of,
    times_of,
    words_of,
)
from raftsched.api.jobs.notify import refuse_unknown
from raftsched.api.jobs.parse import Content, read_job
from raftsched.api.jobs.render import content_json
from raftsched.api.jobs.targets import check_tag
from raftsched.api.jobs.warnings import found_as_json
from raftsched.api.resources.webhooks_seen import refuse_unseen
from raftsched.api.rows import requested_job
from raftsched.api.serving import serves
from raftsched.core.commands import Rejected
from raftsched.core.levels import PARTS_SINCE
from raftsched.core.model import Job, Policy
from raftsched.core.rows import META_KEY, decode_job, decode_meta
from raftsched.core.rules.creation import (
    circle,
    has_content,
    name_error,
    name_taken,
    no_room,
    taken,
    unknown_calendar,
    waits_for,
)
from raftsched.core.rules.references import missing, references
from raftsched.core.rules.selection import DEFAULT_NAMESPACE, is_followed
from raftsched.core.tables import ReadView, Table, from_u64, name_key, u64
from raftsched.surface import jobs

T = TypeVar("T")


@serves(jobs.CHECK_NEW)
async def check_new(ctx: ApiContext, call: Call[Any]) -> web.Response:

    def look(view: ReadView) -> tuple[Content, jobs.Result]:
        content = read_job(call.raw, ctx.settings(), ctx.now_ms(), lambda name: read_defaults(view, name))
        namespace = content.namespace or DEFAULT_NAMESPACE
        check_permitted(namespace)  # first: others are not told what is missing in it
        refuse_missing(view, content, namespace, None)
        return content, _outcome(view, content, namespace, create_only=call.create_only)

    content, result = await _seen(ctx, look)
    return await _reply(ctx, result, content, content.namespace or DEFAULT_NAMESPACE, None)


@serves(jobs.CHECK_CHANGE)
async def check_change(ctx: ApiContext, call: Call[Any]) -> web.Response:
    change = call.json()

    def look(view: ReadView) -> tuple[Job, Content, jobs.Result]:
        job = check_tag(call, requested_job(view, call))
        if call.if_match not in (None, job.revision):
            raise Problem("stale-revision", f"The job is at revision {job.revision} now; read it again.")
        content = patched(ctx, job, change, lambda name: read_defaults(view, name))
        refuse_missing(view, content, job.namespace, job)
        if waits_for(content.policy) != waits_for(job.policy) or content.name != job.name:
            _refuse(circle_of(view, job.namespace, content.name, content.policy))
        if content.name is not None and content.name != job.name:
            _refuse(name_error(job.namespace, content.name))
            if _find(view, job.namespace, content.name) is not None:
                _refuse(name_taken(job.namespace, content.name))
        same = job.name == content.name and is_same(view, job, content)
        return job, content, "unchanged" if same else "changed"

    job, content, result = await _seen(ctx, look)
    return await _reply(ctx, result, content, job.namespace, job)


def is_same(view: ReadView, job: Job, content: Content) -> bool:
    """Returns whether a command with this content would leave a job as it is. Below the level of a policy's variables
    it is proposed without them (levels.fitted)."""
    if has_content(job, content.policy, content.body):
        return True
    earlier = meta(view).level < PARTS_SINCE[Policy, "env"]
    return earlier and has_content(job, content.policy, content.body, variables=False)


def refuse_missing(view: ReadView, content: Content, namespace: str, job: Job | None) -> None:
    """Refuses a job that names a webhook, a calendar or a secret that is not there. `job`: as it is until now. Raises
    Problem invalid-job, invalid-trigger."""
    refuse_unseen(view, content, job)
    _refuse(unknown_calendar(content.policy, lambda name: view.get(Table.CALENDARS, name.encode()) is not None))
    refuse_unknown(view, content.policy)
    lost = list(missing(view, namespace, references(namespace, content.body)))
    if lost:
        raise Problem(
            "invalid-job", errors=[FieldError(reference.pointer, why, "unknown-reference") for reference, why in lost]
        )


async def _seen(ctx: ApiContext, look: Callable[[ReadView], T]) -> T:
    """Returns what `look` finds. What it misses may have been made elsewhere a moment ago, so it looks twice."""
    try:
        with ctx.read() as view:
            return look(view)
    except Problem:
        await ctx.catch_up_soon()
    with ctx.read() as view:
        return look(view)


def _outcome(view: ReadView, content: Content, namespace: str, *, create_only: bool) -> jobs.Result:
    name, policy = content.name, content.policy
    job = None if name is None or name_error(namespace, name) is not None else _find(view, namespace, name)
    if job is None or waits_for(policy) != waits_for(job.policy):
        _refuse(circle_of(view, namespace, name, policy))
    if name is not None:
        _refuse(name_error(namespace, name))
        if job is not None:
            if create_only:
                raise Problem("exists", f"The name {name} exists already in namespace {namespace}.")
            _refuse(taken(job, namespace, name, policy, content.body, suspended=content.suspended))
            return "unchanged"
    raw = view.get(Table.META, META_KEY)
    strict = raw is not None and bool(decode_meta(raw).settings.namespaces_strict)
    _refuse(no_room(find_namespace(view, namespace), namespace, strict=strict))
    return "created"


def _refuse(rejected: Rejected | None) -> None:
    if rejected is not None:
        raise from_rejected(rejected)


def circle_of(view: ReadView, namespace: str, name: str | None, policy: Policy) -> Rejected | None:
    """Refuses what apply refuses: a job that would wait for itself."""
    if not waits_for(policy):
        return None
    return circle(partial(_find, view), namespace, name, policy, followed=partial(is_followed, view))[0]


def _find(view: ReadView, namespace: str, name: str) -> Job | None:
    """Returns the job of this name, whoever may see it: so does apply."""
    raw = view.get(Table.NAMES, name_key(namespace, name))
    row = None if raw is None else view.get(Table.JOBS, u64(from_u64(raw)))
    return None if row is None else decode_job(row)


async def _reply(
    ctx: ApiContext, result: jobs.Result, content: Content, namespace: str, job: Job | None
) -> web.Response:
    policy, now_ms = content.policy, ctx.now_ms()
    with ctx.read() as view:
        seed = seed_of_new(view, namespace, content.name, policy)
        if job is not None:
            seed = seed_of_changed(view, job, content.name, policy) or job.id
    sources = sources_of(policy, now_ms, job, seed)
    words = words_of(policy, sources, is_job=job is not None)
    window = Window(now_ms, None, COUNT_DEFAULT, most=policy.trigger.max_runs)
    times, more = await times_of(ctx, sources, window)
    shown = moments(words, times, more=more)
    del shown["days"]
    head: dict[str, Any] = {"name": content.name, "namespace": namespace}
    if job is None:
        head["suspended"] = content.suspended
    whole = content_json(msgspec.json.encode(head), content.body, content.policy)
    found = found_as_json(ctx, policy, namespace) or b"[]"
    fields = {"result": result, "job": msgspec.Raw(whole), **shown, "warnings": msgspec.Raw(found)}
    return reply(msgspec.json.encode(fields))
