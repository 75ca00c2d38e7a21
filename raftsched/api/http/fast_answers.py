"""Answers of the fast path (fastpath.py) as bytes; the fallback says the same by response objects."""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

import msgspec

from raftsched.api.context import ApiContext
from raftsched.api.http.preconditions import job_etag
from raftsched.api.http.problems import MEDIA_TYPE, Problem, body_of, retry_after
from raftsched.api.http.replies import GUARDS, STRICT, job_of, propose_one
from raftsched.api.jobs.parse import create_command, read_job
from raftsched.api.jobs.render import job_json
from raftsched.api.jobs.resolving import refresh_defaults, retry_on_stale_defaults
from raftsched.api.jobs.warnings import warned
from raftsched.api.resources.webhooks_seen import check_notify
from raftsched.core.commands import Accepted
from raftsched.core.ids import job_text
from raftsched.errors import RaftschedError
from raftsched.surface.jobs import ADDRESS

_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_encode = msgspec.json.Encoder().encode


async def create(ctx: ApiContext, raw: bytes) -> tuple[int, str, bytes]:
    """Returns the answer to a creation that needs a task: something is looked up elsewhere first, or proposed again."""

    async def write() -> Accepted:
        content = read_job(raw, ctx.settings(), ctx.now_ms(), ctx.defaults_of)
        await check_notify(ctx, content)
        return await propose_one(ctx, create_command(content))

    await refresh_defaults(ctx)
    return made(ctx, await retry_on_stale_defaults(ctx, write))


def made(ctx: ApiContext, accepted: Accepted) -> tuple[int, str, bytes]:
    job = job_of(accepted)
    body = job_json(job, ctx.now_ms(), ctx.calendar, ctx.live_attempt(job))
    body = warned(ctx, body, job.policy, job.namespace)
    ident = job_text(job.id)
    headers = f"Content-Type: application/json\r\nETag: {job_etag(ident, job.revision)}\r\n"
    if not accepted.created:
        return 200, headers, body
    return 201, f"{headers}Location: {ADDRESS}{ident}\r\n", body


def problem(error: RaftschedError) -> tuple[int, str, bytes]:
    body = body_of(error)
    headers = f"Content-Type: {MEDIA_TYPE}\r\n"
    wait = retry_after(error)
    if wait is not None:
        headers += f"Retry-After: {wait}\r\n"
    if isinstance(error, Problem):
        headers += "".join(f"{name}: {value}\r\n" for name, value in error.headers.items())
    return body.status, headers, _encode(body)


def head(ctx: ApiContext, status: int, headers: str, length: int) -> bytes:
    leader, term, index = ctx.cluster_position()
    stale = "" if leader is not None else "Raftsched-Stale: true\r\n"
    stamp = _stamp(ctx.now_ms() // 1000, leader, term, ctx.security.strict_transport)
    return f"{_LINES[status]}{headers}Content-Length: {length}\r\n{stamp}{index}\r\n{stale}\r\n".encode()


@lru_cache(maxsize=4)
def _stamp(seconds: int, leader: str | None, term: int, strict: bool) -> str:
    """Returns the headers that stay the same from one answer to the next."""
    guards = {**GUARDS, "Strict-Transport-Security": STRICT} if strict else GUARDS
    lines = "".join(f"{name}: {value}\r\n" for name, value in guards.items())
    return (
        f"Cache-Control: no-store\r\nDate: {formatdate(seconds, usegmt=True)}\r\n"
        f"{lines}Raftsched-Leader: {leader or ''}\r\nRaftsched-Term: {term}\r\nRaftsched-Index: "
    )
