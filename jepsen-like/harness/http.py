"""One HTTP request on a connection of its own, and what is known when it goes wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class NotSent(Exception):
    """No connection: the node has not seen the request."""


class NoAnswer(Exception):
    """It was sent; whether it was done is not known."""


class Reply:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a problem: what went wrong, in a word."""
        try:
            problem = self.json
            return str(problem.get("code") or str(problem.get("type", "")).rpartition(":")[2] or self.status)
        except (ValueError, AttributeError):
            return str(self.status)


async def ask(
    address: tuple[str, int],
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    timeout_s: float = 5.0,
) -> Reply:
    """Raises NotSent or NoAnswer."""
    connection: list[asyncio.StreamWriter] = []
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(address, method, path, body, headers or {}, connection)
    except (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError) as error:
        kind = NoAnswer if connection else NotSent
        raise kind(f"{method} {path}: {type(error).__name__} {error}".rstrip()) from None
    finally:
        for writer in connection:
            writer.transport.abort()


async def _ask(
    address: tuple[str, int],
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    connection: list[asyncio.StreamWriter],
) -> Reply:
    reader, writer = await asyncio.open_connection(*address)
    connection.append(writer)
    raw = b"" if body is None else json.dumps(body).encode()
    sent = {"Host": f"{address[0]}:{address[1]}", "Connection": "close", "Content-Length": str(len(raw))}
    if body is not None:
        sent["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in (sent | headers).items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
    if fields.get("transfer-encoding") == "chunked":
        data = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            data += await reader.readexactly(size)
            await reader.readexactly(2)
    else:
        data = bytearray(await reader.readexactly(int(fields.get("content-length", "0"))))
    return Reply(int(head[0].split(" ")[1]), fields, bytes(data))
