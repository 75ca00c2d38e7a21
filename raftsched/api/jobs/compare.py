"""POST /v1/namespaces/{ns}/jobs/{name}/compare: what a PUT of the same body would change. Nothing is done."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import READ
from raftsched.api.jobs.checking import refuse_missing
from raftsched.api.jobs.defaults import read_defaults
from raftsched.api.jobs.endpoints import identify
from raftsched.api.jobs.generated import JobIn
from raftsched.api.jobs.parse import Content, read_job
from raftsched.api.openapi.operation import JOB_BODIES, operation
from raftsched.api.rows import get_named
from raftsched.core.model import Job, JobState

_PAUSED = (JobState.NEW, JobState.SUSPENDED)


class ComparisonOut(msgspec.Struct):
    """Jobs as they are given, without defaults."""

    result: Literal["created", "changed", "unchanged"]
    before: dict[str, Any] | None
    after: dict[str, Any]


@operation(
    "Compare a job with a new version",
    {200: ComparisonOut},
    query=READ,
    body=JobIn,
    body_max=None,
    codes=JOB_BODIES,
    changes_nothing=True,
    role="viewer",
)
async def compare_named(ctx: ApiContext, call: Call[Any]) -> web.Response:
    """The body is checked as that of a PUT to the job is. A job that is paused would stay so. What the
    body leaves to the defaults of the namespace is compared as they are now."""
    namespace, name = call.path["ns"], call.path["name"]
    with ctx.read() as view:
        job = get_named(view, namespace, name) if names.JOB.allows(name) and names.NAMESPACE.allows(namespace) else None
        defaults = read_defaults(view, namespace)
    kept = None if job is None else job.policy
    content = read_job(call.raw, ctx.settings(), ctx.now_ms(), lambda _: defaults, namespace, kept=kept, tolerant=True)
    identify(content, namespace, name)
    try:
        _check_named(ctx, content, namespace, job)
    except Problem:
        await ctx.catch_up_soon()  # what it names may have been made elsewhere a moment ago
        _check_named(ctx, content, namespace, job)
    if job is None:
        return reply_value(ComparisonOut("created", None, _given(namespace, name, content.suspended, content.body)))
    paused = job.state in _PAUSED
    suspended = paused or (content.suspended and job.state is JobState.SCHEDULED)
    same = (job.policy, job.body, paused) == (content.policy, content.body, suspended)
    return reply_value(
        ComparisonOut(
            "unchanged" if same else "changed",
            _given(namespace, name, paused, job.body),
            _given(namespace, name, suspended, content.body),
        )
    )


def _check_named(ctx: ApiContext, content: Content, namespace: str, job: Job | None) -> None:
    with ctx.read() as view:
        refuse_missing(view, content, namespace, job)


def _given(namespace: str, name: str, suspended: bool, body: bytes) -> dict[str, Any]:
    state = {"suspended": True} if suspended else {}
    return {"namespace": namespace, "name": name, **state, **msgspec.json.decode(body)}
