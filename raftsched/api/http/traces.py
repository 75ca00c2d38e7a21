"""Traces of requests, around the endpoints that have them (raftsched.tracing.requests)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from raftsched.api.auth.callers import request_state
from raftsched.api.serving import Route
from raftsched.security.shown import path_without_secrets
from raftsched.surface import health, worker_sessions
from raftsched.tracing.current import here

if TYPE_CHECKING:
    from raftsched.tracing.requests import RequestTrace, RequestTraces

_TRACE: web.RequestKey[RequestTrace] = web.RequestKey("trace")
# What comes by itself every few seconds would be most of all traces, and says nothing: probes, scrapes, idle workers.
_BY_ITSELF = frozenset({health.METRICS.id, worker_sessions.POLL.id})

_Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


def has_traces(route: Route) -> bool:
    """Returns whether requests of this operation have traces."""
    return route.operation.role != "open" and route.operation_id not in _BY_ITSELF


def traced(traces: RequestTraces, endpoint: _Endpoint, route: Route) -> _Endpoint:
    """Returns the endpoint with a span for each request."""

    async def with_span(request: web.Request) -> web.StreamResponse:
        here.set(None)  # that of the request before, over the same connection
        trace = traces.begin(
            request.method,
            route.path,
            route.operation_id,
            path=path_without_secrets(request.path),
            query=path_without_secrets(request.query_string),
            scheme=request.scheme,
            address=request.remote or "",
            agent=request.headers.get("User-Agent", ""),
        )
        request[_TRACE] = trace
        status: int | None = None
        try:
            response = await endpoint(request)
            status = response.status
            return response
        finally:
            trace.end(status)
            here.set(None)

    return with_span


def enter_trace(request: web.Request) -> None:
    """Joins the trace that the caller names, who has just been let in."""
    trace: RequestTrace | None = request.get(_TRACE)
    if trace is not None:
        trace.join(request.headers)
        trace.note()
        request_state().trace = trace
