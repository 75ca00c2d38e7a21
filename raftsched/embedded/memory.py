"""Connects two ends within a process: they hand bytes to each other, without a socket between them.

What is written to one end reaches the other's protocol in a later turn of the event loop, in order, as asyncio's
transports do it (flow control too), so that both sides are the same code that speaks over sockets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientTimeout
    from aiohttp.tracing import Trace

HIGH_BYTES = 256 * 1024  # on their way to one end: from here on the other is asked to pause
LOW_BYTES = 64 * 1024


class _End(asyncio.Transport):
    """An end of a connection. `other` is set by `connect`."""

    other: _End

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__()
        self._loop = loop
        self._protocol: Any = protocol
        self._inbox: deque[bytes] = deque()
        self._size = 0
        self._reading = True
        self._closing = False
        self._lost = False
        self._due = False
        self._told_to_pause = False  # the other end's protocol

    # ------------------------------------------------------------ asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._closing:
            self.other._take(bytes(data))

    def close(self) -> None:
        """Closes this end: what was written still arrives, and nothing is read any more."""
        if not self._closing:
            self._closing = True
            self._inbox.clear()
            self._schedule()
            self.other._schedule()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return False

    def write_eof(self) -> None:
        raise NotImplementedError

    def get_write_buffer_size(self) -> int:
        return self.other._size

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    # ------------------------------------------------------------ what arrives

    def _take(self, data: bytes) -> None:
        if self._closing:
            return
        self._inbox.append(data)
        self._size += len(data)
        if self._size > HIGH_BYTES and not self._told_to_pause:
            self._told_to_pause = True
            self.other._protocol.pause_writing()
        self._schedule()

    def _schedule(self) -> None:
        if not self._due and not self._lost:
            self._due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        while self._inbox and self._reading and not self._closing:
            data = self._inbox.popleft()
            self._size -= len(data)
            self._protocol.data_received(data)
        if self._told_to_pause and not self.other._lost and (self._size < LOW_BYTES or self._closing):
            self._told_to_pause = False
            self.other._protocol.resume_writing()
        if self._lost:
            return
        if self._closing:
            self._end()
        elif self.other._closing and not self._inbox:
            self._closing = True
            self._protocol.eof_received()
            self._end()

    def _end(self) -> None:
        self._lost = True
        self._inbox.clear()
        self._size = 0
        self._protocol.connection_lost(None)


def connect(one: asyncio.BaseProtocol, other: asyncio.BaseProtocol) -> None:
    """Connects two protocols of the running loop."""
    loop = asyncio.get_running_loop()
    ends = _End(loop, one), _End(loop, other)
    ends[0].other, ends[1].other = ends[1], ends[0]
    other.connection_made(ends[1])
    one.connection_made(ends[0])


class Connector(aiohttp.BaseConnector):
    """Lets an aiohttp client speak with a server in this process, whatever address it asks for."""

    def __init__(self, accept: Callable[[], asyncio.BaseProtocol], *, limit: int) -> None:
        """`accept` gives the server's side of a connection; OSError when it takes none."""
        super().__init__(limit=limit)
        self._accept = accept

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout
    ) -> ResponseHandler:
        try:
            there = self._accept()
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        here = self._factory()
        connect(here, there)
        return here
