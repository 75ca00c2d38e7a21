"""Secrets in the tables, sealed by the node that is asked before they are proposed; and all of them sealed anew, once
the cluster has a key, or another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TypeVar

import msgspec
from aiohttp import web

from raftsched.api.auth.access import access_of
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.idempotency import done_before, noted
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import propose_one, reply
from raftsched.api.http.requests import catch_up
from raftsched.api.serving import serves
from raftsched.core.commands import Command, encode
from raftsched.core.rows import decode_secret, decode_secrets
from raftsched.core.subjects.access import ForgetSecrets
from raftsched.core.subjects.secret import PutSecret, Secret
from raftsched.core.subjects.webhook import PutWebhook, ResealWebhook, RotateSecret, Secrets
from raftsched.core.tables import ReadView, Table
from raftsched.security.sealing import WEBHOOKS, Sealer, Unsealable, open_value
from raftsched.surface import secrets
from raftsched.surface.scalars import Nothing
from raftsched.surface.secrets import ResealedOut

SHOWN_MAX = 50  # of what cannot be read
AT_ONCE = 200  # sealed anew by one request; who wants all sends it again until nothing is left
_MEANWHILE = ("stale-revision", "not-found")  # somebody else has changed or deleted it, or sealed it anew

_Put = TypeVar("_Put", PutWebhook, RotateSecret)


async def with_sealed_secret(ctx: ApiContext, command: _Put) -> _Put:
    """Returns the command with its secret sealed, where the cluster has a key. Apply recognises a sealed secret only
    when it was sealed with the key in use: the stored one is sealed again first, if need be."""
    if ctx.security.sealer is None or not command.secret:
        return command
    with ctx.read() as view:
        raw = view.get(Table.WEBHOOK_SECRETS, command.name.encode())
    if raw is not None and not _current(ctx.security.sealer, decode_secrets(raw)):
        await _seal_anew(ctx, _later(_webhook, ctx.security.sealer, command.name, raw))
    nonce, secret, digest = ctx.security.sealer.seal(WEBHOOKS, command.name, command.secret)
    return msgspec.structs.replace(command, secret=secret, nonce=nonce, digest=digest)


def secret_of(ctx: ApiContext, name: str, held: Secrets) -> bytes:
    """Returns the secret in use; empty when it cannot be read here."""
    try:
        return open_value(ctx.security.sealer, WEBHOOKS, name, held.nonce, held.current)
    except Unsealable:
        return b""


def unreadable(ctx: ApiContext) -> int:
    """Returns the number of secrets, of jobs and of webhooks, sealed with a key that this node does not have."""
    with ctx.read() as view:
        nonces = [decode_secret(raw).nonce for _, raw in view.scan(Table.SECRETS)]
        nonces += [decode_secrets(raw).nonce for _, raw in view.scan(Table.WEBHOOK_SECRETS)]
    return sum(1 for nonce in nonces if nonce and (ctx.security.sealer is None or not ctx.security.sealer.knows(nonce)))


@serves(secrets.RESEAL)
async def reseal(ctx: ApiContext, call: Call[Nothing]) -> web.Response:
    key = call.key("secrets reseal")
    before = done_before(ctx, key)
    if before is not None:
        return reply(before.note)
    sealer = ctx.security.sealer
    if sealer is None:
        raise Problem(
            "not-possible",
            f"{ctx.node_id} was started without a cluster key (--insecure-raft); there is nothing to seal with.",
        )
    await catch_up(ctx)
    with ctx.read() as view:
        found = list(_to_do(view, sealer))
    done: int = 0
    unreadable: list[str] = []
    for name, make in found:
        if done >= AT_ONCE or len(unreadable) >= AT_ONCE:
            break
        try:
            done += await _seal_anew(ctx, make)
        except Unsealable as error:
            unreadable.append(f"{name}: {error}")
    with ctx.read() as view:
        left = sum(1 for _ in _to_do(view, sealer))
    answer = msgspec.json.encode(
        ResealedOut(resealed=done, left=left, unreadable=unreadable[:SHOWN_MAX], key=sealer.key)
    )
    return reply(await noted(ctx, key, answer))


async def _seal_anew(ctx: ApiContext, make: Callable[[], Command]) -> int:
    """Returns 1, or 0 when somebody else changed the secret meanwhile. Raises Unsealable."""
    try:
        await propose_one(ctx, encode(make()))
    except Problem as problem:
        if problem.code not in _MEANWHILE:
            raise
        return 0
    return 1


def _to_do(view: ReadView, sealer: Sealer) -> Iterator[tuple[str, Callable[[], Command]]]:
    """Yields what is not sealed with the key in use: its name, and a function that makes the command that seals it
    (raises Unsealable)."""
    access = access_of(view)
    if access.secret or access.seed:
        yield "what nodes proved to each other with", ForgetSecrets
    for key, raw in view.scan(Table.WEBHOOK_SECRETS):
        name = key.decode()
        if not _current(sealer, decode_secrets(raw)):
            yield f"the secret of the webhook {name}", _later(_webhook, sealer, name, raw)
    for _, raw in view.scan(Table.SECRETS):
        secret = decode_secret(raw)
        if not sealer.current(secret.nonce):
            yield f"{secret.namespace}/{secret.name}", _later(_secret, sealer, secret)


def _later(make: Callable[..., Command], *args: object) -> Callable[[], Command]:
    return lambda: make(*args)


def _secret(sealer: Sealer, secret: Secret) -> Command:
    value = open_value(sealer, secret.namespace, secret.name, secret.nonce, secret.value)
    nonce, sealed, digest = sealer.seal(secret.namespace, secret.name, value)
    return PutSecret(secret.namespace, secret.name, sealed, nonce, digest, None, secret.revision)


def _current(sealer: Sealer, held: Secrets) -> bool:
    return sealer.current(held.nonce) and (not held.previous or sealer.current(held.previous_nonce))


def _webhook(sealer: Sealer, name: str, raw: bytes) -> Command:
    held = decode_secrets(raw)
    nonce, current, digest = sealer.seal(WEBHOOKS, name, open_value(sealer, WEBHOOKS, name, held.nonce, held.current))
    previous_nonce = previous = b""
    if held.previous:
        before = open_value(sealer, WEBHOOKS, name, held.previous_nonce, held.previous)
        previous_nonce, previous, _ = sealer.seal(WEBHOOKS, name, before)
    return ResealWebhook(name, sha256(raw).digest(), current, nonce, digest, previous, previous_nonce)
