"""/v1/secrets and /v1/namespaces/{ns}/secrets/{name}: put, listed, deleted. Nobody reads a value back.

Nothing that is said about a request repeats any of it: what is taken for another field may be the value.
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply_page, reply_value
from raftsched.api.http.requests import (
    READ,
    Query,
    catch_up,
    check_namespace,
    check_type,
    create_only,
    etag_of,
    fresh_enough,
    if_match,
    read_body,
)
from raftsched.api.openapi.operation import BODIES, WRITES, PageOf, Reply, operation
from raftsched.api.resources.secrets_schema import SECRET_READ_ONLY, SecretIn, SecretOut
from raftsched.api.rows import following, page
from raftsched.bounds import SECRET_VALUE_MAX
from raftsched.core.commands import encode
from raftsched.core.references import find_secret
from raftsched.core.rows import decode_secret
from raftsched.core.secrets import DeleteSecret, PutSecret, Secret
from raftsched.core.tables import Table, after

BODY_MAX = 64 * 1024  # bytes: a value of the longest, each character escaped

_FIELDS = frozenset(SecretIn.__struct_encode_fields__)


@operation(
    "List secrets",
    {200: Reply(PageOf(SecretOut), "A page of secrets, without their values.", ("Link",))},
    query=("namespace", "limit", "cursor", *READ),
    role="viewer",
)
async def list_all(ctx: ApiContext, request: web.Request) -> web.Response:
    """By namespace and name."""
    query = Query(request, "namespace", "limit", "cursor", *READ)
    namespace = query.text("namespace")
    check_namespace(namespace)
    await fresh_enough(ctx, query)
    last = query.cursor("secrets")
    prefix = b"" if namespace is None else namespace.encode() + b"\0"
    low = prefix if last is None else max(prefix, following(last))
    with ctx.read() as view:
        rows = view.scan(Table.SECRETS, low, after(prefix) if prefix else None)
        shown, last = page(rows, query.limit(), lambda _, raw: _shown(decode_secret(raw)))
    return reply_page(request, [msgspec.json.encode(out) for out in shown], "secrets", query.filters(), last)


@operation(
    "Read a secret's metadata",
    {200: Reply(SecretOut, "All but its value.", ("ETag",))},
    query=READ,
    role="viewer",
)
async def get(ctx: ApiContext, request: web.Request) -> web.Response:
    await fresh_enough(ctx, Query(request, *READ))
    return _reply(ctx, request)


@operation(
    "Create or replace a secret",
    {
        201: Reply(SecretOut, "It is there now.", ("ETag", "Location")),
        200: Reply(SecretOut, "It has this value now.", ("ETag",)),
    },
    headers=("If-Match", "If-None-Match"),
    body=SecretIn,
    codes=(*BODIES, *WRITES, "invalid-job", "exists", "stale-revision", "not-possible"),
    role="editor",
)
async def put(ctx: ApiContext, request: web.Request) -> web.Response:
    """Runs that are assigned from then on get this value. The same value again is no change. Where the cluster has a
    key, it is sealed before it leaves this node."""
    check_type(request)
    Query(request)
    namespace, name = request.match_info["ns"], request.match_info["name"]
    if not names.NAMESPACE.allows(namespace) or not names.SECRET.allows(name):
        raise Problem("invalid-parameter", f"A namespace has {names.NAMESPACE.rule}; a secret has {names.SECRET.rule}.")
    value, shared = _read(await read_body(request, BODY_MAX))
    nonce = digest = b""
    if ctx.security.sealer is not None:
        nonce, value, digest = ctx.security.sealer.seal(namespace, name, value)
    revision = if_match(request)
    if revision is None and "If-Match" in request.headers:
        await _exists(ctx, request)
    command = PutSecret(namespace, name, value, nonce, digest, shared, revision, create_only(request))
    accepted = await propose_one(ctx, encode(command))
    return _reply(ctx, request, created=accepted.created)


@operation(
    "Delete a secret",
    {204: None},
    query=("force",),
    headers=("If-Match",),
    codes=(*WRITES, "stale-revision", "in-use"),
    role="editor",
)
async def delete(ctx: ApiContext, request: web.Request) -> web.Response:
    """Refused while jobs refer to it. With `force` it goes all the same, and their runs fail."""
    query = Query(request, "force")
    force = query.flag("force")
    namespace, name = request.match_info["ns"], request.match_info["name"]
    if not names.NAMESPACE.allows(namespace) or not names.SECRET.allows(name):
        raise _unknown(namespace, name)
    revision = if_match(request)
    if revision is None and "If-Match" in request.headers:
        await _exists(ctx, request)
    await propose_one(ctx, encode(DeleteSecret(namespace, name, revision, force)))
    return web.Response(status=204)


def _read(raw: bytes) -> tuple[bytes, bool | None]:
    """The value, and whether it is shared. Raises Problem."""
    try:
        given: Any = msgspec.json.decode(raw)
        strict.refuse_repeats(raw)
    except (ValueError, RecursionError):
        raise Problem("invalid-json", "The body is not JSON; it is an object with the value.") from None
    if not isinstance(given, dict):
        raise Problem("invalid-body", errors=[FieldError("", 'must be an object such as {"value": "..."}')])
    errors: list[FieldError] = []
    if given.keys() - _FIELDS - SECRET_READ_ONLY:
        errors.append(FieldError("", "has a field that is not known; known are shared, value"))
    value, shared = given.get("value"), given.get("shared")
    text = value if isinstance(value, str) else ""
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= SECRET_VALUE_MAX or "\0" in value:
        errors.append(FieldError("/value", f"must be a string of 1 to {SECRET_VALUE_MAX:,} bytes, without NUL"))
    if shared is not None and not isinstance(shared, bool):
        errors.append(FieldError("/shared", "must be true or false"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    return text.encode(), shared


def _unknown(namespace: str, name: str) -> Problem:
    return Problem("not-found", f"There is no secret {namespace[:64]}/{name[:128]}; PUT makes one.")


def _find(ctx: ApiContext, request: web.Request) -> Secret | None:
    namespace, name = request.match_info["ns"], request.match_info["name"]
    if not names.NAMESPACE.allows(namespace) or not names.SECRET.allows(name):
        return None
    with ctx.read() as view:
        return find_secret(view, namespace, name)


async def _exists(ctx: ApiContext, request: web.Request) -> None:
    """If-Match: *. Raises Problem stale-revision."""
    if _find(ctx, request) is None:
        await catch_up(ctx)
    if _find(ctx, request) is None:
        detail = "If-Match was given, but the secret does not exist; leave it out to create it."
        raise Problem("stale-revision", detail)


def _reply(ctx: ApiContext, request: web.Request, *, created: bool = False) -> web.Response:
    found = _find(ctx, request)
    if found is None:
        raise _unknown(request.match_info["ns"], request.match_info["name"])
    headers = {"ETag": etag_of(found.revision)}
    if created:
        headers["Location"] = f"/v1/namespaces/{found.namespace}/secrets/{found.name}"
    return reply_value(_shown(found), 201 if created else 200, headers)


def _shown(secret: Secret) -> SecretOut:
    return SecretOut(
        name=secret.name,
        namespace=secret.namespace,
        shared=secret.shared,
        sealed=bool(secret.nonce),
        revision=secret.revision,
        created_at=format_time(secret.created_at_ms),
        modified_at=format_time(secret.modified_at_ms),
    )
