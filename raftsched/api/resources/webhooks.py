"""/v1/webhooks: addresses that are told what became of instances. See docs/webhooks.md.

What is sent to one are instances of a hidden job, in the namespace _system under the webhook's name.
"""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.auth.callers import caller
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.idempotency import conditions, done_before, named, propose_once
from raftsched.api.http.merging import merge
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply, reply_page, reply_value
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
    not_modified,
    optional_json,
    read_body,
)
from raftsched.api.jobs.actions import read_nothing
from raftsched.api.jobs.schema import InstanceOut, Nothing
from raftsched.api.jobs.triggers import duration_of
from raftsched.api.openapi.operation import BODIES, JSON, MERGE_PATCH, WRITES, PageOf, Reply, operation
from raftsched.api.resources.amending import amend
from raftsched.api.resources.kept import secret_of, with_sealed_secret
from raftsched.api.resources.webhooks_in import as_given, read_secret, read_webhook, refuse_change
from raftsched.api.resources.webhooks_schema import (
    WEBHOOK_NEW,
    WEBHOOK_PATCH,
    WEBHOOK_WHOLE,
    RotateIn,
    WebhookMade,
    WebhookOut,
)
from raftsched.api.resources.webhooks_seen import is_callers
from raftsched.api.rows import following, get_job, page, requested_instance
from raftsched.api.runs.render import JobNames, instance_json
from raftsched.core.access import Role
from raftsched.core.commands import Accepted, encode
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Job
from raftsched.core.rows import decode_secrets, decode_webhook
from raftsched.core.tables import ReadView, Table
from raftsched.core.webhooks import (
    OVERLAP_MAX_MS,
    DeleteWebhook,
    PutWebhook,
    RotateSecret,
    Secrets,
    TestWebhook,
    Webhook,
)
from raftsched.webhooks import encode_secret

BODY_MAX = 64 * 1024  # bytes
MADE_BYTES = 32  # of a secret that is made here
HIDDEN = "***"  # for the value of a header
_LISTING = "webhooks"

_encode = msgspec.json.Encoder().encode
_rotate = msgspec.json.Decoder(RotateIn)


@operation(
    "List webhooks",
    {200: Reply(PageOf(WebhookOut), "A page of webhooks.", ("Link",))},
    query=("limit", "cursor", *READ),
    role="viewer",
    scope="checked",
)
async def list_all(ctx: ApiContext, request: web.Request) -> web.Response:
    """By name."""
    query = Query(request, "limit", "cursor", *READ)
    await fresh_enough(ctx, query)
    last = query.cursor(_LISTING)
    with ctx.read() as view:
        rows = view.scan(Table.WEBHOOKS, b"" if last is None else following(last))
        found, last = page(rows, query.limit(), lambda _, raw: _item(view, decode_webhook(raw)))
    return reply_page(request, found, _LISTING, query.filters(), last)


@operation(
    "Read a webhook",
    {200: Reply(WebhookOut, "The webhook.", ("ETag",)), 304: Reply(None, "Not changed.", ("ETag",))},
    query=READ,
    headers=("If-None-Match",),
    role="viewer",
    scope="checked",
)
async def get(ctx: ApiContext, request: web.Request) -> web.Response:
    """The ETag is the revision of what was said about it; what waits changes without it."""
    await fresh_enough(ctx, Query(request, *READ))
    with ctx.read() as view:
        webhook = _find(view, request.match_info["name"])
        if webhook is None or not is_callers(webhook):
            raise _unknown(request.match_info["name"])
        shown = _shown(view, webhook)
    headers = {"ETag": etag_of(webhook.revision)}
    if not_modified(request, headers["ETag"]):
        return web.Response(status=304, headers=headers)
    return reply_value(shown, 200, headers)


@operation(
    "Create a webhook",
    {
        201: Reply(WebhookMade, "Made. A secret that was made for it is shown this one time.", ("ETag", "Location")),
        200: Reply(WebhookMade, "It is there, as it was given.", ("ETag",)),
    },
    headers=("Idempotency-Key", "If-None-Match"),
    body=WEBHOOK_NEW,
    codes=(*BODIES, *WRITES, "exists", "not-possible", "idempotency-mismatch", "not-found"),
    role="operator",
)
async def create(ctx: ApiContext, request: web.Request) -> web.Response:
    """Under a name, which jobs refer to in their `notify`. Without a secret one is made. With an Idempotency-Key it may
    be sent again (keys.py), and is answered with the same secret."""
    check_type(request)
    Query(request)
    raw = await read_body(request, BODY_MAX)
    if_none = create_only(request)
    key = named(request, "webhooks", raw, b"*" if if_none else b"")
    name, spec, secret = read_webhook(strict.parse(raw), None)
    made = b"" if secret else secrets.token_bytes(MADE_BYTES)
    command = PutWebhook(name, spec, secret or made, bool(made), True, if_none, asked=key.key if made else b"")
    accepted = done_before(ctx, key) or await propose_once(ctx, key, await with_sealed_secret(ctx, command))
    return _made(ctx, name, made, accepted, key.key)


@operation(
    "Create or replace a webhook",
    {
        201: Reply(WebhookMade, "Made. A secret that was made for it is shown this one time.", ("ETag", "Location")),
        200: Reply(WebhookMade, "As it is now.", ("ETag",)),
    },
    headers=("If-Match", "If-None-Match"),
    body=WEBHOOK_WHOLE,
    codes=(*BODIES, *WRITES, "exists", "stale-revision", "not-possible"),
    role="operator",
)
async def put(ctx: ApiContext, request: web.Request) -> web.Response:
    """All that is said about it, at once; what was answered may be put back. The secret stays: it may be given again,
    and only POST to /rotate changes it. With If-Match the webhook must be there, with If-None-Match: * it must not."""
    check_type(request)
    Query(request)
    name = _name(request)
    name, spec, secret = read_webhook(strict.parse(await read_body(request, BODY_MAX)), name)
    if "If-Match" in request.headers:
        await _target(ctx, request, "stale-revision")
    made = b"" if secret else secrets.token_bytes(MADE_BYTES)
    command = PutWebhook(name, spec, secret or made, bool(made), False, create_only(request), if_match(request))
    accepted = await propose_one(ctx, encode(await with_sealed_secret(ctx, command)))
    return _made(ctx, name, made, accepted)


@operation(
    "Change a webhook",
    {200: Reply(WebhookOut, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    body=WEBHOOK_PATCH,
    media=(JSON, MERGE_PATCH),
    codes=(*BODIES, *WRITES, "stale-revision", "not-possible"),
    role="operator",
)
async def patch(ctx: ApiContext, request: web.Request) -> web.Response:
    """RFC 7396. Without If-Match, a change in between means to merge again. {"active": false} lets what waits go on
    waiting, and nothing new be sent."""
    check_type(request, PATCH_TYPES)
    Query(request)
    change = strict.parse(await read_body(request, BODY_MAX))
    if not isinstance(change, dict):
        raise Problem("invalid-body", errors=[FieldError("", "must be an object with the fields to change")])
    refuse_change(change)
    wanted = if_match(request)

    async def command(was: Webhook) -> bytes:
        name, spec, secret = read_webhook(merge(as_given(was.spec), change), was.name)
        return encode(await with_sealed_secret(ctx, PutWebhook(name, spec, secret, if_revision=was.revision)))

    await amend(ctx, "The webhook", lambda: _target(ctx, request), wanted, command)
    return _reply(ctx, _name(request))


@operation(
    "Delete a webhook",
    {204: None},
    headers=("If-Match",),
    codes=(*WRITES, "illegal-transition", "stale-revision"),
    role="operator",
)
async def delete(ctx: ApiContext, request: web.Request) -> web.Response:
    """What waits to be sent is not sent any more. Refused while jobs name it in their `notify`."""
    Query(request)
    name = _name(request)
    await propose_one(ctx, encode(DeleteWebhook(name, if_match(request))))
    return web.Response(status=204)


@operation(
    "Rotate a webhook's secret",
    {200: Reply(WebhookMade, "A secret that was made is shown this one time.", ("ETag",))},
    headers=("Idempotency-Key", "If-Match"),
    body=RotateIn,
    body_required=False,
    codes=(*BODIES, *WRITES, "stale-revision", "idempotency-mismatch"),
    role="operator",
)
async def rotate(ctx: ApiContext, request: web.Request) -> web.Response:
    """For the time of `overlap` every event is signed with both, so that receivers may change over in between."""
    Query(request)
    raw = await optional_json(request, BODY_MAX)
    name = _name(request)
    key = named(request, "webhook rotate", name.encode(), raw, conditions(request))
    given = strict.read(raw, RotateIn, _rotate, "invalid-body")
    errors: list[FieldError] = []
    secret = b"" if given.secret is None else read_secret(given.secret, errors)
    overlap = duration_of(given.overlap, "/overlap", errors)
    if overlap is not None and overlap > OVERLAP_MAX_MS:
        errors.append(FieldError("/overlap", "is too long; at most 7d are allowed, 0s means at once"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    made = b"" if secret else secrets.token_bytes(MADE_BYTES)
    command = RotateSecret(name, secret or made, overlap or 0, if_match(request), key.key if made else b"")
    accepted = done_before(ctx, key) or await propose_once(ctx, key, await with_sealed_secret(ctx, command))
    return _made(ctx, name, made, accepted, key.key, status=200)


@operation(
    "Send a test event to a webhook",
    {202: Reply(InstanceOut, "The instance that delivers it.", ("Location",))},
    headers=("Idempotency-Key",),
    body=Nothing,
    body_required=False,
    codes=(*BODIES, *WRITES, "illegal-transition", "too-many", "idempotency-mismatch"),
    role="operator",
)
async def test(ctx: ApiContext, request: web.Request) -> web.Response:
    """Of type io.raftsched.webhook.test. What becomes of it, and what the receiver answered, is in the instance and its
    output."""
    Query(request)
    await read_nothing(request)
    name = _name(request)
    accepted = await propose_once(ctx, named(request, "webhook test", name.encode()), TestWebhook(name))
    assert accepted.instance is not None
    with ctx.read() as view:
        row = accepted.row or requested_instance(view, accepted.instance)
        shown = instance_json(row, JobNames(view))
    return reply(shown, 202, {"Location": f"/v1/instances/{instance_text(accepted.instance)}"})


# ---------------------------------------------------------------- one of them


def _name(request: web.Request) -> str:
    name = request.match_info["name"]
    if not names.WEBHOOK.allows(name):
        raise _unknown(name)
    return name


def _unknown(name: str) -> Problem:
    return Problem("not-found", f'There is no webhook "{name[:64]}"; POST to /v1/webhooks creates one.')


def _given(webhook: Webhook) -> dict[str, Any]:
    """As it would be put; to callers who may not put it the values of its headers are not shown, for with these it
    proves to the receiver who it is."""
    given = as_given(webhook.spec)
    if caller().within(Role.OPERATOR) is not None:
        given["headers"] = dict.fromkeys(given["headers"], HIDDEN)
    return given


def _item(view: ReadView, webhook: Webhook) -> bytes | None:
    return _encode(_shown(view, webhook)) if is_callers(webhook) else None


def _find(view: ReadView, name: str) -> Webhook | None:
    raw = view.get(Table.WEBHOOKS, name.encode()) if names.WEBHOOK.allows(name) else None
    return None if raw is None else decode_webhook(raw)


async def _target(ctx: ApiContext, request: web.Request, code: str = "not-found") -> Webhook:
    """The webhook that a change is meant for; this node catches up before it says that there is none."""
    name = _name(request)
    for last in (False, True):
        with ctx.read() as view:
            webhook = _find(view, name)
        if webhook is not None:
            return webhook
        if not last:
            await catch_up(ctx)
    if code == "not-found":
        raise _unknown(name)
    raise Problem(code, "If-Match was given, but the webhook does not exist; leave it out to create it.")


def _reply(ctx: ApiContext, name: str) -> web.Response:
    with ctx.read() as view:
        webhook = _find(view, name)
        if webhook is None:
            raise _unknown(name)
        shown = _shown(view, webhook)
    return reply_value(shown, 200, {"ETag": etag_of(webhook.revision)})


def _made(
    ctx: ApiContext, name: str, made: bytes, accepted: Accepted, asked: bytes = b"", status: int | None = None
) -> web.Response:
    """`made`: a secret that was made for this request, `asked`: the hash of its Idempotency-Key. It is shown when it is
    the one, or was made for the same request before: not for a webhook that was there."""
    with ctx.read() as view:
        webhook = _find(view, name)
        if webhook is None:
            raise _unknown(name)
        shown = _shown(view, webhook)
        held = _secrets(view, name)
    again = accepted.created and asked and held.asked == asked
    current = secret_of(ctx, name, held)
    own = current if made and (current == made or again) else b""
    fields: dict[str, Any] = msgspec.structs.asdict(shown)
    headers = {"ETag": etag_of(webhook.revision)}
    status = status or (201 if accepted.created else 200)
    if status == 201:
        headers["Location"] = f"/v1/webhooks/{name}"
    out = WebhookMade(**fields, secret=encode_secret(own) if own else None)
    return reply_value(out, status, headers)


def _secrets(view: ReadView, name: str) -> Secrets:
    raw = view.get(Table.WEBHOOK_SECRETS, name.encode())
    return Secrets(b"") if raw is None else decode_secrets(raw)


def _shown(view: ReadView, webhook: Webhook) -> WebhookOut:
    job: Job | None = get_job(view, webhook.job_id)
    until = _secrets(view, webhook.name).previous_until_ms or None
    return WebhookOut(
        name=webhook.name,
        **_given(webhook),
        gone=webhook.gone,
        revision=webhook.revision,
        job_id=job_text(webhook.job_id),
        waiting=0 if job is None else job.active,
        failures_in_a_row=0 if job is None else job.failures_in_a_row,
        last_success_at=None if job is None else format_time_or_none(job.last_success_at_ms),
        dropped=webhook.dropped,
        dropped_at=format_time_or_none(webhook.dropped_at_ms),
        previous_secret_until=format_time_or_none(until),
        created_at=format_time(webhook.created_at_ms),
        modified_at=format_time(webhook.modified_at_ms),
    )
