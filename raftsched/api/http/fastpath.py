"""The short way for POST /v1/jobs: what arrives in the plainest form is answered without building a request object.

A connection belongs to aiohttp from the first byte on that is not such a request; everything unusual (other routes,
chunked bodies, conditions, unknown headers, wrong hosts) is therefore aiohttp's to judge and to answer, and the two
ways give the same answers. Only headers listed here take the short way: whoever adds one with a meaning to the API has
nothing to do, whoever makes a header obligatory has to refuse the short way in `_judge`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from raftsched.api.auth.access import UnknownToken, bearer_of, check_role, count, digest_of, identify, refused_create
from raftsched.api.auth.callers import ANYBODY, NOBODY, Call, Caller, Sent, answer_to, begin, end, out_of_memory
from raftsched.api.auth.strangers import Strangers
from raftsched.api.cluster.metrics import RequestCounts
from raftsched.api.context import ApiContext
from raftsched.api.http.acceptor import BUSY
from raftsched.api.http.connections import Connections, Place, Why
from raftsched.api.http.fast_answers import create, head, made, problem
from raftsched.api.http.inner import Inner
from raftsched.api.http.problems import Problem, from_rejected
from raftsched.api.http.requests import HostCheck
from raftsched.api.http.turnstile import AT_ONCE, Turnstile
from raftsched.api.jobs.parse import create_command, read_job
from raftsched.api.resources.users import naming_users
from raftsched.api.resources.webhooks_seen import is_limited
from raftsched.core.access import Role
from raftsched.core.cluster import Settings
from raftsched.core.commands import Answer, Rejected
from raftsched.core.namespaces import DEFAULTS_STALE
from raftsched.errors import RaftschedError, UnknownOutcome

log = logging.getLogger(__name__)

HELD_MAX = 64 * 1024  # bytes of one connection that wait for their turn
WAITED_FOR_MAX = 64 * 1024  # bytes of a body of which the rest is waited for before it is known who sends it
REQUEST_S = 30.0  # from the first byte of a request until all of it is there; bodies of who is let in: requests.py
IDLE_S = 75.0  # a connection that says nothing for so long is closed
STALLED_S = 30.0  # that a client may take nothing of its answer
DRAINED_MAX = 64 * 1024  # bytes of a refused body that are still taken, so that the client reads why
DRAIN_S = 1.0  # for so long
_HEAD_MAX = 4_096  # bytes
_VERDICTS_MAX = 512
_START = b"POST /v1/jobs HTTP/1.1\r\n"
_HEADER = re.compile(rb"([A-Za-z-]{1,40}):[ \t]*([\x20-\x7e]*?)[ \t]*")
_ABOUT_THE_CLIENT = frozenset({b"user-agent", b"accept", b"accept-language", b"accept-encoding"})
_ONCE = frozenset({b"authorization", b"host", b"content-type", b"content-length", b"origin", b"connection"})
_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})
_LENGTH = re.compile(rb"[0-9]{1,7}")
_NOT_OURS = (-1, b"", "")
OPERATION_ID = "jobs_create"
_ROLE = Role.EDITOR


class Door:
    """What the connections of one server share."""

    def __init__(
        self,
        ctx: ApiContext,
        counts: RequestCounts,
        strangers: Strangers,
        ordinary: Callable[[Connection], Inner],
        places: Connections,
    ) -> None:
        """`ordinary` makes aiohttp's protocol for a connection."""
        self.ctx = ctx
        self.counts = counts
        self.strangers = strangers
        self.ordinary = ordinary
        self.places = places
        self.turnstile = Turnstile()
        self.connections: set[Connection] = set()
        self.stopping = False
        self._drained: asyncio.Event | None = None
        self._check = HostCheck(ctx.hosts)
        self._verdicts: dict[bytes, tuple[int, bytes, str]] = {}

    def __call__(self, place: Place | None = None) -> Connection:
        """`place`: where it counts; None: nowhere, it comes from the process's own code."""
        return Connection(self, place)

    def counted(self) -> Connection:
        """For a connection whose place is looked for when it is made: its handshake is done then."""
        return Connection(self, None, counted=True)

    def judge(self, head: bytes) -> tuple[int, bytes, str]:
        """The length of the body that follows this head (without its last line break), negative when it is not for the
        short way; the hash of the token in it; and the token, when it may be that of an issuer."""
        verdict = self._verdicts.get(head)
        if verdict is None:
            if not head.startswith(_START):
                return _NOT_OURS
            verdict = self._judge(head)
            if len(self._verdicts) >= _VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[head] = verdict
        return verdict

    def _judge(self, head: bytes) -> tuple[int, bytes, str]:
        seen: dict[bytes, bytes] = {}
        for line in head[len(_START) :].split(b"\r\n"):
            match = _HEADER.fullmatch(line)
            if match is None:
                return _NOT_OURS
            name = match[1].lower()
            if name in seen or (name not in _ONCE and name not in _ABOUT_THE_CLIENT):
                return _NOT_OURS
            seen[name] = match[2]
        if seen.get(b"content-type", b"").lower() not in _JSON:
            return _NOT_OURS
        if seen.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return _NOT_OURS
        if not _LENGTH.fullmatch(seen.get(b"content-length", b"")):
            return _NOT_OURS
        origin = seen.get(b"origin")
        try:
            self._check(seen.get(b"host", b"").decode(), None if origin is None else origin.decode())
        except Problem:
            return _NOT_OURS
        given = seen.get(b"authorization")
        shown = None if given is None else given.decode()
        return int(seen[b"content-length"]), digest_of(shown), bearer_of(shown)

    def rest(self) -> None:
        """A connection has nothing to answer any more."""
        if self._drained is not None and not any(c.busy for c in self.connections):
            self._drained.set()

    async def drain(self, timeout_s: float) -> None:
        """Takes no more requests and waits for those that are being answered."""
        self.stopping = True
        self._drained = asyncio.Event()
        self.rest()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()
        for connection in list(self.connections):
            connection.close_unless_ordinary()

    def look(self) -> None:
        """Closes connections that take too long, in whatever they are at."""
        now = self.ctx.clock.monotonic()
        for connection in list(self.connections):
            connection.look(now)


class Connection(asyncio.Protocol):
    """One client. Requests are answered one after the other, in order."""

    def __init__(self, door: Door, place: Place | None, *, counted: bool = False) -> None:
        self._door = door
        self._place = place
        self._counted = counted
        self._inner: Inner | None = None  # all that comes is aiohttp's
        self._held = b""
        self._transport: Any = None
        self._paused = False  # the client does not read its answers
        self._still = False  # reading is paused
        self._task: asyncio.Task[None] | None = None  # of a request that has to wait for more than one proposal
        self.busy = False  # a request is being answered
        self._raw = b""  # the body of the request that is answered
        self._call = NOBODY  # it, and who asks,
        self._anybodys: Call | None = None  # when that is nobody known
        self._walking = False  # `_go_on` is at work, or has its turn later
        self._began = 0.0
        self.active_at = 0.0
        self._asked_at = 0.0  # when the request began to come of which the rest is missing; 0: none did
        self._drained: int | None = None  # bytes that were thrown away: the last answer is given
        self._ended = False  # the client sends nothing more
        self._sure = True  # that what comes is a request, not the rest of one that was answered early
        self._unread = (0, 0.0)  # bytes of answers that the client has not taken, since when

    # ------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._door.connections.add(self)
        self.active_at = self._door.ctx.clock.monotonic()
        if self._counted:
            self._place = self._door.places.enter(self._address())
            if self._place is None:
                self._drained = 0
                self._transport.write(BUSY)
                self._transport.close()
                return
        if self._place is not None:
            self._place.close = self._transport.abort
            self._place.has_answer_due = self._has_answer_due

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections.discard(self)
        if self._place is not None:
            self._door.places.leave(self._place)
        if self._door.stopping:
            self._door.rest()
        self._held = b""
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def eof_received(self) -> bool:
        """A client that says it sends nothing more gets the answers to what it sent. TLS has no such half."""
        self._ended = True
        if self._drained is not None or self._transport.get_extra_info("sslcontext") is not None:
            return False
        if self._inner is not None:
            return self._inner.answers_whole_request
        return self.busy or self._walking

    def pause_writing(self) -> None:
        self._paused = True
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._paused = False
        if self._inner is not None:
            self._inner.resume_writing()
        else:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._drained is not None:
            self._drained += len(data)
            if self._drained > DRAINED_MAX:
                self._transport.pause_reading()
            return
        if self._asked_at == 0.0:
            self._asked_at = self._door.ctx.clock.monotonic()
            if self._place is not None:
                self._door.places.asks(self._place)
        if self._inner is not None:
            self._inner.data_received(data)
            return
        self._held = self._held + data if self._held else bytes(data)
        if not self.busy and not self._paused and not self._walking:
            self._go_on()
        elif len(self._held) > HELD_MAX and not self._still:
            self._still = True
            self._transport.pause_reading()

    # ------------------------------------------------------------ bounds

    def _has_answer_due(self) -> bool:
        if self._drained is not None:
            return False
        return self.busy if self._inner is None else self._inner.has_answer_due

    def look(self, now: float) -> None:
        """Closes it when it has taken too long."""
        size = self._transport.get_write_buffer_size()
        if size == 0 or size != self._unread[0]:
            self._unread = (size, now)
        elif now - self._unread[1] >= STALLED_S:
            self._give_up("stalled")
            return
        if self._has_answer_due() or self._drained is not None:
            return
        if self._asked_at and now - self._asked_at >= REQUEST_S:
            self._door.places.count("slow")
            if size == 0 and self._sure:
                late = RaftschedError("request-timeout", f"The request did not come in full within {REQUEST_S:.0f} s.")
                status, headers, body = problem(late)
                headers += "Connection: close\r\n"
                self._transport.write(head(self._door.ctx, status, headers, len(body), told=False) + body)
                self._door.counts.count(status, now - self._asked_at)
            self._transport.close()
        elif self._inner is None and not self._held and now - self.active_at >= IDLE_S:
            self._transport.close()

    def _give_up(self, why: Why) -> None:
        self._door.places.count(why)
        self._transport.abort()

    def answered(self, who: Caller, *, whole: bool = True) -> None:
        """One more request. `whole`: all of it had come; else what comes next may be the rest of it."""
        self._asked_at = 0.0
        self._sure = self._sure and whole
        if self._place is not None:
            self._door.places.answered(self._place, known=who.known)

    @property
    def ended(self) -> bool:
        """The client sends nothing more."""
        return self._ended

    @property
    def turnstile(self) -> Turnstile:
        return self._door.turnstile

    def drain(self) -> None:
        """The last answer is given; what still comes of its request is thrown away, within bounds, and then it ends.
        To close at once would make the kernel take the answer back from a client that still sends."""
        self._drained = 0
        self._held = b""
        transport = self._transport
        if transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
        if not transport.is_reading():
            transport.resume_reading()
        asyncio.get_running_loop().call_later(DRAIN_S, transport.abort)

    def close_unless_ordinary(self) -> None:
        if self._inner is None:
            self._transport.close()

    # ------------------------------------------------------------ requests

    def _go_on(self) -> None:
        """Answers what is held, one request after the other. Not one within the other, for there may be many; and not
        all of them before others have their turn."""
        if self._walking:
            return
        self._walking = True
        for _ in range(AT_ONCE):
            if self.busy or self._paused or self._inner is not None or not self._take():
                self._walking = False
                return
        self._door.turnstile.enter(self._next)

    def _next(self) -> None:
        self._walking = False
        if self._drained is None and not self._transport.is_closing():
            self._go_on()
        if self._ended and not self._walking and not self.busy and self._inner is None:
            self._transport.close()

    def _take(self) -> bool:
        """Begins with a whole request; False: there is none, the rest is waited for, or all is left to aiohttp."""
        held = self._held
        if self._still and len(held) <= HELD_MAX:
            self._still = False
            self._transport.resume_reading()
        if not held:
            return False
        end = held.find(b"\r\n\r\n")
        if end < 0 or end > _HEAD_MAX:
            if len(held) > _HEAD_MAX or not (held.startswith(_START) or _START.startswith(held)):
                self._leave()
            return False
        door = self._door
        length, digest, bearer = door.judge(held[:end])
        settings = door.ctx.settings()
        if length < 0 or length > settings.body_max_bytes or door.stopping:
            self._leave()
            return False
        stop = end + 4 + length
        if len(held) < stop:
            if length > WAITED_FOR_MAX:
                self._leave()
            return False
        self._held = held[stop:]
        self._begin(held[end + 4 : stop], digest, bearer, settings)
        return True

    def _leave(self) -> None:
        held, self._held = self._held, b""
        if self._still:
            self._still = False
            self._transport.resume_reading()
        inner = self._inner = self._door.ordinary(self)
        inner.connection_made(self._transport)
        if self._paused:
            inner.pause_writing()
        inner.data_received(held)

    def _begin(self, raw: bytes, digest: bytes, bearer: str, settings: Settings) -> None:
        """Until the proposal is on its way; `_answered` does the rest."""
        ctx = self._door.ctx
        self.busy = True
        self._raw = raw
        self._began = ctx.clock.monotonic()
        self._call = NOBODY
        try:
            self._propose(self._admit(identify(ctx, digest)), settings)
        except UnknownToken:
            self._task = asyncio.ensure_future(self._introduce(digest, bearer))
        except Exception as error:
            self._fail(error)

    def _propose(self, call: Call, settings: Settings) -> None:
        ctx = self._door.ctx
        self._call = call
        token = begin(call)
        try:
            content = read_job(self._raw, settings, ctx.now_ms(), ctx.space)
            if content.says_notify and is_limited():
                self._wait()
            else:
                ctx.propose_then((create_command(content),), self._answered)
        finally:
            end(token)

    async def _introduce(self, digest: bytes, bearer: str) -> None:
        """For a token that is not known here, or not yet."""
        try:
            who = await self._door.strangers.let_in(self._door.ctx, digest, self._address(), bearer)
            self._propose(self._admit(who), self._door.ctx.settings())
        except Exception as error:
            self._fail(error)

    def _answered(self, answers: list[Answer] | None, error: RaftschedError | None) -> None:
        if error is not None or answers is None:
            self._fail(error or UnknownOutcome())
            return
        answer = answers[0]
        if isinstance(answer, Rejected):
            if answer.code == DEFAULTS_STALE:
                self._wait()
            else:
                self._fail(from_rejected(naming_users(answer)))
            return
        try:
            said = made(self._door.ctx, answer)
        except Exception as failure:
            self._fail(failure)
        else:
            self._say(*said, told=True)

    def _wait(self) -> None:
        self._task = asyncio.ensure_future(self._answer())

    async def _answer(self) -> None:
        answer_to(self._call)
        try:
            said = await create(self._door.ctx, self._raw)
        except Exception as error:
            self._fail(error)
        else:
            self._say(*said)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, MemoryError):
            log.error("POST /v1/jobs: out of memory")
            token = begin(self._call)
            error = out_of_memory()
            end(token)
        elif not isinstance(error, RaftschedError):
            log.error("POST /v1/jobs failed", exc_info=error)
            error = RaftschedError("internal", "An error of this node; its log says more.")
        self._say(*problem(refused_create(self._door.ctx, self._address(), error, self._call)))

    def _say(self, status: int, headers: str, body: bytes, *, told: bool = False) -> None:
        """The answer to the request at hand; then it is the next one's turn. `told`: it may come before reads show what
        was done."""
        door = self._door
        transport = self._transport
        if not transport.is_closing():
            transport.write(head(door.ctx, status, headers, len(body), told) + body)
        self.active_at = now = door.ctx.clock.monotonic()
        door.counts.count(status, now - self._began)
        self._task = None
        self._raw = b""
        self.busy = False
        self.answered(self._call.caller)
        if door.stopping:
            door.rest()
        if self._held or self._still:
            if self._held:
                self._asked_at = now
            self._go_on()
        if self._ended and not self.busy and not self._walking and self._inner is None:
            transport.close()

    def _admit(self, who: Caller) -> Call:
        """As access.admit. Raises Problem forbidden."""
        if who is ANYBODY:
            call = self._anybodys
            if call is None or call.sent is None:
                call = self._anybodys = Call(who, OPERATION_ID, work=True, sent=Sent(), needed=_ROLE)
            else:
                call.sent.any = False
            return call
        check_role(count(self._door.ctx, who), _ROLE)
        return Call(who, OPERATION_ID, "", self._address() if who.known else "", work=True, sent=Sent(), needed=_ROLE)

    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""
