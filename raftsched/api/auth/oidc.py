"""/v1/cluster/oidc: whose tokens are taken beside the cluster's own, and which roles they give."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.auth.access import oidc_of
from raftsched.api.auth.issuer import MISSING, can_verify, is_safe
from raftsched.api.auth.oidc_verify import setting_of
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply_tagged
from raftsched.api.http.requests import NAMESPACE_HELP
from raftsched.api.serving import serves
from raftsched.bounds import TOKEN_NAMESPACES_MAX
from raftsched.core.commands import encode
from raftsched.core.subjects.access import OIDC_MAX, Oidc, SetOidc
from raftsched.surface import oidc as surface
from raftsched.surface.oidc import ALGORITHMS_MAX, RULES_MAX, OidcIn, OidcOut

_json = msgspec.json.Encoder(order="deterministic").encode


@serves(surface.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    return _reply(call, oidc_of(ctx))


@serves(surface.PUT)
async def put(ctx: ApiContext, call: Call[OidcIn]) -> web.Response:
    given = call.body
    content = _content(given)
    if not can_verify():
        raise Problem("not-possible", MISSING)
    await propose_one(ctx, encode(SetOidc(content, _if_match(ctx, call))))
    return _reply(call, oidc_of(ctx))


@serves(surface.DELETE)
async def delete(ctx: ApiContext, call: Call[None]) -> web.Response:
    await propose_one(ctx, encode(SetOidc(b"", _if_match(ctx, call))))
    return web.Response(status=204)


def _if_match(ctx: ApiContext, call: Call[Any]) -> int | None:
    """Raises Problem stale-revision: If-Match: *, and nothing is set."""
    revision = call.if_match
    if revision is None and call.must_exist and not oidc_of(ctx).content:
        raise Problem("stale-revision", "If-Match was given, but nothing is set; leave it out to set it.")
    return revision


def _reply(call: Call[Any], row: Oidc) -> web.Response:
    setting = setting_of(row)
    if setting is None:
        raise Problem("not-found", "Tokens of an issuer are not taken here; PUT says whose are.")
    shown = OidcOut(**msgspec.structs.asdict(setting), revision=row.revision)
    return reply_tagged(call.request, shown, row.revision)


def _content(given: OidcIn) -> bytes:
    """Raises Problem invalid-body with all that is wrong."""
    errors: list[FieldError] = []
    if "?" in given.issuer or "#" in given.issuer or not is_safe(given.issuer):
        errors.append(FieldError("/issuer", "must be https://HOST[:PORT][/PATH]; http is for this machine (127.0.0.1)"))
    for name, text, max_length in (
        ("audience", given.audience, 256),
        ("client_id", given.client_id, 256),
        ("username_claim", given.username_claim, 128),
    ):
        if text is not None and not 1 <= len(text) <= max_length:
            errors.append(FieldError(f"/{name}", f"must have 1 to {max_length} characters"))
    if not 1 <= len(given.algorithms) <= ALGORITHMS_MAX:
        errors.append(FieldError("/algorithms", f"must name 1 to {ALGORITHMS_MAX} algorithms, such as RS256"))
    if not 1 <= len(given.rules) <= RULES_MAX:
        errors.append(FieldError("/rules", f"must have 1 to {RULES_MAX} rules: without one nobody gets a role"))
    for place, rule in enumerate(given.rules):
        at = f"/rules/{place}"
        for name, text, max_length in (("claim", rule.claim, 128), ("value", rule.value, 256)):
            if not 1 <= len(text) <= max_length:
                errors.append(FieldError(f"{at}/{name}", f"must have 1 to {max_length} characters"))
        namespaces = rule.namespaces
        if namespaces is None:
            continue
        if rule.role == "admin":
            errors.append(
                FieldError(f"{at}/namespaces", "must be left out: an admin is one everywhere", "inconsistent")
            )
        if not 1 <= len(namespaces) <= TOKEN_NAMESPACES_MAX:
            errors.append(FieldError(f"{at}/namespaces", f"must be 1 to {TOKEN_NAMESPACES_MAX}, or null for all"))
        for number, namespace in enumerate(namespaces):
            if not names.NAMESPACE.allows(namespace):
                errors.append(FieldError(f"{at}/namespaces/{number}", NAMESPACE_HELP))
    content = _json(given)
    if not errors and len(content) > OIDC_MAX:
        errors.append(FieldError("", f"takes {len(content):,} bytes; {OIDC_MAX:,} is the limit", "out-of-range"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    return content
