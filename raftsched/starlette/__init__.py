"""Puts raftsched into an application of Starlette, and so of FastAPI: a lifespan, the client for endpoints, and a route
that says whether jobs can be made.

    node = raftsched.Node(id="n1", data="data/n1", handlers=["tasks"], jobs=["tasks"])
    app = FastAPI(lifespan=lifespan(node))
    app.add_route("/readyz", ready)

    @app.post("/invoices/{number}")
    async def invoice(number: int, scheduler: Annotated[AsyncClient, Depends(client)]) -> ...:
        await send_invoice.aenqueue(number, client=scheduler)

This is a layer on the SDK (raftsched.Node, raftsched.AsyncClient), and has no rules of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from raftsched.client.aio import AsyncClient
from raftsched.client.errors import ClientError
from raftsched.embedded.node import Node
from raftsched.system.clock import SystemClock

try:
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse
except ImportError as error:
    raise ImportError("raftsched.starlette needs Starlette: pip install fastapi, or pip install starlette") from error

__all__ = ["client", "lifespan", "ready"]

ASKED_S = 2.0  # how long `ready` waits for the cluster
KEPT_S = 1.0  # how long its answer holds: whoever asks more often costs the cluster nothing

Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]
_MISSING = "there is no scheduler in this application: give it lifespan=raftsched.starlette.lifespan(...), and enter it"


def lifespan(
    source: Node | Callable[[], AsyncClient] | str | None = None,
    *,
    inner: Lifespan | None = None,
    wait: float | None = None,
) -> Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Returns the lifespan of an application. `source` is a node that starts and stops with the application, or the
    cluster that it is a client of: addresses, a function that makes a client (raftsched.AsyncClient), or None for the
    cluster of the environment. `inner`: the application's own lifespan, which is entered later and left before, so that
    it may use the client. `wait`: seconds in which a node has to have a leader, and its declared jobs; else the start
    fails (TimeoutError). None: the application starts at once, and `ready` tells. It is for a node (ValueError).

    The client is `client(request)`, and `app.state.raftsched`. At shutdown the node ends its runs within its `grace`.
    Raises StartupError where the node cannot start, such as one whose data directory another process has."""

    if isinstance(source, AsyncClient):
        raise TypeError(
            "a client serves one event loop: give lifespan a function that makes it, lambda: AsyncClient(...)"
        )
    if wait is not None and not isinstance(source, Node):
        raise ValueError(
            "wait is for a node; a client waits as long as its timeout says, and raftsched.starlette.ready tells"
        )

    @asynccontextmanager
    async def with_scheduler(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        async with _entered(source) as found:
            if wait is not None and isinstance(source, Node):
                await source.ready(wait)
            asked = _Readiness(found)
            app.state.raftsched, app.state.raftsched_readiness = found, asked
            state = {"raftsched": found, "raftsched_readiness": asked}  # which mounted applications have, too
            try:
                if inner is None:
                    yield state
                else:
                    async with inner(app) as more:
                        yield {**state, **(more or {})}
            finally:
                del app.state.raftsched, app.state.raftsched_readiness

    return with_scheduler


def client(connection: HTTPConnection) -> AsyncClient:
    """Returns the client of the application that a request or web socket is for. For Depends of FastAPI, or to be
    called. RuntimeError where there is none."""
    found: AsyncClient | None = _found(connection, "raftsched")
    if found is None:
        raise RuntimeError(_MISSING)
    return found


def _found(connection: HTTPConnection, name: str) -> Any:
    return getattr(connection.state, name, None) or getattr(connection.app.state, name, None)


async def ready(request: Request) -> JSONResponse:
    """Answers 200 when jobs can be made, and 503 when not: for probes, and for whoever balances load. It may be asked
    by anybody, and tells no addresses."""
    readiness: _Readiness | None = _found(request, "raftsched_readiness")
    if readiness is None:
        raise RuntimeError(_MISSING)
    why = await readiness.ask()
    if why is None:
        return JSONResponse({"ready": True})
    return JSONResponse({"ready": False, "reason": why}, 503, {"Retry-After": "1"})


@asynccontextmanager
async def _entered(source: Node | Callable[[], AsyncClient] | str | None) -> AsyncIterator[AsyncClient]:
    if isinstance(source, Node):
        async with source:
            yield source.client
    else:
        made = source() if callable(source) else AsyncClient(source)
        async with made:
            yield made


class _Readiness:
    """Asks whether the cluster takes jobs, once for all who want to know it at one time."""

    def __init__(self, asked: AsyncClient) -> None:
        self._client = asked
        self._asking = asyncio.Lock()
        self._clock = SystemClock()
        self._until = float("-inf")
        self._why: str | None = None

    async def ask(self) -> str | None:
        """Returns why it takes none; None: it does."""
        async with self._asking:
            if self._clock.monotonic() >= self._until:
                self._why = await self._now()
                self._until = self._clock.monotonic() + KEPT_S
            return self._why

    async def _now(self) -> str | None:
        try:
            await self._client.within(ASKED_S).transport.get(dict[str, Any], "/readyz", own=False)
        except ClientError as error:
            return error.code
        except Exception:  # such as a node that has stopped by itself: whatever it is, no job can be made
            return "stopped"
        return None
