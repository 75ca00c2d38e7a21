"""Load over HTTP/1.1 with a client that costs little, and the requests that the benchmarks send."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from tests.support.cluster import NodeProcess

HANDLER = {"python": "raftsched.samples:noop"}


class Connection(asyncio.Protocol):
    """One keep-alive connection; one request at a time."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        stop = head.find(b"\r\n", at)
        size = int(head[at + 15 : stop if stop > 0 else None]) if at > 0 else 0  # 204 has no body
        if len(self._buffer) - end - 4 < size:
            return
        answer, self._answer = self._answer, None
        body, self._buffer = self._buffer[end + 4 :], b""
        if answer is not None and not answer.done():
            answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("closed by the node"))

    def send(self, raw: bytes) -> asyncio.Future[tuple[int, bytes]]:
        if self.transport is None:
            raise ConnectionResetError("closed by the node")
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(raw)
        return self._answer


def request(method: str, path: str, port: int, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def closed_loop(
    port: int,
    connections: int,
    seconds: float,
    make: Callable[[], bytes],
    good: int,
    tls: ssl.SSLContext | None = None,
) -> tuple[int, float, list[float]]:
    """(answers, seconds, latencies in ms); stops at the first answer that is not `good`."""
    loop = asyncio.get_running_loop()
    pool = [(await loop.create_connection(Connection, "127.0.0.1", port, ssl=tls))[1] for _ in range(connections)]
    latencies: list[float] = []
    start = time.perf_counter()
    end = start + seconds

    async def worker(connection: Connection) -> None:
        sent = time.perf_counter()
        while True:  # once at the least, however slow the machine is
            status, body = await connection.send(make())
            if status != good:
                raise RuntimeError(f"status {status}: {body[:300]!r}")
            now = time.perf_counter()
            latencies.append((now - sent) * 1000)
            if now >= end:
                return
            sent = now

    try:
        await asyncio.gather(*(worker(c) for c in pool))
    finally:
        for connection in pool:
            if connection.transport is not None:
                connection.transport.close()
    return len(latencies), time.perf_counter() - start, latencies


class OpenLoad:
    """Requests at a steady rate whatever the answers do: when no connection is free another one is opened, up to
    `connections`. Beyond that requests wait in line, and `waited` counts them: then the line is what is measured. A
    latency counts from when the request was due."""

    def __init__(self, port: int, per_second: int, connections: int, make: Callable[[], bytes], good: int) -> None:
        self.open = 0  # connections
        self.waited = 0
        self.answers: list[tuple[float, float]] = []  # (perf_counter of the answer, latency in ms)
        self._port = port
        self._per_second = per_second
        self._connections = connections
        self._make = make
        self._good = good
        self._due: asyncio.Queue[float] = asyncio.Queue()
        self._idle = 0  # connections that wait for a request
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> OpenLoad:
        self._tasks.append(asyncio.create_task(self._pace()))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Raises what went wrong with a request."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def window(self, start: float, end: float) -> tuple[float, list[float]]:
        """(answers a second, latencies in ms) between two moments of perf_counter"""
        latencies = [latency for at, latency in self.answers if start <= at < end]
        return len(latencies) / (end - start), latencies

    async def _pace(self) -> None:
        start, sent = time.perf_counter(), 0
        while True:
            now = time.perf_counter()
            while (due := start + sent / self._per_second) <= now:
                self._due.put_nowait(due)
                sent += 1
                if self._due.qsize() > self._idle:
                    if self.open < self._connections:
                        self.open += 1
                        self._idle += 1
                        self._tasks.append(asyncio.create_task(self._send()))
                    else:
                        self.waited += 1
            await asyncio.sleep(0.001)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self._port)
        try:
            while True:
                due = await self._due.get()
                self._idle -= 1
                status, body = await connection.send(self._make())
                if status != self._good:
                    raise RuntimeError(f"status {status}: {body[:300]!r}")
                now = time.perf_counter()
                self.answers.append((now, (now - due) * 1000))
                self._idle += 1
        finally:
            if connection.transport is not None:
                connection.transport.close()


# ---------------------------------------------------------------- jobs


def one_shot(at_ms: int) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}Z"
    return {"trigger": {"at": at}, "handler": HANDLER, "params": {}}


def far() -> int:
    """A due time that the benchmark does not live to see, as spread as those of real users."""
    return int(time.time() * 1000) + random.randrange(3_600_000, 10 * 3_600_000)


def payloads(count: int, make: Callable[[], bytes]) -> Callable[[], bytes]:
    """Requests made beforehand, so that making them is not what is measured."""
    made = [make() for _ in range(count)]

    def cycle() -> Iterator[bytes]:
        while True:
            yield from made

    return cycle().__next__


async def create_all(node: NodeProcess, jobs: list[dict[str, Any]]) -> None:
    """Creates them in batches of 500 over four connections; every item must be accepted."""
    chunks = [jobs[i : i + 500] for i in range(0, len(jobs), 500)]
    await create_batches(node, (json.dumps(chunk).encode() for chunk in chunks))


async def create_batches(node: NodeProcess, bodies: Iterator[bytes]) -> None:
    """Each body is an array of jobs; four connections at a time; every item must be accepted."""

    def check(status: int, answer: bytes) -> None:
        if status != 200 or any(item["status"] != 201 for item in json.loads(answer)["items"]):
            raise RuntimeError(f"status {status}: {answer[:300]!r}")

    port = node.http_port
    await send_all(port, 4, (request("POST", "/v1/jobs:batch", port, body) for body in bodies), check)


async def send_all(port: int, connections: int, requests: Iterator[bytes], check: Callable[[int, bytes], None]) -> None:
    """Sends each request once, over so many connections; `check` raises for an answer that is not good."""
    loop = asyncio.get_running_loop()

    async def send(connection: Connection) -> None:
        for raw in requests:
            check(*await connection.send(raw))

    pool = [(await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(connections)]
    try:
        await asyncio.gather(*(send(c) for c in pool))
    finally:
        for connection in pool:
            if connection.transport is not None:
                connection.transport.close()


def rfc3339(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03d}Z"
