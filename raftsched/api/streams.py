"""Server-sent events (WHATWG HTML, section 9.2): framing, and what all streams of a node have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

import msgspec
from aiohttp import web

from raftsched.api.access import LOOK_S, still_holds
from raftsched.api.callers import Caller
from raftsched.api.context import ApiContext
from raftsched.api.problems import Problem, body_of
from raftsched.api.replies import stamp
from raftsched.errors import RaftschedError

MEDIA_TYPE = "text/event-stream"
STREAMS_MAX = 200  # of one node at one time
HEARTBEAT_S = 15.0  # of silence, after which a stream says that it is there
STALLED_S = 30.0  # that a reader may take nothing; then its connection is closed
RETRY_MS = 1_000  # after which a browser connects again

_HEADERS = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Streams:
    """Of one node: how many there are, and the word that ends them."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self._open = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Raises Problem overloaded."""
        if self._open >= STREAMS_MAX:
            raise Problem("overloaded", f"{STREAMS_MAX} streams are read from this node; ask another one.")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def unless_stopped(self, awaited: Awaitable[bool]) -> bool:
        """What is awaited, True when the node stops before."""
        work, stop = asyncio.ensure_future(awaited), asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else True
        finally:
            for task in (work, stop):
                task.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)


@contextmanager
def while_it_holds(ctx: ApiContext, request: web.Request, who: Caller) -> Iterator[None]:
    """The connection is cut when the token of its caller holds no longer, whatever the handler waits for."""
    watch = asyncio.create_task(_cut(ctx, request, who))
    try:
        yield
    finally:
        watch.cancel()


async def _cut(ctx: ApiContext, request: web.Request, who: Caller) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        if not still_holds(ctx, who):
            break
    if request.transport is not None:
        request.transport.abort()


STREAMS: web.AppKey[Streams] = web.AppKey("streams", Streams)


def frame(data: bytes = b"", ident: str = "", event: str = "") -> bytes:
    """One event. `data` is one line. Without data only the id is noted, and nothing is told to whoever listens."""
    parts = []
    if event:
        parts.append(f"event: {event}\n".encode())
    if ident:
        parts.append(f"id: {ident}\n".encode())
    if data:
        parts.append(b"data: " + data + b"\n")
    return b"".join(parts) + b"\n"


def problem_frame(error: RaftschedError) -> bytes:
    """What ends a stream that has begun, when it is too late for a status."""
    return frame(msgspec.json.encode(body_of(error)), event="problem")


async def begin(ctx: ApiContext, request: web.Request, first: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers=_HEADERS)
    stamp(ctx, response.headers)
    await response.prepare(request)
    if request.method != "HEAD":
        await send(request, response, f"retry: {RETRY_MS}\n".encode() + first)
    return response


async def send(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Raises ConnectionError when the reader has gone, or takes nothing for too long."""
    if request.transport is None:
        raise ConnectionResetError("the reader has gone")
    try:
        async with asyncio.timeout(STALLED_S):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the reader takes nothing") from None
