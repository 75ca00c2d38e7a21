"""/openapi.json, and /docs: the same for people, on one page that needs nothing from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import orjson
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.replies import reply
from raftsched.api.openapi.description import describe
from raftsched.api.openapi.docs_page import render
from raftsched.api.openapi.operation import JSON, Reply, operation
from raftsched.api.serving import Route

_HTML = "text/html"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Documents:
    """Made when first asked for: a node that nobody asks does not pay for it. In a thread: it takes up to a second, and
    a leader that is silent for so long is one no more."""

    def __init__(self, routes: Sequence[Route], version: str) -> None:
        self._routes = routes
        self._version = version
        self._json: bytes | None = None
        self._html: bytes | None = None
        self._making = asyncio.Lock()

    async def json(self) -> bytes:
        async with self._making:
            if self._json is None:
                self._json = await asyncio.to_thread(self._make_json)
        return self._json

    async def html(self) -> bytes:
        made = await self.json()
        async with self._making:
            if self._html is None:
                self._html = await asyncio.to_thread(_make_html, made)
        return self._html

    def _make_json(self) -> bytes:
        return orjson.dumps(describe(self._routes, self._version))


def _make_html(description: bytes) -> bytes:
    return render(msgspec.json.decode(description)).encode()


DOCUMENTS: web.AppKey[Documents] = web.AppKey("documents", Documents)


@operation("API description in OpenAPI 3.1", {200: Reply({"type": "object"}, "OpenAPI.", (), JSON)}, role="open")
async def openapi(ctx: ApiContext, call: Call[None]) -> web.Response:
    """Describes all operations with their parameters, bodies, answers and problems, for programs that make clients
    or check requests."""
    return reply(await call.request.app[DOCUMENTS].json())


@operation("API documentation as a web page", {200: Reply({"type": "string"}, "A page.", (), _HTML)}, role="open")
async def page(ctx: ApiContext, call: Call[None]) -> web.Response:
    """The same as /openapi.json, for people. It needs no script, and nothing from anywhere else."""
    headers = {"Content-Type": f"{_HTML}; charset=utf-8", "Content-Security-Policy": _POLICY}
    return web.Response(body=await call.request.app[DOCUMENTS].html(), headers=headers)
