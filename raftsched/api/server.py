"""Listening: the application behind its front door, from start to an orderly stop."""

from __future__ import annotations

import asyncio
import logging
import ssl

from aiohttp import web

from raftsched.api.app import METRICS, build_app
from raftsched.api.context import ApiContext
from raftsched.api.fastpath import Door

IDLE_S = 75.0  # a connection that says nothing for so long is closed
STOP_S = 5.0  # for requests that are being answered when the node stops
LINGER_S = 1.0  # how long the rest of a refused body is still taken, so that the client sees why
_BACKLOG = 4_096

# What cannot be read as HTTP is the client's fault and answered with 400; it does not belong into this node's log.
_quiet = logging.getLogger("raftsched.api.http")
_quiet.setLevel(logging.CRITICAL)


class ApiServer:
    """The API on one address."""

    def __init__(self, runner: web.AppRunner, door: Door, server: asyncio.Server) -> None:
        self._runner = runner
        self._door = door
        self._server = server
        self._sweeper = asyncio.ensure_future(self._sweep())

    @classmethod
    async def start(cls, ctx: ApiContext, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> ApiServer:
        """Raises OSError when the address cannot be bound. Port 0: any free one."""
        app = build_app(ctx)
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=_quiet,
            keepalive_timeout=IDLE_S,
            shutdown_timeout=STOP_S,
            lingering_time=LINGER_S,
        )
        await runner.setup()
        try:
            assert runner.server is not None
            door = Door(ctx, app[METRICS].route("POST", "/v1/jobs"), runner.server)
            loop = asyncio.get_running_loop()
            server = await loop.create_server(door, host, port, ssl=tls, backlog=_BACKLOG)
        except BaseException:
            await runner.cleanup()
            raise
        return cls(runner, door, server)

    @property
    def port(self) -> int:
        number: int = self._server.sockets[0].getsockname()[1]
        return number

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
