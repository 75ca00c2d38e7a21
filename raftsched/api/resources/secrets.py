"""/v1/secrets and /v1/namespaces/{ns}/secrets/{name}: put, listed, deleted. Nobody reads a value back.

No answer repeats any part of a request: what is taken for another field may be the value.
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.context import ApiContext
from raftsched.api.http import strict
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one
from raftsched.api.resources.named import NamedResource, Write, list_page, serve
from raftsched.api.serving import serves
from raftsched.bounds import SECRET_VALUE_MAX
from raftsched.core.commands import encode
from raftsched.core.rows import SECRETS as ROWS
from raftsched.core.subjects.secret import DeleteSecret, PutSecret, Secret
from raftsched.core.tables import ReadView, Table
from raftsched.surface import secrets as surface
from raftsched.surface.secrets import SecretIn, SecretOut

_FIELDS = frozenset(SecretIn.__struct_encode_fields__)
_READ_ONLY = frozenset(SecretOut.__struct_fields__) - _FIELDS


async def _command(ctx: ApiContext, write: Write[Secret]) -> PutSecret:
    (namespace, name), (value, shared) = write.names, write.value
    nonce = digest = b""
    if ctx.security.sealer is not None:
        nonce, value, digest = ctx.security.sealer.seal(namespace, name, value)
    return PutSecret(namespace, name, value, nonce, digest, shared, write.revision, write.only_new)


def _read(raw: bytes) -> tuple[bytes, bool | None]:
    """Returns the value, and whether it is shared. Raises Problem."""
    try:
        given: Any = msgspec.json.decode(raw)
        strict.refuse_repeats(raw)
    except (ValueError, RecursionError):
        raise Problem("invalid-json", "The body is not JSON; it is an object with the value.") from None
    if not isinstance(given, dict):
        raise Problem("invalid-body", errors=[FieldError("", 'must be an object such as {"value": "..."}')])
    errors: list[FieldError] = []
    if given.keys() - _FIELDS - _READ_ONLY:
        errors.append(FieldError("", "has a field that is not known; known are shared, value"))
    value, shared = given.get("value"), given.get("shared")
    text = value if isinstance(value, str) else ""
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= SECRET_VALUE_MAX or "\0" in value:
        described = 1 <= len(text) <= SECRET_VALUE_MAX and "\0" not in text  # in characters
        detail = f"must be a string of 1 to {SECRET_VALUE_MAX:,} bytes, without NUL"
        errors.append(FieldError("/value", detail, "out-of-range" if described else None))
    if shared is not None and not isinstance(shared, bool):
        errors.append(FieldError("/shared", "must be true or false"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    return text.encode(), shared


def _shown(ctx: ApiContext, view: ReadView, secret: Secret, among: int) -> SecretOut:
    return SecretOut(
        name=secret.name,
        namespace=secret.namespace,
        shared=secret.shared,
        sealed=bool(secret.nonce),
        revision=secret.revision,
        created_at=format_time(secret.created_at_ms),
        modified_at=format_time(secret.modified_at_ms),
    )


SECRETS = NamedResource(
    surface.SECRETS,
    rows=ROWS,
    name_rules=(names.NAMESPACE, names.SECRET),
    absent="There is no secret {0}/{1}; PUT makes one.",
    unmet="the secret does not exist; leave it out to create it",
    shown=_shown,
    command=_command,
    read=_read,
)
serve(SECRETS, surface.GET, surface.PUT)


@serves(surface.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    def shown(view: ReadView, secret: Secret, of: int) -> SecretOut:
        return _shown(ctx, view, secret, of)

    namespace = call.query.text("namespace")
    prefix = b"" if namespace is None else namespace.encode() + b"\0"

    def take(view: ReadView, key: bytes, raw: bytes) -> Secret:
        return ROWS.decode(raw)

    return await list_page(ctx, call, "secrets", Table.SECRETS, take, shown, prefix=prefix)


@serves(surface.DELETE)
async def delete(ctx: ApiContext, call: Call[None]) -> web.Response:
    namespace, name = SECRETS.checked(SECRETS.names(call))
    await propose_one(ctx, encode(DeleteSecret(namespace, name, call.if_match, call.query.flag("force"))))
    return web.Response(status=204)
