"""The documentation (`raftsched.ui.docs`) as answers. It needs no token, like the page, and asks for nothing of the
API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from raftsched.api.auth.access import count_open
from raftsched.api.context import ApiContext
from raftsched.api.http.page import FOR_EVER, answer_file, guarded, is_asked_for, policy_of
from raftsched.api.http.problems import Problem
from raftsched.ui import docs

_CODINGS = ("gzip", "")  # br takes half a second for a long page, and there are some two hundred
_NONE = (
    "This node was installed without its documentation. Releases have it; in a checkout './scripts/docs node' makes it."
)

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


def endpoints(ctx: ApiContext) -> list[tuple[str, Endpoint]]:
    """Returns the addresses of the documentation, all of them for GET and HEAD, with what answers there."""

    async def asset(request: web.Request) -> web.StreamResponse:
        count_open(ctx, request.remote or "")
        found = await _docs()
        if request.match_info["digest"] != found.digest:
            raise Problem("not-found", "This is of another version of the documentation; load its page again.")
        name = request.match_info["name"]
        file = await asyncio.to_thread(found.asset, name) if name == docs.INDEX else found.asset(name)
        if file is None:
            raise Problem("not-found", f"The documentation has no file {name[:200]}.")
        return await answer_file(request, file, FOR_EVER, "", _CODINGS)

    async def page(request: web.Request) -> web.StreamResponse:
        count_open(ctx, request.remote or "")
        found = await _docs()
        path = request.path
        place = docs.HOME + path.removeprefix(docs.HOME.rstrip("/")).strip("/").removesuffix(".md")
        place = place.rstrip("/") + "/"
        file = await asyncio.to_thread(found.page, place)
        if file is None:
            return await _nothing(request, found)
        if path != place:
            return web.Response(status=302, headers={"Location": place})
        return guarded(await answer_file(request, file, "no-cache", "", _CODINGS), policy_of([]))

    return [
        (docs.HOME.rstrip("/"), page),
        (f"{docs.ASSETS}/{{digest}}/{{name}}", asset),
        (f"{docs.HOME}{{tail:.*}}", page),
    ]


async def _docs() -> docs.Docs:
    """Raises Problem not-found where there are none."""
    found = docs.load() if docs.load.cache_info().currsize else await asyncio.to_thread(docs.load)
    if found is None:
        raise Problem("not-found", _NONE)
    return found


async def _nothing(request: web.Request, found: docs.Docs) -> web.Response:
    if not is_asked_for(request):
        raise Problem("not-found", f"The documentation has no page {request.path[:200]}; {docs.HOME} lists all.")
    file = found.missing
    response = web.Response(status=404, body=file.body, headers={"Content-Type": file.media_type})
    return guarded(response, policy_of([]))
