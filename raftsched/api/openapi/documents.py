"""/openapi.json, and /docs: the same for people, on one page that needs nothing from anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import orjson
from aiohttp import web

from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.replies import reply
from raftsched.api.openapi.description import describe
from raftsched.api.openapi.docs_page import render
from raftsched.api.openapi.links import RouteLike
from raftsched.api.openapi.operation import JSON, Reply, operation

_HTML = "text/html"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Documents:
    """Made when first asked for: a node that nobody asks does not pay for it."""

    def __init__(self, routes: Sequence[RouteLike], version: str) -> None:
        self._routes = routes
        self._version = version
        self._json: bytes | None = None
        self._html: bytes | None = None

    @property
    def json(self) -> bytes:
        if self._json is None:
            self._json = orjson.dumps(describe(self._routes, self._version))
        return self._json

    @property
    def html(self) -> bytes:
        if self._html is None:
            self._html = render(msgspec.json.decode(self.json)).encode()
        return self._html


DOCUMENTS: web.AppKey[Documents] = web.AppKey("documents", Documents)


@operation("API description in OpenAPI 3.1", {200: Reply({"type": "object"}, "OpenAPI.", (), JSON)}, role="open")
async def openapi(ctx: ApiContext, call: Call[None]) -> web.Response:
    return reply(call.request.app[DOCUMENTS].json)


@operation("API documentation as a web page", {200: Reply({"type": "string"}, "A page.", (), _HTML)}, role="open")
async def page(ctx: ApiContext, call: Call[None]) -> web.Response:
    headers = {"Content-Type": f"{_HTML}; charset=utf-8", "Content-Security-Policy": _POLICY}
    return web.Response(body=call.request.app[DOCUMENTS].html, headers=headers)
