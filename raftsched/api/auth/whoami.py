"""/v1/whoami: what a caller is taken for."""

from __future__ import annotations

from aiohttp import web

from raftsched.api.auth.callers import Caller, caller, role_name
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time_or_none
from raftsched.api.http.replies import reply_value
from raftsched.api.serving import serves
from raftsched.core.subjects.access import ANONYMOUS
from raftsched.surface import whoami
from raftsched.surface.whoami import WhoGrant, WhoKind, WhoOut


@serves(whoami.WHOAMI)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
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


def _kind(who: Caller) -> WhoKind:
    if who.issued is not None:
        return "oidc"
    if who.actor:
        return "token"
    return "local" if who.known else "anonymous"
