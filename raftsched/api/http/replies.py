"""Answers: JSON bodies, the headers that say how fresh they are, and proposals turned into either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from aiohttp import web
from multidict import CIMultiDict

from raftsched.api.auth.callers import request_state
from raftsched.api.context import ApiContext
from raftsched.api.http.cursors import encode_cursor
from raftsched.api.http.origins import allow
from raftsched.api.http.preconditions import etag_of, not_modified
from raftsched.api.http.problems import from_rejected
from raftsched.api.jobs.render import etag, job_json
from raftsched.api.jobs.warnings import warned
from raftsched.api.resources.users import naming_users
from raftsched.core.commands import Accepted, Rejected
from raftsched.core.ids import job_text
from raftsched.core.model import Job
from raftsched.surface.jobs import ADDRESS
from raftsched.surface.operation import JSON

_encode = msgspec.json.Encoder().encode
GUARDS = {  # of every answer: browsers guess no types, and neither show it to other sites nor tell them where they were
    "Server": "raftsched",  # whoever looks for versions asks with a token
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
STRICT = "max-age=31536000"  # a year in which browsers come by TLS only (RFC 6797)


def reply(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Answers with JSON that is encoded already."""
    given = {"Content-Type": JSON}
    if headers:
        given.update(headers)
    return web.Response(body=body, status=status, headers=given)


def reply_value(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return reply(_encode(value), status, headers)


def reply_fields(fields: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Answers with plain values: text, integers of 64 bits, lists and objects. Structs go to `reply_value`."""
    return reply(orjson.dumps(fields), status, headers)


def reply_tagged(request: web.Request, value: object, revision: int, location: str | None = None) -> web.Response:
    """Answers with an ETag: 304 to a read whose If-None-Match holds, 201 with the address of what was created."""
    headers = {"ETag": etag_of(revision)}
    if request.method in ("GET", "HEAD") and not_modified(request, headers["ETag"]):
        return web.Response(status=304, headers=headers)
    if location is not None:
        headers["Location"] = location
    return reply_value(value, 200 if location is None else 201, headers)


def reply_job(ctx: ApiContext, job: Job, status: int = 200, *, location: bool = False) -> web.Response:
    return reply(job_json(job, ctx.now_ms(), ctx.calendar, ctx.live_attempt(job)), status, _headers(job, location))


def reply_written(ctx: ApiContext, job: Job, *, created: bool = False) -> web.Response:
    """Answers a write of a job's content: with what it asks for that nobody offers now."""
    body = job_json(job, ctx.now_ms(), ctx.calendar, ctx.live_attempt(job))
    body = warned(ctx, body, job.policy, job.namespace)
    return reply(body, 201 if created else 200, _headers(job, created))


def _headers(job: Job, location: bool) -> dict[str, str]:
    headers = {"ETag": etag(job)}
    if location:
        headers["Location"] = f"{ADDRESS}{job_text(job.id)}"
    return headers


def reply_page(
    request: web.Request, items: Sequence[bytes], listing: str, filters: Mapping[str, str], last: bytes | None
) -> web.Response:
    """{"items": [...], "next": cursor or null}, and the next page as a link (RFC 8288). `last`: the key after which the
    list goes on, None at its end."""
    headers = {}
    cursor = b"null"
    if last is not None:
        text = encode_cursor(listing, filters, last)
        cursor = _encode(text)
        url = request.rel_url.update_query(cursor=text)
        headers["Link"] = f'<{url}>; rel="next"'
    body = b'{"items":[' + b",".join(items) + b'],"next":' + cursor + b"}"
    return reply(body, 200, headers)


def stamp(ctx: ApiContext, headers: CIMultiDict[str]) -> None:
    """Sets the headers that every answer has: the leader, its term, and the index up to which the answer shows what was
    applied. The index is from before the read, since its reader asks next for the events after it. Reads may be old
    without a leader, and a refusal where the leader did not answer. Caches must keep no answer: an ETag is the revision
    of what was set, and the state changes without it."""
    leader, term, _ = ctx.cluster_position()
    request = request_state()
    index = request.read_index or ctx.applied()
    headers.setdefault("Cache-Control", "no-store")
    headers.update(GUARDS)
    allow(headers)
    if ctx.security.strict_transport:
        headers["Strict-Transport-Security"] = STRICT
    headers["Raftsched-Leader"] = leader or ""
    headers["Raftsched-Term"] = str(term)
    headers["Raftsched-Index"] = str(index)
    if leader is None or request.behind:
        headers["Raftsched-Stale"] = "true"


async def propose_one(ctx: ApiContext, command: bytes) -> Accepted:
    """Returns what apply accepted. Raises what it refused as a Problem, and NoLeader, UnknownOutcome, Overloaded."""
    answer = (await ctx.propose((command,), ctx.propose_timeout_s))[0]
    if isinstance(answer, Rejected):
        raise from_rejected(naming_users(answer))
    return answer


def job_of(accepted: Accepted) -> Job:
    assert accepted.job is not None, "apply answers these commands with the job"
    return accepted.job
