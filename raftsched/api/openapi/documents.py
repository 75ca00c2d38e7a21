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
from raftsched.api.serving import Route, serves
from raftsched.surface import documents

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
        from raftsched.api.openapi.description import describe  # what nobody asks for is not loaded

        return orjson.dumps(describe(self._routes, self._version))


def _make_html(description: bytes) -> bytes:
    from raftsched.api.openapi.docs_page import render

    return render(msgspec.json.decode(description)).encode()


DOCUMENTS: web.AppKey[Documents] = web.AppKey("documents", Documents)


@serves(documents.OPENAPI)
async def openapi(ctx: ApiContext, call: Call[None]) -> web.Response:
    return reply(await call.request.app[DOCUMENTS].json())


@serves(documents.PAGE)
async def page(ctx: ApiContext, call: Call[None]) -> web.Response:
    headers = {"Content-Type": f"{documents.HTML}; charset=utf-8", "Content-Security-Policy": _POLICY}
    return web.Response(body=await call.request.app[DOCUMENTS].html(), headers=headers)
