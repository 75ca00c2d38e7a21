"""/v1/whoami: what a caller is taken for."""

from __future__ import annotations

from typing import Literal

from aiohttp import web

from raftsched.api.auth.callers import Caller, caller, role_name
from raftsched.api.auth.oidc_schema import WhoGrant, WhoOut
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time_or_none
from raftsched.api.http.replies import reply_value
from raftsched.api.http.requests import READ
from raftsched.api.openapi.operation import operation
from raftsched.core.subjects.access import ANONYMOUS

Kind = Literal["token", "oidc", "local", "anonymous"]


@operation("Read the caller's identity", {200: WhoOut}, query=READ, role="viewer", scope="shared", of_caller=True)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    """The name, roles and expiry of the token that was sent. Workers may ask, too."""
    who = caller()
    shown = WhoOut(
        kind=_kind(who),
        name=who.name or ANONYMOUS,
        role=role_name(who.role),
        namespaces=None if who.namespaces is None else sorted(who.namespaces),
        grants=[WhoGrant(namespace, role_name(role)) for namespace, role in sorted(who.grants.items())],
        expires_at=format_time_or_none(who.expires_at_ms),
        issuer=None if who.issued is None else who.issued.issuer,
        subject=None if who.issued is None else who.issued.subject,
        queues=None if who.queues is None else sorted(who.queues),
    )
    return reply_value(shown)


def _kind(who: Caller) -> Kind:
    if who.issued is not None:
        return "oidc"
    if who.actor:
        return "token"
    return "local" if who.known else "anonymous"
