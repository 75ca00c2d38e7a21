"""Listening: the application behind its front door, from start to an orderly stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from typing import Any

from aiohttp import http_exceptions, web

from raftsched.api.app import METRICS, build_app
from raftsched.api.context import ApiContext
from raftsched.api.entrance import Entrance, bind
from raftsched.api.fastpath import Door
from raftsched.api.problems import Problem, answer
from raftsched.api.replies import stamp
from raftsched.api.requests import unknown_encoding
from raftsched.api.strangers import STRANGERS
from raftsched.api.tls import Certificates
from raftsched.errors import RaftschedError

IDLE_S = 75.0  # a connection that says nothing for so long is closed
STOP_S = 5.0  # for requests that are being answered when the node stops
LINGER_S = 1.0  # how long the rest of a refused body is still taken, so that the client sees why
_BACKLOG = 4_096

# What cannot be read as HTTP is the client's fault and answered with 400; it does not belong into this node's log.
_log = logging.getLogger(__name__)
_quiet = logging.getLogger("raftsched.api.http")
_quiet.setLevel(logging.CRITICAL)


class _Ordinary(web.RequestHandler):
    """aiohttp's protocol; what it cannot read is answered like any other problem."""

    __slots__ = ("ctx",)

    ctx: ApiContext

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        if status >= 500:
            _log.error("a request failed", exc_info=exc)
            problem = RaftschedError("internal", "An error of this node; its log says more.")
        elif isinstance(exc, http_exceptions.ContentEncodingError):
            problem = unknown_encoding(request.headers.get("Content-Encoding", ""))
        else:
            problem = Problem("invalid-request", _said(exc), headers={"Connection": "close"})
        response = answer(problem)
        stamp(self.ctx, response.headers)
        response.force_close()
        return response


def _is_loopback(host: str) -> bool:
    """A browser would keep to TLS for all else that listens there, too."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _said(error: BaseException | None) -> str:
    """In words of this API: the parser's own quote the request and where in memory it stands."""
    if isinstance(error, http_exceptions.LineTooLong):
        return "A line of the request is too long; at most 8,190 bytes are read."
    if isinstance(error, http_exceptions.BadHttpMethod):
        return "The request has no method that is known."
    if isinstance(error, http_exceptions.TransferEncodingError):
        return "The body is not chunked as its headers say."
    if isinstance(error, http_exceptions.ContentLengthError):
        return "The body has not the length that its headers say."
    return "The request is not well-formed HTTP/1.1."


class ApiServer:
    """The API on one address."""

    def __init__(self, runner: web.AppRunner, door: Door, server: asyncio.Server | Entrance) -> None:
        self._runner = runner
        self._door = door
        self._server = server
        self._sweeper = asyncio.ensure_future(self._sweep())

    @classmethod
    async def start(
        cls,
        ctx: ApiContext,
        host: str,
        port: int,
        *,
        tls: Certificates | None = None,
        sock: socket.socket | None = None,
    ) -> ApiServer:
        """Raises OSError when the address cannot be bound. Port 0: any free one. `sock`: already bound there. `tls`:
        this is shown, and nothing but TLS is spoken."""
        ctx.strict_transport = tls is not None and not _is_loopback(host)
        app = build_app(ctx)
        runner = web.AppRunner(app, shutdown_timeout=STOP_S)
        await runner.setup()
        try:
            assert runner.server is not None
            manager = runner.server
            loop = asyncio.get_running_loop()

            options: dict[str, Any] = {
                "access_log": None,
                "logger": _quiet,
                "keepalive_timeout": IDLE_S,
                "lingering_time": LINGER_S,
                "auto_decompress": False,  # who may send what is decided before anything is inflated (requests.py)
            }

            def ordinary() -> _Ordinary:
                protocol = _Ordinary(manager, loop=loop, **options)
                protocol.ctx = ctx
                return protocol

            door = Door(ctx, app[METRICS].route("POST", "/v1/jobs"), app[STRANGERS], ordinary)
            server = await _listen(door, host, port, tls, sock)
        except BaseException:
            await runner.cleanup()
            raise
        return cls(runner, door, server)

    @property
    def port(self) -> int:
        if isinstance(self._server, Entrance):
            return self._server.port
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    def accept(self) -> asyncio.Protocol:
        """The server's side of one more connection, for who brings it without a socket (to the process's own code)."""
        return self._door()

    async def stop(self) -> None:
        """New connections are refused, what is being answered gets its answer, then connections are closed."""
        self._sweeper.cancel()
        self._server.close()
        await self._door.drain(STOP_S)
        await self._runner.cleanup()
        await self._server.wait_closed()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(IDLE_S / 3)
            since = self._door.ctx.clock.monotonic() - IDLE_S
            for connection in list(self._door.connections):
                connection.close_if_idle(since)


async def _listen(
    door: Door, host: str, port: int, tls: Certificates | None, sock: socket.socket | None
) -> asyncio.Server | Entrance:
    """Raises OSError."""
    if tls is not None:
        if sock is not None:
            sock.listen(_BACKLOG)
        entrance = Entrance(door, tls, await bind(host, port, _BACKLOG) if sock is None else [sock], door.ctx.clock)
        door.ctx.registry.register(entrance)
        return entrance
    loop = asyncio.get_running_loop()
    # In two steps: create_server that is cancelled when it listens already would leave the port taken.
    if sock is None:
        server = await loop.create_server(door, host, port, backlog=_BACKLOG, start_serving=False)
    else:
        server = await loop.create_server(door, sock=sock, backlog=_BACKLOG, start_serving=False)
    try:
        await server.start_serving()
    except BaseException:
        server.close()
        raise
    return server
