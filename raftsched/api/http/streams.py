"""Server-sent events (WHATWG HTML, section 9.2): framing, and what all streams of a node have in common."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

import msgspec
from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftsched.api.auth.access import LOOK_S, still_holds
from raftsched.api.auth.callers import Caller, caller
from raftsched.api.context import ApiContext
from raftsched.api.http.addresses import Addresses
from raftsched.api.http.problems import Problem, body_of
from raftsched.api.http.replies import stamp
from raftsched.config.bounds import Bounds
from raftsched.errors import RaftschedError
from raftsched.surface.operation import EVENT_STREAM
from raftsched.system import background
from raftsched.system.clock import Clock

HEARTBEAT_S = 15.0  # of silence, after which a stream says that it is there
STALLED_S = 30.0  # that a reader may take nothing; then its connection is closed
RETRY_MS = 1_000  # after which a browser connects again

_HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Streams(Collector):
    """The streams of one node: their number, and the event that ends them."""

    def __init__(self, bounds: Bounds) -> None:
        self.stopping = asyncio.Event()
        self.open = 0
        self._bounds = bounds
        self._addresses = Addresses(bounds.proxies)
        self._of: Counter[str] = Counter()  # open ones, by what has a share

    @contextmanager
    def one(self, remote: str | None, kind: str = "") -> Iterator[None]:
        """Counts one more stream of this caller and address while it is open. Streams of a `kind` have shares of their
        own: those that cost little take nothing from the others. Raises Problem too-many: the caller has their share;
        overloaded: the node has all it may have."""
        shares = {f"{kind} {share}": bound for share, bound in self._shares(remote or "").items()}
        for share, (most, said) in shares.items():
            if self._of[share] >= most:
                raise Problem("too-many", f"{most} streams are read {said}, as many as may be; close one of them.")
        most = self._bounds.streams
        if self.open >= most:
            raise Problem("overloaded", f"{most} streams are read from this node; ask another one.")
        self.open += 1
        self._of.update(shares.keys())
        try:
            yield
        finally:
            self.open -= 1
            for share in shares:
                self._of[share] -= 1
                if not self._of[share]:
                    del self._of[share]

    def _shares(self, remote: str) -> dict[str, tuple[int, str]]:
        """Returns the shares that one more stream counts for: the bound of each and its owner."""
        who = caller()
        shares: dict[str, tuple[int, str]] = {}
        if who.peer:  # it reads for its own callers, who have shares there
            return shares
        if who.known:
            shares[f"token {who.whose or who.name}"] = (self._bounds.token_streams, f'with the token "{who.name}"')
        address = self._addresses.sharing(remote)
        if address is not None:
            shares[f"address {address}"] = (self._bounds.address_streams, f"from {address}")
        return shares

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("raftsched_streams", "Streams of events and output that are read.", self.open)

    async def unless_stopped(self, awaited: Awaitable[bool]) -> bool:
        """Returns the awaited result, or True when the node stops before."""
        work, stop = asyncio.ensure_future(awaited), asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else True
        finally:
            for task in (work, stop):
                task.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)


class Heartbeat:
    """Tells when one stream has to say that it is there: HEARTBEAT_S after the last byte that was sent on it, whatever
    happens meanwhile that its reader is not told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.sent()

    def sent(self) -> None:
        """Notes that something was sent just now."""
        self._due_at = self._clock.monotonic() + HEARTBEAT_S

    @property
    def left_s(self) -> float:
        """Returns how long the stream may still be silent, in seconds; 0: no longer."""
        return max(0.0, self._due_at - self._clock.monotonic())

    @property
    def due(self) -> bool:
        return not self.left_s


@contextmanager
def while_it_holds(ctx: ApiContext, request: web.Request, who: Caller) -> Iterator[None]:
    """The connection is cut when the token of its caller holds no longer, whatever the handler waits for."""
    watch = background.start("api-connections", _cut(ctx, request, who))
    try:
        yield
    finally:
        watch.cancel()


async def _cut(ctx: ApiContext, request: web.Request, who: Caller) -> None:
    holds = True
    while holds:
        await asyncio.sleep(LOOK_S)
        try:
            holds = still_holds(ctx, who)
        except Exception as error:  # it is not known, so it does not hold
            background.note("api-connections", error)
            holds = False
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
    """Returns the event that ends a stream that has begun, when it is too late for a status."""
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
