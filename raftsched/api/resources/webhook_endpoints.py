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
from raftsched.api.auth.known import knows_webhook
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time, format_time_or_none
from raftsched.api.http.idempotency import done_before, propose_once
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply, reply_tagged
from raftsched.api.jobs.triggers import duration_of
from raftsched.api.resources.kept import secret_of, with_sealed_secret
from raftsched.api.resources.named import NamedResource, Write, serve
from raftsched.api.resources.webhooks_in import HIDDEN, as_given, read_secret, read_webhook
from raftsched.api.rows import get_job, requested_instance
from raftsched.api.runs.generated import instance_json
from raftsched.api.runs.render import JobNames
from raftsched.api.serving import serves
from raftsched.core.commands import Accepted, encode
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import Job
from raftsched.core.rows import WEBHOOK_SECRETS
from raftsched.core.rows import WEBHOOKS as ROWS
from raftsched.core.subjects.access import Role
from raftsched.core.subjects.webhook import (
    OVERLAP_MAX_MS,
    DeleteWebhook,
    PutWebhook,
    Receiver,
    RotateSecret,
    Secrets,
    TestWebhook,
    Webhook,
    WebhookSpec,
)
from raftsched.core.tables import ReadView
from raftsched.errors import RaftschedError
from raftsched.surface import runs
from raftsched.surface import webhooks as surface
from raftsched.surface.scalars import Nothing
from raftsched.surface.webhooks import RotateIn, WebhookMade, WebhookOut
from raftsched.webhooks import encode_secret

MADE_BYTES = 32  # of a secret that is made here


def _given(webhook: Webhook) -> dict[str, Any]:
    """Returns the JSON of a PUT. The values of headers are hidden from callers who may not change them: with these the
    webhook proves its identity to the receiver."""
    given = as_given(webhook.spec)
    if caller().within(Role.OPERATOR) is not None:
        given["headers"] = dict.fromkeys(given["headers"], HIDDEN)
    return given


def _secrets(view: ReadView, name: str) -> Secrets:
    return WEBHOOK_SECRETS.get(view, name) or Secrets(b"")


def _shown(ctx: ApiContext, view: ReadView, webhook: Webhook, among: int) -> WebhookOut:
    job: Job | None = get_job(view, webhook.job_id)
    until = _secrets(view, webhook.name).previous_until_ms or None
    return WebhookOut(
        name=webhook.name,
        **_given(webhook),
        left_out=webhook.left_out,
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


async def _command(ctx: ApiContext, write: Write[Webhook]) -> PutWebhook:
    name, spec, secret = read_webhook(write.value, write.name)
    return await with_sealed_secret(ctx, PutWebhook(name, spec, secret, if_revision=write.revision))


WEBHOOKS = NamedResource(
    surface.WEBHOOKS,
    rows=ROWS,
    name_rules=(names.WEBHOOK,),
    absent=f'There is no webhook "{{0}}"; POST to {surface.CREATE.path} creates one.',
    unmet="the webhook does not exist; leave it out to create it",
    shown=_shown,
    as_put=lambda webhook: as_given(webhook.spec),
    command=_command,
    delete_command=DeleteWebhook,
    is_visible=lambda view, webhook: knows_webhook(webhook),
)
serve(WEBHOOKS, surface.LIST, surface.GET, surface.PATCH, surface.DELETE)


@serves(surface.CREATE)
async def create(ctx: ApiContext, call: Call[Any]) -> web.Response:
    key = call.key("webhooks", call.raw, b"*" if call.create_only else b"")
    name, spec, secret = read_webhook(call.json(), None)
    if not secret and spec.receiver is Receiver.SLACK:
        raise Problem("invalid-body", errors=[FieldError("/url", "is hidden; write the whole address", "inconsistent")])
    made = _made_for(spec, secret)
    command = PutWebhook(name, spec, secret or made, bool(made), True, call.create_only, asked=key.key if made else b"")
    accepted = done_before(ctx, key) or await propose_once(ctx, key, await with_sealed_secret(ctx, command))
    return _made(ctx, call, name, made, accepted, key.key)


@serves(surface.PUT)
async def put(ctx: ApiContext, call: Call[Any]) -> web.Response:
    (name,) = WEBHOOKS.checked(WEBHOOKS.names(call))
    name, spec, secret = read_webhook(call.json(), name)
    await WEBHOOKS.check_if_match(ctx, call)
    made = _made_for(spec, secret)
    command = PutWebhook(name, spec, secret or made, bool(made), False, call.create_only, call.if_match)
    try:
        accepted = await propose_one(ctx, encode(await with_sealed_secret(ctx, command)))
    except RaftschedError as refused:
        if refused.code == "not-found":  # it was deleted since
            raise WEBHOOKS.unmet_condition() from None
        raise
    return _made(ctx, call, name, made, accepted)


@serves(surface.ROTATE)
async def rotate(ctx: ApiContext, call: Call[RotateIn]) -> web.Response:
    (name,) = WEBHOOKS.checked(WEBHOOKS.names(call))
    key = call.key("webhook rotate", name.encode(), call.raw, call.conditions)
    given = call.body
    errors: list[FieldError] = []
    secret = b"" if given.secret is None else read_secret(given.secret, errors)
    overlap = duration_of(given.overlap, "/overlap", errors)
    if overlap is not None and overlap > OVERLAP_MAX_MS:
        errors.append(FieldError("/overlap", "is too long; at most 7d are allowed, 0s means at once", "out-of-range"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    made = b"" if secret else secrets.token_bytes(MADE_BYTES)
    command = RotateSecret(name, secret or made, overlap or 0, call.if_match, key.key if made else b"")
    accepted = done_before(ctx, key) or await propose_once(ctx, key, await with_sealed_secret(ctx, command))
    return _made(ctx, call, name, made, accepted, key.key, is_new=False)


@serves(surface.TEST)
async def test(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    (name,) = WEBHOOKS.checked(WEBHOOKS.names(call))
    accepted = await propose_once(ctx, call.key("webhook test", name.encode()), TestWebhook(name))
    assert accepted.instance is not None
    with ctx.read() as view:
        row = accepted.row or requested_instance(view, accepted.instance)
        shown = instance_json(row, JobNames(view))
    return reply(shown, 202, {"Location": runs.GET.at(id=instance_text(accepted.instance))})


def _made_for(spec: WebhookSpec, secret: bytes) -> bytes:
    """Returns a secret to sign with, when none is given where events are signed."""
    return b"" if secret or spec.receiver is not Receiver.WEBHOOK else secrets.token_bytes(MADE_BYTES)


def _made(
    ctx: ApiContext,
    call: Call[Any],
    name: str,
    made: bytes,
    accepted: Accepted,
    asked: bytes = b"",
    *,
    is_new: bool = True,
) -> web.Response:
    """Answers a write. `made`: the secret that was generated for this request, `asked`: the hash of its
    Idempotency-Key. The secret is shown when it is the one in use, or was generated for the same request before: not
    for a webhook that existed already."""
    with ctx.read() as view:
        webhook = WEBHOOKS.find(view, (name,))
        if webhook is None:
            raise WEBHOOKS.not_found((name,))
        shown = _shown(ctx, view, webhook, 1)
        held = _secrets(view, name)
    again = accepted.created and asked and held.asked == asked
    current = secret_of(ctx, name, held)
    own = current if made and (current == made or again) else b""
    fields: dict[str, Any] = msgspec.structs.asdict(shown)
    out = WebhookMade(**fields, secret=encode_secret(own) if own else None)
    location = surface.GET.at(name=name) if accepted.created and is_new else None
    return reply_tagged(call.request, out, webhook.revision, location)
