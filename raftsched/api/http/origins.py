"""Pages of other members: their origins, and what a browser is told when one of them asks here.

A page that was opened at one node goes on at another when its node dies. So a request is let in whose Origin is the
address that a member of this cluster announces; every other origin is refused. There are no cookies, and none are
allowed: a page has to send the token itself, which only the page that its owner signed in at has.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from aiohttp import web

from raftsched.api.auth.access import count_open
from raftsched.api.auth.peers import url_of
from raftsched.api.context import FRESH_S, ApiContext
from raftsched.api.rows import address_of

_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_ASKED = "Access-Control-Request-Method"
_HEADERS = "authorization, content-type, if-match, if-none-match, idempotency-key, last-event-id, accept"
_EXPOSED = (
    "ETag, Link, Location, Retry-After, WWW-Authenticate, Raftsched-Attempt, Raftsched-Index, Raftsched-Leader,"
    " Raftsched-Offset, Raftsched-Output-Truncated, Raftsched-Served-By, Raftsched-Snapshot-Index, Raftsched-Stale,"
    " Raftsched-Term"
)
_MAX_AGE_S = 600  # a browser remembers for so long that it may ask; whether it may is looked up each time
_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?", re.ASCII)
_PORTS = {"http": 80, "https": 443}


class MemberOrigins:
    """The origins of the members' pages as of a moment ago, this node's own address among them."""

    def __init__(self, ctx: ApiContext) -> None:
        self._ctx = ctx
        self._known: frozenset[str] = frozenset()
        self._known_at = float("-inf")

    def __contains__(self, origin: object) -> bool:
        return isinstance(origin, str) and normal(origin) in self.all()

    def all(self) -> frozenset[str]:
        """Returns them in their normal form."""
        now = self._ctx.clock.monotonic()
        if now - self._known_at > FRESH_S:
            self._known = frozenset(self._read())
            self._known_at = now
        return self._known

    def _read(self) -> Iterator[str]:
        peers = self._ctx.cluster.peers()
        members = [member.node for member in self._ctx.cluster.members.list()]
        with self._ctx.read() as view:
            for node in members:
                address = address_of(view, node, peers)
                origin = normal(url_of(address, "")) if address else None
                if origin is not None:
                    yield origin


def normal(origin: str) -> str | None:
    """Returns an origin as browsers write it (RFC 6454, section 6.1), without the port that its scheme has anyway; None
    for what is none."""
    match = _ORIGIN.fullmatch(origin.lower())
    if match is None:
        return None
    scheme, host, port = match[1], match[2], int(match[3] or _PORTS[match[1]])
    if host.startswith("["):
        try:
            host = f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]"
        except ValueError:
            return None
    return f"{scheme}://{host}" if port == _PORTS[scheme] else f"{scheme}://{host}:{port}"


_shown_to: ContextVar[str | None] = ContextVar("shown_to", default=None)


def show_to(origin: str | None) -> None:
    """Lets a page of this origin read the answers of this task from here on (`allow`); None: no other page."""
    _shown_to.set(origin)


def allow(headers: Any) -> None:
    """Sets the headers that let the page that asked read the answer, if it is one of another member."""
    origin = _shown_to.get()
    if origin is not None:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Expose-Headers"] = _EXPOSED
        headers["Vary"] = f"{headers['Vary']}, Origin" if "Vary" in headers else "Origin"


def may_ask(request: web.BaseRequest) -> bool:
    """Returns whether a browser only asks if a page of another member may ask (WHATWG Fetch, CORS-preflight)."""
    return request.method == "OPTIONS" and _ASKED in request.headers and _shown_to.get() is not None


def preflight(ctx: ApiContext, request: web.Request) -> web.Response:
    """Returns the answer to a browser that only asks; the page's requests are judged one by one. Raises Problem
    rate-limited."""
    count_open(ctx, request.remote or "")
    allowed = {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": _HEADERS,
        "Access-Control-Max-Age": str(_MAX_AGE_S),
    }
    return web.Response(status=204, headers=allowed)
