"""Listening: the application behind its front factory, from start to an orderly stop."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from typing import Any

from aiohttp import web

from raftsched.api.auth.unknown_tokens import UNKNOWN_TOKENS
from raftsched.api.context import ApiContext
from raftsched.api.http.acceptor import Acceptor
from raftsched.api.http.app import METRICS, UNROUTABLE, build_app
from raftsched.api.http.connections import Connections
from raftsched.api.http.fallback import Fallback
from raftsched.api.http.fastpath import IDLE_S, Connection, ConnectionFactory
from raftsched.api.http.tls import Certificates
from raftsched.api.http.tls_acceptor import TlsAcceptor, bind
from raftsched.surface.jobs import CREATE
from raftsched.system import background

STOP_S = 5.0  # for requests that are being answered when the node stops
_BACKLOG = 4_096
LOOK_S = 5.0  # between two looks for connections that take too long

# What cannot be read as HTTP is the client's fault and answered with 400; it does not belong into this node's log.
_quiet = logging.getLogger("raftsched.api.aiohttp")
_quiet.setLevel(logging.CRITICAL)


def _is_loopback(host: str) -> bool:
    """A browser would keep to TLS for all else that listens there, too."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ApiServer:
    """The API on one address."""

    def __init__(self, runner: web.AppRunner, factory: ConnectionFactory, server: Acceptor | TlsAcceptor) -> None:
        self._runner = runner
        self._factory = factory
        self._server = server
        self._sweeper = background.repeat("api-connections", factory.close_slow, LOOK_S)

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
        ctx.security.strict_transport = tls is not None and not _is_loopback(host)
        app = build_app(ctx)
        runner = web.AppRunner(app, shutdown_timeout=STOP_S)
        await runner.setup()
        try:
            assert runner.server is not None
            manager = runner.server
            options: dict[str, Any] = {
                "access_log": None,
                "logger": _quiet,
                "keepalive_timeout": IDLE_S,
                "auto_decompress": False,  # who may send what is decided before anything is inflated (requests.py)
            }

            def fallback(connection: Connection) -> Fallback:
                return Fallback(connection, ctx, app[UNROUTABLE], manager, **options)

            places = Connections(ctx.bounds, ctx.clock.monotonic)
            factory = ConnectionFactory(
                ctx, app[METRICS].route("POST", CREATE.path), app[UNKNOWN_TOKENS], fallback, places
            )
            server = await _listen(factory, host, port, tls, sock)
            ctx.registry.register(places)
        except BaseException:
            await runner.cleanup()
            raise
        return cls(runner, factory, server)

    @property
    def port(self) -> int:
        return self._server.port

    def accept(self) -> asyncio.Protocol:
        """The server's side of one more connection, for who brings it without a socket (to the process's own code)."""
        return self._factory()

    async def stop(self) -> None:
        """New connections are refused, what is being answered gets its answer, then connections are closed. When it
        returns none is left."""
        self._sweeper.cancel()
        self._server.close()
        await self._server.wait_closed()  # nothing that is still on its way in is missed below
        await self._factory.drain(STOP_S)
        await self._runner.cleanup()
        await self._factory.wait_closed()


async def _listen(
    factory: ConnectionFactory, host: str, port: int, tls: Certificates | None, sock: socket.socket | None
) -> Acceptor | TlsAcceptor:
    """Raises OSError."""
    if sock is not None:
        sock.listen(_BACKLOG)
    sockets = await bind(host, port, _BACKLOG) if sock is None else [sock]
    if tls is None:
        return Acceptor(sockets, factory.places, factory)
    entrance = TlsAcceptor(factory.counted, tls, sockets, factory.ctx.clock, factory.places.sharing)
    factory.ctx.registry.register(entrance)
    return entrance
