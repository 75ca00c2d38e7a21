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
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec

from raftsched.api.access import UnknownToken, check_role, digest_of, identify
from raftsched.api.callers import ANYBODY, NOBODY, Call, Caller, Sent, answer_to, begin, end, out_of_memory
from raftsched.api.context import ApiContext
from raftsched.api.jobs_in import create_command, read_job
from raftsched.api.jobs_out import job_json
from raftsched.api.metrics import RequestCounts
from raftsched.api.problems import MEDIA_TYPE, Problem, body_of, from_rejected, retry_after
from raftsched.api.replies import GUARDS, STRICT, job_of, propose_one
from raftsched.api.requests import HostCheck
from raftsched.api.resolving import renew, settled
from raftsched.api.strangers import Strangers
from raftsched.api.users import naming_users
from raftsched.api.webhooks_seen import check_notify, is_limited
from raftsched.core.access import Role
from raftsched.core.cluster import Settings
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.ids import job_text
from raftsched.core.namespaces import DEFAULTS_STALE
from raftsched.errors import RaftschedError, UnknownOutcome

log = logging.getLogger(__name__)

HELD_MAX = 256 * 1024  # bytes of one connection that wait for their turn
_HEAD_MAX = 2_048  # bytes
_VERDICTS_MAX = 512
_START = b"POST /v1/jobs HTTP/1.1\r\n"
_HEADER = re.compile(rb"([A-Za-z-]{1,40}):[ \t]*([\x20-\x7e]*?)[ \t]*")
_ABOUT_THE_CLIENT = frozenset({b"user-agent", b"accept", b"accept-language", b"accept-encoding"})
_ONCE = frozenset({b"authorization", b"host", b"content-type", b"content-length", b"origin", b"connection"})
_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})
_LENGTH = re.compile(rb"[0-9]{1,7}")
_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_NOT_OURS = (-1, b"")
_NAME = "jobs_create"  # the operation that this is
_ROLE = Role.EDITOR
_encode = msgspec.json.Encoder().encode


class Door:
    """What the connections of one server share."""

    def __init__(
        self, ctx: ApiContext, counts: RequestCounts, strangers: Strangers, ordinary: Callable[[], asyncio.Protocol]
    ) -> None:
        """`ordinary` makes aiohttp's protocol for a connection."""
        self.ctx = ctx
        self.counts = counts
        self.strangers = strangers
        self.ordinary = ordinary
        self.connections: set[Connection] = set()
        self.stopping = False
        self._drained: asyncio.Event | None = None
        self._check = HostCheck(ctx.hosts)
        self._verdicts: dict[bytes, tuple[int, bytes]] = {}

    def __call__(self) -> asyncio.Protocol:
        return Connection(self)

    def judge(self, head: bytes) -> tuple[int, bytes]:
        """The length of the body that follows this head (without its last line break), negative when it is not for the
        short way; and the hash of the token in it."""
        verdict = self._verdicts.get(head)
        if verdict is None:
            if not head.startswith(_START):
                return _NOT_OURS
            verdict = self._judge(head)
            if len(self._verdicts) >= _VERDICTS_MAX:
                self._verdicts.clear()
            self._verdicts[head] = verdict
        return verdict

    def _judge(self, head: bytes) -> tuple[int, bytes]:
        seen: dict[bytes, bytes] = {}
        for line in head[len(_START) :].split(b"\r\n"):
            match = _HEADER.fullmatch(line)
            if match is None:
                return _NOT_OURS
            name = match[1].lower()
            if name in _ONCE and name not in seen:
                seen[name] = match[2]
            elif name not in _ABOUT_THE_CLIENT:
                return _NOT_OURS
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
        return int(seen[b"content-length"]), digest_of(None if given is None else given.decode())

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


class Connection(asyncio.Protocol):
    """One client. Requests are answered one after the other, in order."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._inner: Any = door.ordinary()
        self._ordinary = False  # all that comes is aiohttp's
        self._held = b""
        self._transport: Any = None
        self._paused = False  # the client does not read its answers
        self._still = False  # reading is paused
        self._task: asyncio.Task[None] | None = None  # of a request that has to wait for more than one proposal
        self.busy = False  # a request is being answered
        self._raw = b""  # the body of the request that is answered
        self._call = NOBODY  # it, and who asks,
        self._anybodys: Call | None = None  # when that is nobody known
        self._walking = False  # `_go_on` is at work
        self._began = 0.0
        self.active_at = 0.0

    # ------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._door.connections.add(self)
        self.active_at = self._door.ctx.clock.monotonic()
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections.discard(self)
        if self._door.stopping:
            self._door.rest()
        self._held = b""
        self._inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        answer: bool | None = self._inner.eof_received()
        return answer

    def pause_writing(self) -> None:
        self._paused = True
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._paused = False
        self._inner.resume_writing()
        if not self._ordinary:
            self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._ordinary:
            self._inner.data_received(data)
            return
        self._held = self._held + data if self._held else bytes(data)
        if not self.busy and not self._paused:
            self._go_on()
        elif len(self._held) > HELD_MAX and not self._still:
            self._still = True
            self._transport.pause_reading()

    def close_if_idle(self, since: float) -> None:
        """Closes a connection of the short way that has said nothing since then."""
        if not self._ordinary and not self.busy and self.active_at < since:
            self._transport.close()

    # ------------------------------------------------------------ requests

    def _go_on(self) -> None:
        """Answers what is held, one request after the other. Not one within the other, for there may be many."""
        if self._walking:
            return
        self._walking = True
        while not self.busy and not self._paused and not self._ordinary and self._take():
            pass
        self._walking = False

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
        length, digest = door.judge(held[:end])
        settings = door.ctx.settings()
        if length < 0 or length > settings.body_max_bytes or door.stopping:
            self._leave()
            return False
        stop = end + 4 + length
        if len(held) < stop:
            return False
        self._held = held[stop:]
        self._begin(held[end + 4 : stop], digest, settings)
        return True

    def _leave(self) -> None:
        self._ordinary = True
        held, self._held = self._held, b""
        if self._still:
            self._still = False
            self._transport.resume_reading()
        self._inner.data_received(held)

    def _begin(self, raw: bytes, digest: bytes, settings: Settings) -> None:
        """Until the proposal is on its way; `_answered` does the rest."""
        ctx = self._door.ctx
        self.busy = True
        self._raw = raw
        self._began = ctx.clock.monotonic()
        self._call = NOBODY
        try:
            self._propose(self._admit(identify(ctx, digest)), settings)
        except UnknownToken:
            self._task = asyncio.ensure_future(self._introduce(digest))
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

    async def _introduce(self, digest: bytes) -> None:
        """For a token that is not known here, or not yet."""
        door = self._door
        try:
            who = await door.strangers.let_in(door.ctx, digest, self._address())
            self._propose(self._admit(who), door.ctx.settings())
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
            said = _made(self._door.ctx, answer)
        except Exception as failure:
            self._fail(failure)
        else:
            self._say(*said, told=True)

    def _wait(self) -> None:
        self._task = asyncio.ensure_future(self._answer())

    async def _answer(self) -> None:
        answer_to(self._call)
        try:
            said = await _create(self._door.ctx, self._raw)
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
        self._say(*_problem(error))

    def _say(self, status: int, headers: str, body: bytes, *, told: bool = False) -> None:
        """The answer to the request at hand; then it is the next one's turn. `told`: it may come before reads show what
        was done."""
        door = self._door
        transport = self._transport
        if not transport.is_closing():
            transport.write(_head(door.ctx, status, headers, len(body), told) + body)
        self.active_at = now = door.ctx.clock.monotonic()
        door.counts.count(status, now - self._began)
        self._task = None
        self._raw = b""
        self.busy = False
        if door.stopping:
            door.rest()
        if self._held or self._still:
            self._go_on()

    def _admit(self, who: Caller) -> Call:
        """As access.admit. Raises Problem forbidden."""
        if who is ANYBODY:
            call = self._anybodys
            if call is None or call.sent is None:
                call = self._anybodys = Call(who, _NAME, work=True, sent=Sent(), needed=_ROLE)
            else:
                call.sent.any = False
            return call
        check_role(who, _ROLE)
        return Call(who, _NAME, "", self._address() if who.known else "", work=True, sent=Sent(), needed=_ROLE)

    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""


async def _create(ctx: ApiContext, raw: bytes) -> tuple[int, str, bytes]:
    """In a task: for what has to be looked up elsewhere first, or proposed again."""

    async def write() -> Accepted:
        content = read_job(raw, ctx.settings(), ctx.now_ms(), ctx.space)
        await check_notify(ctx, content)
        return await propose_one(ctx, create_command(content))

    await renew(ctx)
    return _made(ctx, await settled(ctx, write))


def _made(ctx: ApiContext, accepted: Accepted) -> tuple[int, str, bytes]:
    job = job_of(accepted)
    body = job_json(job, ctx.now_ms(), ctx.calendar, ctx.begun(job))
    headers = f'Content-Type: application/json\r\nETag: "{job.revision}"\r\n'
    if not accepted.created:
        return 200, headers, body
    return 201, f"{headers}Location: /v1/jobs/{job_text(job.id)}\r\n", body


def _problem(error: RaftschedError) -> tuple[int, str, bytes]:
    body = body_of(error)
    headers = f"Content-Type: {MEDIA_TYPE}\r\n"
    wait = retry_after(error)
    if wait is not None:
        headers += f"Retry-After: {wait}\r\n"
    if isinstance(error, Problem):
        headers += "".join(f"{name}: {value}\r\n" for name, value in error.headers.items())
    return body.status, headers, _encode(body)


def _head(ctx: ApiContext, status: int, headers: str, length: int, told: bool) -> bytes:
    leader, term, index = ctx.stands()
    if not told:
        index = ctx.applied()
    stale = "" if leader is not None else "Raftsched-Stale: true\r\n"
    stamp = _stamp(ctx.now_ms() // 1000, leader, term, ctx.strict_transport)
    return f"{_LINES[status]}{headers}Content-Length: {length}\r\n{stamp}{index}\r\n{stale}\r\n".encode()


@lru_cache(maxsize=4)
def _stamp(seconds: int, leader: str | None, term: int, strict: bool) -> str:
    """What stays as it is from one answer to the next."""
    guards = {**GUARDS, "Strict-Transport-Security": STRICT} if strict else GUARDS
    lines = "".join(f"{name}: {value}\r\n" for name, value in guards.items())
    return (
        f"Cache-Control: no-store\r\nDate: {formatdate(seconds, usegmt=True)}\r\n"
        f"{lines}Raftsched-Leader: {leader or ''}\r\nRaftsched-Term: {term}\r\nRaftsched-Index: "
    )
