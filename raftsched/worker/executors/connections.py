"""Opens connections for requests, with TLS and without, and passes bytes over them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Protocol

from raftsched.worker.executors.answers import CHUNK


class Connection(Protocol):
    """A connection of one request."""

    async def send(self, data: bytes) -> None:
        """Returns when it is on its way. Raises OSError."""

    async def read(self, size: int) -> bytes:
        """Returns what has come, at most so much of it; empty: the end. Raises OSError."""

    def close(self) -> None:
        """Ends it at once."""


class Plain:
    """A socket and no more: the streams of asyncio cost each request 40 us of processor time."""

    def __init__(self, connected: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._socket, self._loop = connected, loop

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def read(self, size: int) -> bytes:
        return await self._loop.sock_recv(self._socket, size)

    def close(self) -> None:
        self._socket.close()


class Secure:
    """A connection with TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read(self, size: int) -> bytes:
        return await self._reader.read(size)

    def close(self) -> None:
        self._writer.transport.abort()


async def connected(address: str, port: int, loop: asyncio.AbstractEventLoop) -> socket.socket:
    """Returns a socket that is connected, and never waits. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await loop.sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection


async def plain(address: str, port: int, loop: asyncio.AbstractEventLoop) -> Connection:
    """Connects without TLS. Raises OSError."""
    return Plain(await connected(address, port, loop), loop)


async def secure(address: str, port: int, tls: ssl.SSLContext, name: str) -> Connection:
    """Connects with TLS to who proves to be `name`. Raises OSError."""
    return Secure(*await asyncio.open_connection(address, port, ssl=tls, server_hostname=name, limit=CHUNK))
