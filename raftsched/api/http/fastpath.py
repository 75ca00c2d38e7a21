"""The fast path: POST /v1/jobs in its plainest form is answered without building a request object.

A connection belongs to the fallback, which is aiohttp, from the first byte on that is not such a request. The fallback
therefore judges and answers everything unusual (other routes, chunked bodies, conditions, unknown headers, wrong
hosts), and both give the same answers. `fast_heads.py` has the headers of a request that takes the fast path: a new
header with a meaning to the API needs nothing, one that becomes obligatory has to be refused there. The ordinary
handler is `jobs.endpoints.create`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from raftsched.api.auth.access import UnknownToken, check_role, count, identify, refused_create
from raftsched.api.auth.callers import (
    ANYBODY,
    NO_REQUEST,
    Caller,
    RequestContext,
    RequestState,
    begin_request,
    end_request,
    enter_request,
    out_of_memory,
)
from raftsched.api.auth.unknown_tokens import UnknownTokens
from raftsched.api.cluster.metrics import RequestCounts
from raftsched.api.context import ApiContext
from raftsched.api.http.acceptor import BUSY
from raftsched.api.http.connections import Connections, Place, Why
from raftsched.api.http.failures import failed
from raftsched.api.http.fair_queue import AT_ONCE, FairQueue
from raftsched.api.http.fallback_protocol import FallbackProtocol
from raftsched.api.http.fast_answers import create, head, made, problem
from raftsched.api.http.fast_heads import START, Heads
from raftsched.api.http.gathering import Creates
from raftsched.api.http.problems import from_rejected
from raftsched.api.http.requests import HostCheck
from raftsched.api.http.tls_transport import closed_once
from raftsched.api.resources.users import naming_users
from raftsched.api.resources.webhooks_seen import is_limited
from raftsched.cluster_settings import Settings
from raftsched.core.commands import Answer, Rejected
from raftsched.core.subjects.access import Role
from raftsched.core.subjects.namespace import DEFAULTS_STALE
from raftsched.errors import RaftschedError, UnknownOutcome
from raftsched.surface.jobs import CREATE
from raftsched.system import background
from raftsched.tracing.current import here

if TYPE_CHECKING:
    from raftsched.tracing.requests import RequestTrace

log = logging.getLogger(__name__)

HELD_MAX = 64 * 1024  # bytes of one connection that wait for their turn
WAITED_FOR_MAX = 64 * 1024  # bytes of a body of which the rest is waited for before it is known who sends it
REQUEST_S = 30.0  # from the first byte of a request until all of it is there; bodies of who is let in: requests.py
IDLE_S = 75.0  # a connection that says nothing for so long is closed
STALLED_S = 30.0  # that a client may take nothing of its answer
DRAINED_MAX = 64 * 1024  # bytes of a refused body that are still taken, so that the client reads why
DRAIN_S = 1.0  # for so long
GOODBYE_S = 1.0  # that a client of a node that stops may take to close a connection, as TLS wants it to
CUT_OFF_S = 5.0  # by far what it takes to close connections for which nobody waits any more
_HEAD_MAX = 4_096  # bytes
OPERATION_ID, ROUTE, _ROLE = CREATE.id, CREATE.path, Role.EDITOR


class ConnectionFactory:
    """Makes the connections of one server, and holds what they share."""

    def __init__(
        self,
        ctx: ApiContext,
        counts: RequestCounts,
        unknown_tokens: UnknownTokens,
        fallback: Callable[[Connection], FallbackProtocol],
        places: Connections,
    ) -> None:
        """`fallback` makes aiohttp's protocol for a connection."""
        self.ctx = ctx
        self.counts = counts
        self.unknown_tokens = unknown_tokens
        self.fallback = fallback
        self.places = places
        self.fair_queue = FairQueue()
        self.creates = Creates(ctx)
        self.connections: set[Connection] = set()
        self.stopping = False
        self._drained: asyncio.Event | None = None
        self._gone: asyncio.Event | None = None
        self.classify = Heads(HostCheck(ctx.hosts))

    def __call__(self, place: Place | None = None) -> Connection:
        """`place`: its place among the bounded connections; None: it has none, the process's own code opened it."""
        return Connection(self, place)

    def counted(self) -> Connection:
        """Returns a connection that takes its place when it is made: its handshake is done by then."""
        return Connection(self, None, counted=True)

    def note_idle(self) -> None:
        """Notes that a connection has nothing to answer any more."""
        if self._drained is not None and not any(c.busy for c in self.connections):
            self._drained.set()

    async def drain(self, timeout_s: float) -> None:
        """Takes no more requests, and returns when those under way are answered, or when the time is over."""
        self.stopping = True
        self._drained = asyncio.Event()
        self.note_idle()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()
        for connection in list(self.connections):
            connection.close_unless_fallback()

    async def wait_closed(self) -> None:
        """Returns when no connection is left. Those whose clients take too long over the end are cut off."""
        for within_s in (GOODBYE_S, CUT_OFF_S):
            self._gone = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    if self.connections:
                        await self._gone.wait()
            for connection in list(self.connections):
                connection.abort()

    def left(self, connection: Connection) -> None:
        """Notes that a connection has ended."""
        self.connections.discard(connection)
        if self.stopping:
            self.note_idle()
        if self._gone is not None and not self.connections:
            self._gone.set()

    def close_slow(self) -> None:
        """Closes connections that take too long, whatever they are doing."""
        now = self.ctx.clock.monotonic()
        for connection in list(self.connections):
            connection.close_if_slow(now)


class Connection(asyncio.Protocol):
    """The connection of one client. Requests are answered one after the other, in order."""

    def __init__(self, factory: ConnectionFactory, place: Place | None, *, counted: bool = False) -> None:
        self._factory = factory
        self._place = place
        self._counted = counted
        self._fallback: FallbackProtocol | None = None  # all that comes is aiohttp's
        self._held = b""
        self._transport: Any = None
        self._writing_paused = False  # the client does not read its answers
        self._reading_paused = False  # reading is paused
        self._task: asyncio.Task[None] | None = None  # of a request that has to wait for more than one proposal
        self.busy = False  # a request is being answered
        self._raw = b""  # the body of the request that is answered
        self._call = NO_REQUEST  # it, and who asks,
        self._anybodys: RequestContext | None = None  # when that is nobody known
        self._answering_held = False  # `_answer_held` is at work, or has its turn later
        self._began = 0.0
        self._trace: RequestTrace | None = None  # of the request that is answered; None: requests have none
        self.active_at = 0.0
        self._asked_at = 0.0  # when the request began to come of which the rest is missing; 0: none did
        self._drains: int | None = None  # bytes that are still thrown away: the last answer is given
        self._ended = False  # the client sends nothing more
        self._sure = True  # that what comes is a request, not the rest of one that was answered early
        self._unread = (0, 0.0)  # bytes of answers that the client has not taken, since when

    # ------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = closed_once(transport)
        self._factory.connections.add(self)
        self.active_at = self._factory.ctx.clock.monotonic()
        if self._counted:
            self._place = self._factory.places.enter(self._address())
            if self._place is None:
                self._drains = DRAINED_MAX
                self._transport.write(BUSY)
                self._transport.close()
                return
        if self._place is not None:
            self._place.close = self._transport.abort
            self._place.has_answer_due = self._has_answer_due

    def connection_lost(self, exc: Exception | None) -> None:
        self._factory.left(self)
        if self._place is not None:
            self._factory.places.leave(self._place)
        self._held = b""
        if self._fallback is not None:
            self._fallback.connection_lost(exc)

    def eof_received(self) -> bool:
        """Returns whether the connection stays open for answers that are due. TLS has no half-closed connections."""
        self._ended = True
        if self._drains is not None or self._transport.get_extra_info("sslcontext") is not None:
            return False
        if self._fallback is not None:
            return self._fallback.answers_whole_request
        return self.busy or self._answering_held

    def pause_writing(self) -> None:
        self._writing_paused = True
        if self._fallback is not None:
            self._fallback.pause_writing()

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._fallback is not None:
            self._fallback.resume_writing()
        else:
            self._answer_held()

    def data_received(self, data: bytes) -> None:
        if self._drains is not None:
            self._drains -= len(data)
            if self._drains < 0:
                self._transport.pause_reading()
            return
        if self._asked_at == 0.0:
            self._asked_at = self._factory.ctx.clock.monotonic()
            if self._place is not None:
                self._factory.places.asks(self._place)
        if self._fallback is not None:
            self._fallback.data_received(data)
            return
        self._held = self._held + data if self._held else bytes(data)
        if not self.busy and not self._writing_paused and not self._answering_held:
            self._answer_held()
        elif len(self._held) > HELD_MAX and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    # ------------------------------------------------------------ bounds

    def _has_answer_due(self) -> bool:
        if self._drains is not None:
            return False
        return self.busy if self._fallback is None else self._fallback.has_answer_due

    def close_if_slow(self, now: float) -> None:
        """Closes it when it has taken too long."""
        size = self._transport.get_write_buffer_size()
        if size == 0 or size != self._unread[0]:
            self._unread = (size, now)
        elif now - self._unread[1] >= STALLED_S:
            self._give_up("stalled")
            return
        if self._has_answer_due() or self._drains is not None:
            return
        if self._asked_at and now - self._asked_at >= REQUEST_S:
            self._factory.places.count("slow")
            if size == 0 and self._sure:
                late = RaftschedError("request-timeout", f"The request did not come in full within {REQUEST_S:.0f} s.")
                status, headers, body = problem(late)
                headers += "Connection: close\r\n"
                self._transport.write(head(self._factory.ctx, status, headers, len(body)) + body)
                self._factory.counts.count(status, now - self._asked_at)
            self._transport.close()
        elif self._fallback is None and not self._held and now - self.active_at >= IDLE_S:
            self._transport.close()

    def _give_up(self, why: Why) -> None:
        self._factory.places.count(why)
        self._transport.abort()

    def answered(self, who: Caller, *, whole: bool = True) -> None:
        """Notes that a request is answered. `whole`: all of it had come; else what comes next may be the rest of it."""
        self._asked_at = 0.0
        self._sure = self._sure and whole
        if self._place is not None:
            self._factory.places.answered(self._place, known=who.known)

    @property
    def ended(self) -> bool:
        """Returns whether the client has finished sending."""
        return self._ended

    @property
    def fair_queue(self) -> FairQueue:
        return self._factory.fair_queue

    def drain(self, most: int = DRAINED_MAX, within_s: float = DRAIN_S) -> None:
        """Ends the connection after its last answer; what still comes of the request is thrown away, within bounds. To
        close at once would make the kernel take the answer back from a client that still sends."""
        self._drains = most
        self._held = b""
        transport = self._transport
        if transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()
        asyncio.get_running_loop().call_later(within_s, transport.abort)

    def close_unless_fallback(self) -> None:
        if self._fallback is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # ------------------------------------------------------------ requests

    def _answer_held(self) -> None:
        """Answers held requests one after the other, in a loop because there may be many. After a few of them other
        connections are served first."""
        if self._answering_held:
            return
        self._answering_held = True
        for _ in range(AT_ONCE):
            if self.busy or self._writing_paused or self._fallback is not None or not self._take_request():
                self._answering_held = False
                return
        self._factory.fair_queue.enter(self._resume)

    def _resume(self) -> None:
        self._answering_held = False
        if self._drains is None and not self._transport.is_closing():
            self._answer_held()
        if self._ended and not self._answering_held and not self.busy and self._fallback is None:
            self._transport.close()

    def _take_request(self) -> bool:
        """Starts one whole request. Returns False when there is none: more is awaited, or the fallback took over."""
        held = self._held
        if self._reading_paused and len(held) <= HELD_MAX:
            self._reading_paused = False
            self._transport.resume_reading()
        if not held:
            return False
        end = held.find(b"\r\n\r\n")
        if end < 0 or end > _HEAD_MAX:
            if len(held) > _HEAD_MAX or not (held.startswith(START) or START.startswith(held)):
                self._fall_back()
            return False
        factory = self._factory
        length, digest, bearer = factory.classify(held[:end])
        settings = factory.ctx.settings()
        if length < 0 or length > settings.body_max_bytes or factory.stopping:
            self._fall_back()
            return False
        stop = end + 4 + length
        if len(held) < stop:
            if length > WAITED_FOR_MAX:
                self._fall_back()
            return False
        self._held = held[stop:]
        self._start(held[end + 4 : stop], digest, bearer, settings)
        return True

    def _fall_back(self) -> None:
        held, self._held = self._held, b""
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        fallback = self._fallback = self._factory.fallback(self)
        fallback.connection_made(self._transport)
        if self._writing_paused:
            fallback.pause_writing()
        fallback.data_received(held)

    def _start(self, raw: bytes, digest: bytes, bearer: str, settings: Settings) -> None:
        """Checks and proposes a request; `_answered` sends the answer."""
        ctx = self._factory.ctx
        self.busy = True
        self._raw = raw
        self._began = ctx.clock.monotonic()
        self._call = NO_REQUEST
        if ctx.traces is not None:
            self._trace = ctx.traces.begin(
                "POST", ROUTE, OPERATION_ID, path=ROUTE, scheme=self._scheme(), address=self._address()
            )
        try:
            self._propose(self._admit(identify(ctx, digest)), settings)
        except UnknownToken:
            self._task = background.start("api-connections", self._identify_unknown(digest, bearer))
        except Exception as error:
            self._send_problem(error)

    def _propose(self, call: RequestContext, settings: Settings) -> None:
        creates, noted = self._factory.creates, None
        self._call = call
        if self._trace is not None and call.state is not None:
            call.state.trace = self._trace
            noted = self._trace.note()
        token = begin_request(call)
        try:
            content = creates.read(call.caller, self._raw, settings)
            if content.has_own_notify and is_limited():
                self._start_task()
            else:
                creates.propose(call, content, self._answered)
        finally:
            end_request(token)
            if noted is not None:
                here.reset(noted)

    async def _identify_unknown(self, digest: bytes, bearer: str) -> None:
        """Asks for a token that this node does not know, or not yet, and goes on with the request."""
        try:
            who = await self._factory.unknown_tokens.resolve(self._factory.ctx, digest, self._address(), bearer)
            self._propose(self._admit(who), self._factory.ctx.settings())
        except Exception as error:
            self._send_problem(error)

    def _answered(self, answers: list[Answer] | None, error: RaftschedError | None) -> None:
        if error is not None or answers is None:
            self._send_problem(error or UnknownOutcome())
            return
        answer = answers[0]
        if isinstance(answer, Rejected):
            if answer.code == DEFAULTS_STALE:
                self._start_task()
            else:
                self._send_problem(from_rejected(naming_users(answer)))
            return
        try:
            reply = made(self._factory.ctx, answer)
        except Exception as failure:
            self._send_problem(failure)
        else:
            self._send(*reply)

    def _start_task(self) -> None:
        self._task = background.start("api-connections", self._create_in_task())

    async def _create_in_task(self) -> None:
        enter_request(self._call)
        try:
            reply = await create(self._factory.ctx, self._raw)
        except Exception as error:
            self._send_problem(error)
        else:
            self._send(*reply)

    def _send_problem(self, error: Exception) -> None:
        if isinstance(error, MemoryError):
            log.error("POST %s: out of memory", ROUTE)
            token = begin_request(self._call)
            error = out_of_memory()
            end_request(token)
        elif not isinstance(error, RaftschedError):
            noted = None if self._trace is None else self._trace.note()
            error = failed(log, {}, error, "POST /v1/jobs failed")  # one that came with an id did not come here
            if noted is not None:
                here.reset(noted)
        self._send(*problem(refused_create(self._factory.ctx, self._address(), error, self._call)))

    def _send(self, status: int, headers: str, body: bytes) -> None:
        """Sends the answer of the request at hand and starts the next one."""
        factory = self._factory
        transport = self._transport
        if not transport.is_closing():
            transport.write(head(factory.ctx, status, headers, len(body)) + body)
        self.active_at = now = factory.ctx.clock.monotonic()
        factory.counts.count(status, now - self._began)
        if self._trace is not None:
            self._trace.end(status)
        self._task = None
        self._raw = b""
        self.busy = False
        self.answered(self._call.caller)
        if factory.stopping:
            factory.note_idle()
        if self._held or self._reading_paused:
            if self._held:
                self._asked_at = now
            self._answer_held()
        if self._ended and not self.busy and not self._answering_held and self._fallback is None:
            transport.close()

    def _admit(self, who: Caller) -> RequestContext:
        """Returns whose request it is, as access.admit does. Raises Problem forbidden."""
        if who is ANYBODY:
            call = self._anybodys
            if call is None or call.state is None:
                call = self._anybodys = RequestContext(who, OPERATION_ID, work=True, state=RequestState(), needed=_ROLE)
            else:
                call.state.reset()  # one context does for all of a connection: nothing of a request is the next one's
            return call
        check_role(count(self._factory.ctx, who), _ROLE)
        return RequestContext(
            who, OPERATION_ID, "", self._address() if who.known else "", work=True, state=RequestState(), needed=_ROLE
        )

    def _scheme(self) -> str:
        return "http" if self._transport.get_extra_info("sslcontext") is None else "https"

    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""
