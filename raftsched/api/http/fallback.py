"""The fallback: aiohttp's protocol, with this API's words and bounds where aiohttp has its own or none.

What a request's handler has not read of its body is thrown away: a little is waited for, so that the connection goes
on; with more, the connection ends (Connection.drain). Requests that no route can be found for get the same checks and
the same problems as all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast

from aiohttp import http_exceptions, web

from raftsched.api.auth.access import is_locked
from raftsched.api.auth.callers import caller
from raftsched.api.auth.lock import refusal
from raftsched.api.context import ApiContext
from raftsched.api.http.failures import failed
from raftsched.api.http.fastpath import Connection
from raftsched.api.http.problems import Problem, answer
from raftsched.api.http.replies import stamp
from raftsched.api.http.requests import unknown_encoding

LINGER_S = 1.0  # how long the little that is left of a refused body is waited for
LINGER_MAX = 64 * 1024  # bytes that are a little
# What is taken of a body that is over its limit, from who was let in: simple clients, and proxies for them, read an
# answer only when they have sent everything.
OVER_MAX = 64 * 1024 * 1024  # bytes
OVER_S = 10.0
_log = logging.getLogger(__name__)

UnroutableHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Fallback(web.RequestHandler):
    """Answers the requests of one connection through aiohttp."""

    __slots__ = ("_behind", "_connection", "_ctx", "_unroutable")

    def __init__(
        self, connection: Connection, ctx: ApiContext, odd: UnroutableHandler, manager: web.Server, **options: Any
    ) -> None:
        """`odd` answers what names no path."""
        super().__init__(manager, loop=asyncio.get_running_loop(), lingering_time=LINGER_S, **options)
        self._connection = connection
        self._ctx = ctx
        self._unroutable = odd
        self._behind = False  # the request at hand came with others before it

    # ------------------------------------------------------------ inner.FallbackProtocol

    @property
    def has_answer_due(self) -> bool:
        return self._request_in_progress or bool(self._messages)

    @property
    def answers_whole_request(self) -> bool:
        request = self._current_request
        if request is None:
            return bool(self._messages)
        return request.content.is_eof() and request.writer.output_size == 0

    @property
    def client_ended(self) -> bool:
        return self._connection.ended

    # ------------------------------------------------------------ aiohttp's

    async def _handle_request(
        self, request: web.BaseRequest, start_time: float | None, request_handler: UnroutableHandler
    ) -> tuple[web.StreamResponse, bool]:
        behind, self._behind = self._behind, bool(self._messages)
        if behind:
            await self._connection.fair_queue.turn()
        if is_unroutable(request):
            request_handler = self._unroutable
        return await super()._handle_request(request, start_time, request_handler)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        whole = request.content.is_eof()
        length = request.content_length
        large = not whole and (length is None or length > LINGER_MAX)
        late = resp.status == HTTPStatus.REQUEST_TIMEOUT
        if large or late or (self._connection.ended and not self._messages) or is_unroutable(request):
            resp.force_close()
        resp, lost = await super().finish_response(request, resp, start_time)
        self._connection.answered(caller(), whole=whole)
        if (large or late) and not lost and self.transport is not None:
            self._force_close = True  # it does not close the transport then, nor read what is left
            if resp.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                self._connection.drain(OVER_MAX, OVER_S)
            else:
                self._connection.drain()
        return resp, lost

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        if status < 500 and is_locked(self._ctx):
            response = refusal(self._ctx)
            response.force_close()
            return response
        if status >= 500:
            problem = failed(_log, request.headers, exc, "a request failed")
        elif isinstance(exc, http_exceptions.ContentEncodingError):
            problem = unknown_encoding(request.headers.get("Content-Encoding", ""))
        else:
            problem = Problem("invalid-request", _said(exc), headers={"Connection": "close"})
        response = answer(problem)
        stamp(self._ctx, response.headers)
        response.force_close()
        return response


def sends_no_more(request: web.BaseRequest) -> bool:
    """Returns whether the client has closed its half of the connection, as it has when it was killed."""
    return isinstance(request.protocol, Fallback) and request.protocol.client_ended


def is_unroutable(request: web.BaseRequest) -> bool:
    """Returns whether a request cannot have a route: it names no path, or asks for another protocol. An absolute
    address is a path, too (RFC 9112, section 3.2.2)."""
    target = request.raw_path
    if request.method == "CONNECT" or not (target.startswith(("/", "http://", "https://"))):
        return True
    headers = request.headers
    return "Upgrade" in headers and "upgrade" in headers.get("Connection", "").lower()


def refuse_unroutable(request: web.BaseRequest, methods: str) -> Problem:
    """Returns the problem to answer with. `methods`: those that the API has."""
    if "Upgrade" in request.headers and request.method != "CONNECT":
        said = f"Upgrade to {request.headers['Upgrade'][:40]} is not possible; this is HTTP/1.1, leave Upgrade out."
        return Problem("invalid-request", said)
    if request.method == "CONNECT" or request.raw_path == "*":
        return Problem(
            "method-not-allowed",
            f"{request.method} {request.raw_path[:80]} is not possible: this is no proxy; use {methods} with a path.",
            headers={"Allow": methods},
        )
    return Problem("invalid-request", "The target must be a path, such as /v1/jobs.")


def _said(error: BaseException | None) -> str:
    """Returns the reason in words of this API: the parser's own quote the request and its place in memory."""
    if isinstance(error, http_exceptions.LineTooLong):
        return "A line of the request is too long; at most 8,190 bytes are read."
    if isinstance(error, http_exceptions.BadHttpMethod):
        return "The request has no method that is known."
    if isinstance(error, http_exceptions.TransferEncodingError):
        return "The body is not chunked as its headers say."
    if isinstance(error, http_exceptions.ContentLengthError):
        return "The body has not the length that its headers say."
    return "The request is not well-formed HTTP/1.1."


def handler_of(endpoint: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> UnroutableHandler:
    """Returns the endpoint as a handler of requests that have no route."""
    return cast(UnroutableHandler, endpoint)
