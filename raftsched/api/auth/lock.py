"""Refuses every request but those of health until the node has an admin token. `access.identify` does the same for the
fast path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from raftsched.api.auth.access import CHALLENGE, LOCKED, UnknownToken, asker, bearer_of, counted, digest_of, is_locked
from raftsched.api.auth.refusals import note_refusal
from raftsched.api.auth.unknown_tokens import UNKNOWN_TOKENS
from raftsched.api.cluster.metrics import RequestCounts
from raftsched.api.context import ApiContext
from raftsched.api.http import page
from raftsched.api.http.problems import Problem, answer
from raftsched.api.http.replies import stamp
from raftsched.errors import RaftschedError
from raftsched.surface.operation import HEALTH


def lock(ctx: ApiContext, counts: RequestCounts) -> Middleware:
    """Returns the middleware that refuses the requests of a locked node. Nothing of a body is read before."""

    @web.middleware
    async def locked(request: web.Request, handler: Handler) -> web.StreamResponse:
        health = request.path in HEALTH and request.method in ("GET", "HEAD")
        if health or not is_locked(ctx):
            return await handler(request)
        began = ctx.clock.monotonic()
        try:
            try:
                asker(ctx, request, peers=True)  # what it may do is seen later
            except UnknownToken:  # there may be an admin since a moment ago
                shown = request.headers.get("Authorization")
                address = request.remote or ""
                await request.app[UNKNOWN_TOKENS].resolve(ctx, digest_of(shown), address, bearer_of(shown))
        except RaftschedError as error:
            refused = counted(ctx, request.remote or "", error)
            response = answer(refused)
            if refused.code == "locked" and page.is_asked_for(request):
                await page.show_locked(response)
            note_refusal(ctx, response.status, request.method, request.path, "", request.remote or "")
            stamp(ctx, response.headers)
            counts.count(response.status, ctx.clock.monotonic() - began)
            return response
        return await handler(request)

    return locked


def unless_locked(
    ctx: ApiContext, odd: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Returns a handler for requests that no route is looked for: a locked node refuses them, too."""

    async def answered(request: web.Request) -> web.StreamResponse:
        return refusal(ctx) if is_locked(ctx) else await odd(request)

    return answered


def refusal(ctx: ApiContext) -> web.Response:
    """Returns the answer of a locked node to a caller that cannot be known."""
    headers = {"Connection": "close", "WWW-Authenticate": CHALLENGE}
    response = answer(Problem("locked", LOCKED, headers=headers))
    stamp(ctx, response.headers)
    return response
