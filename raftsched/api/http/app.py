"""The application: the route table put behind the checks that every request passes."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from itertools import chain

import aiohttp
from aiohttp import web

from raftsched.api.auth.access import UnknownToken, admit, bearer_of, counted, digest_of, is_locked
from raftsched.api.auth.callers import NO_REQUEST, caller, enter_request, out_of_memory, request_state
from raftsched.api.auth.lock import lock, unless_locked
from raftsched.api.auth.refusals import STATUSES, note_refusal
from raftsched.api.auth.spending import Spending, charged, is_charged
from raftsched.api.auth.unknown_tokens import UNKNOWN_TOKENS, UnknownTokens
from raftsched.api.cluster import doctor
from raftsched.api.cluster.health import SCRAPES, Scrapes
from raftsched.api.cluster.log_segments import SEGMENTS, Segments
from raftsched.api.cluster.metrics import ApiMetrics, RequestCounts
from raftsched.api.cluster.operators_metrics import OperatorsMetrics
from raftsched.api.cluster.scaling_metrics import ScalingMetrics
from raftsched.api.cluster.snapshot import BACKUPS, Backups
from raftsched.api.context import ApiContext
from raftsched.api.http import docs, page
from raftsched.api.http.call import parse_call
from raftsched.api.http.failures import failed
from raftsched.api.http.fallback import UnroutableHandler, handler_of, refuse_unroutable
from raftsched.api.http.origins import MemberOrigins, may_ask, preflight, show_to
from raftsched.api.http.peers import CLIENT
from raftsched.api.http.problems import Problem, answer
from raftsched.api.http.replies import stamp
from raftsched.api.http.requests import HostCheck, check_site
from raftsched.api.http.streams import STREAMS, Streams, while_it_holds
from raftsched.api.http.traces import enter_trace, has_traces, traced
from raftsched.api.jobs.forecast import FORECASTS
from raftsched.api.openapi.documents import DOCUMENTS, Documents
from raftsched.api.routes import ROUTES
from raftsched.api.runs.changes import FEED, Feed
from raftsched.api.runs.now import GLANCES, Glances
from raftsched.api.runs.searching import SEARCHES, Searches
from raftsched.api.serving import Route
from raftsched.errors import KINDS, RaftschedError
from raftsched.security.shown import path_without_secrets
from raftsched.surface.jobs import BATCH_BODY_MAX

log = logging.getLogger(__name__)

METRICS: web.AppKey[ApiMetrics] = web.AppKey("metrics", ApiMetrics)
UNROUTABLE: web.AppKey[UnroutableHandler] = web.AppKey("unroutable")  # answers what names no path

_OF_ROWS = frozenset({404, 409, 412})

_Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(ctx: ApiContext) -> web.Application:
    """server.ApiServer serves it."""
    app = web.Application(client_max_size=BATCH_BODY_MAX)
    metrics = ApiMetrics(ctx.cluster.status, ctx.meta, ctx.rates)
    ctx.registry.register(metrics)
    ctx.registry.register(OperatorsMetrics(ctx))
    ctx.registry.register(ScalingMetrics(ctx))
    app[METRICS] = metrics
    app[SCRAPES] = Scrapes()
    app[GLANCES] = Glances()
    app[SEARCHES] = Searches()
    app[FORECASTS] = asyncio.Lock()
    app[doctor.METRICS] = doctor.NodeMetrics()
    app[UNKNOWN_TOKENS] = UnknownTokens()
    app[STREAMS] = Streams(ctx.bounds)
    ctx.registry.register(app[STREAMS])
    app[SEGMENTS] = Segments(ctx)
    ctx.registry.register(app[SEGMENTS])
    app[FEED] = Feed(ctx)
    app[DOCUMENTS] = Documents(ROUTES, ctx.version)
    members = MemberOrigins(ctx)
    check = HostCheck(ctx.hosts, members)
    expect = _expectation(ctx)
    methods: defaultdict[str, list[str]] = defaultdict(list)
    for route in ROUTES:
        counts = metrics.route(route.method, route.path)
        endpoint = _guarded(ctx, check, counts, _operation(ctx, route))
        if ctx.traces is not None and has_traces(route):
            endpoint = traced(ctx.traces, endpoint, route)
        app.router.add_route(route.method, route.path, endpoint, expect_handler=expect)
        methods[route.path].append(route.method)
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, endpoint, expect_handler=expect)
            methods[route.path].append("HEAD")
    for path, respond in (*docs.endpoints(ctx), *page.endpoints(ctx, members)):
        endpoint = _guarded(ctx, check, metrics.route("GET", path), respond)
        for method in ("GET", "HEAD"):
            app.router.add_route(method, path, endpoint, expect_handler=expect)
            methods[path].append(method)
    for path, allowed in methods.items():
        endpoint = _guarded(ctx, check, metrics.route("*", path), _method_not_allowed(allowed))
        app.router.add_route("*", path, endpoint, expect_handler=expect)
    nowhere = metrics.route("*", "*")
    app.router.add_route("*", "/{tail:.*}", _guarded(ctx, check, nowhere, _no_route), expect_handler=expect)
    all_methods = sorted({*chain.from_iterable(methods.values())})
    unroutable = _guarded(ctx, check, nowhere, _unroutable(all_methods))
    app[UNROUTABLE] = handler_of(unless_locked(ctx, unroutable) if ctx.security.guarded else unroutable)
    if ctx.security.guarded:
        app.middlewares.append(lock(ctx, nowhere))
    app.cleanup_ctx.append(_client)
    app.on_shutdown.append(_stop)

    async def close(_: web.Application) -> None:
        await ctx.issuer.close()

    app.on_cleanup.append(close)
    return app


async def _client(app: web.Application) -> AsyncIterator[None]:
    """The HTTP client that fetches output from other nodes."""
    app[BACKUPS] = Backups()
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=2.0, sock_read=60.0)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
        app[CLIENT] = session
        yield


async def _stop(app: web.Application) -> None:
    app[STREAMS].stopping.set()


def _guarded(ctx: ApiContext, check: HostCheck, counts: RequestCounts, respond: _Endpoint) -> _Endpoint:
    """Returns an endpoint with the checks that every request passes. Errors become problems, and all is counted."""
    monotonic = ctx.clock.monotonic

    async def endpoint(request: web.Request) -> web.StreamResponse:
        began = monotonic()
        response: web.StreamResponse
        enter_request(NO_REQUEST)  # not to who asked before, over the same connection
        show_to(None)
        try:
            headers = request.headers
            origin = headers.get("Origin")
            if check(headers.get("Host"), origin):
                show_to(origin)
            else:
                check_site(request.method, request.path, headers)
            if not request.raw_path.isascii():
                raise Problem("invalid-parameter", "The address must be ASCII; percent-encode what is not.")
            response = preflight(ctx, request) if may_ask(request) else await respond(request)
        except RaftschedError as error:
            response = answer(error)
        except web.HTTPException:
            raise
        except MemoryError:
            log.error("%s %s: out of memory", request.method, path_without_secrets(request.path))
            response = answer(out_of_memory())
        except Exception as error:
            if isinstance(error, OSError) and (request.transport is None or request.transport.is_closing()):
                raise  # the caller has gone
            path = path_without_secrets(request.path)
            response = answer(failed(log, request.headers, error, "%s %s failed", request.method, path))
        if not response.prepared:
            stamp(ctx, response.headers)
        counts.count(response.status, monotonic() - began - request_state().waited_s)
        if response.status in STATUSES:
            note_refusal(ctx, response.status, request.method, request.path, caller().name, request.remote or "")
        return response

    return endpoint


def _operation(ctx: ApiContext, route: Route) -> _Endpoint:
    """Returns the endpoint of an operation: it admits the caller, parses the request, and calls the handler.

    When the handler refuses for what is in the tables, it is called once more if this node was behind."""
    declared, handler, operation_id = route.operation, route.handler, route.operation_id

    async def endpoint(request: web.Request) -> web.StreamResponse:
        try:
            who = admit(ctx, request, declared, operation_id)
        except UnknownToken:
            shown, address = request.headers.get("Authorization"), request.remote or ""
            try:
                who = await request.app[UNKNOWN_TOKENS].resolve(ctx, digest_of(shown), address, bearer_of(shown))
            except Problem as unknown:
                raise counted(ctx, address, unknown) from None
            admit(ctx, request, declared, operation_id, who)
        except Problem as problem:
            raise counted(ctx, request.remote or "", problem) from None
        if ctx.traces is not None:
            enter_trace(request)
        with while_it_holds(ctx, request, who) if declared.streams else nullcontext():
            if declared.paced or not is_charged(ctx, who):
                return await respond(request)
            return await charged(respond(request), Spending(ctx, who))

    async def respond(request: web.Request) -> web.StreamResponse:
        call = await parse_call(ctx, request, declared)
        try:
            return await handler(ctx, call)
        except RaftschedError as error:
            state = request_state()
            if state.proposed or declared.role == "open" or request.writer.output_size or not _is_of_rows(error):
                raise
            index = await ctx.catch_up_soon()
            state.behind = index is None
            if index is not None and index > state.read_index:
                state.read_index = ctx.applied()
                return await handler(ctx, call)
            raise

    return endpoint


def _is_of_rows(error: RaftschedError) -> bool:
    """Returns whether an error refuses for what is in the tables. A node that has not heard yet of a change made
    elsewhere a moment ago must not refuse a request that refers to it."""
    return KINDS[error.code].status in _OF_ROWS


def _expectation(ctx: ApiContext) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    async def expect(request: web.Request) -> web.StreamResponse | None:
        """RFC 9110, section 10.1.1: 100-continue is the only expectation there is."""
        if is_locked(ctx):
            return None  # the answer comes without it
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # nothing of the answer is sent yet
            return None
        response = answer(Problem("expectation-failed", "Expect can be 100-continue; leave it out otherwise."))
        stamp(ctx, response.headers)
        return response

    return expect


def _method_not_allowed(allowed: list[str]) -> _Endpoint:
    allow = ", ".join(sorted(allowed))

    async def endpoint(request: web.Request) -> web.StreamResponse:
        raise Problem(
            "method-not-allowed",
            f"{request.method} is not possible here; use {allow}.",
            headers={"Allow": allow},
        )

    return endpoint


def _unroutable(methods: list[str]) -> _Endpoint:
    async def endpoint(request: web.Request) -> web.StreamResponse:
        raise refuse_unroutable(request, ", ".join(methods))

    return endpoint


async def _no_route(request: web.Request) -> web.StreamResponse:
    raise Problem("not-found", f"There is nothing at {request.path[:200]}; /docs lists what there is.")
