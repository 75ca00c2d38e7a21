"""/v1/worker-sessions: machines that run jobs and take no part in Raft. What a worker has to keep is in
docs/guarantees.md; what a node does about it, in raftsched.remote.gateway."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from aiohttp import web

from raftsched.api.auth.access import count, digest_of, still_holds
from raftsched.api.auth.access import refused as not_accepted
from raftsched.api.auth.callers import caller, note_proposed, request_state, served, signed
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.fallback import sends_no_more
from raftsched.api.http.problems import Problem
from raftsched.api.http.replies import reply_value
from raftsched.api.serving import serves
from raftsched.api.workers.opening import check_opening
from raftsched.api.workers.polls import read_poll
from raftsched.core.rows import TOKENS
from raftsched.core.subjects.cluster import Session
from raftsched.errors import RaftschedError
from raftsched.remote.gateway import NameTaken
from raftsched.remote.session_secrets import parse
from raftsched.surface import worker_sessions, workers
from raftsched.surface.worker_sessions import SESSION_SECRET

LOOKED_AT_S = 1.0  # a token may be revoked while a poll waits for longer


@serves(worker_sessions.OPEN)
async def open_session(ctx: ApiContext, call: Call[worker_sessions.WorkerSessionIn]) -> web.Response:
    worker = call.body
    check_opening(worker)
    worker.incarnation = _incarnation_of(worker.incarnation)
    queues, namespaces = served()
    try:
        opened = await ctx.workers.open(
            worker,
            queues=_within("queues", worker.queues, queues),
            namespaces=_within("namespaces", worker.namespaces, namespaces),
            signed=_signed,
            owner=caller().whose,
        )
    except NameTaken as taken:
        raise Problem(taken.code, taken.detail, headers={"Retry-After": str(taken.after_s)}) from None
    return reply_value(opened, 201, {"Location": workers.GET.path.format(name=opened.name)})


@serves(worker_sessions.POLL)
async def poll(ctx: ApiContext, call: Call[worker_sessions.PollIn]) -> web.Response:
    began, who = ctx.clock.monotonic(), caller()
    request = call.request
    session = session_of(call)
    try:
        await ctx.workers.admit(session, check_session, owner=who.whose)  # what nobody may say is not read
        said, refused = await read_poll(call)
        answer = await ctx.workers.poll(
            session,
            said,
            ctx.clock.boot_ms(),
            refused=refused,
            check=check_session,
            owner=who.whose,
            gone=lambda: request.transport is None or request.transport.is_closing(),
            ended=lambda: sends_no_more(request),
        )
    except RaftschedError as error:
        if error.code in ("session-over", "rate-limited", "too-many"):
            count(ctx, who)  # of a session that is open they are bounded there
        raise
    took_s = ctx.clock.monotonic() - began
    if not said.reports:
        request_state().waited_s = took_s
    if took_s > LOOKED_AT_S and not still_holds(ctx, who):
        raise not_accepted("The token was revoked, or is past its end.")
    return reply_value(answer)


@serves(worker_sessions.CLOSE)
async def close(ctx: ApiContext, call: Call[worker_sessions.CloseIn]) -> web.Response:
    await ctx.workers.close(session_of(call), call.body, check_session, owner=caller().whose)
    return web.Response(status=204)


@serves(worker_sessions.BIND)
async def bind(ctx: ApiContext, call: Call[worker_sessions.BindIn]) -> web.Response:
    await ctx.workers.bind(
        session_of(call),
        _owner_of(ctx, call.body.secret),
        _incarnation_of(call.body.incarnation),
        check_session,
        signed=_signed,
        owner=caller().whose,
    )
    return web.Response(status=204)


def _owner_of(ctx: ApiContext, secret: str) -> str:
    """Returns the owner of one of the cluster's own tokens, whether or not it still holds. Raises RaftschedError
    session-over: there is no such token, so no session is its."""
    digest = digest_of(f"Bearer {secret}")
    with ctx.read() as view:
        found = TOKENS.get(view, digest) if digest else None  # empty: it is no text of a token, nor a key of a row
    if found is None:
        raise RaftschedError("session-over", "There is no such session, or it is not that of this token.")
    return str(found.id)


def _incarnation_of(said: str) -> str:
    """Returns the incarnation as the log has it: who shows it ends a session at once, so it is for the token that the
    session is of, and for no other."""
    whose = caller().whose
    return sha256(f"{whose}\0{said}".encode()).hexdigest() if said and whose else said


def session_of(call: Call[Any]) -> str:
    """Returns the text of the session: its number, "-", and its secret. Workers of before 0.3.0 put all of it into the
    address, where proxies note it down. Raises Problem not-found for what no opening was ever answered with."""
    address = call.path["session"]
    text = call.request.headers.get(SESSION_SECRET, address)
    if parse(text) is None or address not in (text, text.partition("-")[0]):
        raise Problem(
            "not-found",
            "There is no such session. Its number goes into the address, and all that its opening was answered with as "
            f'"session" into the header {SESSION_SECRET}.',
        )
    return text


def _signed(commands: Sequence[bytes]) -> Sequence[bytes]:
    note_proposed()
    return signed(commands)


def _within(what: str, asked: Sequence[str] | None, allowed: frozenset[str] | None) -> Sequence[str] | None:
    """Returns those whose runs the session is for; None: of all. Raises Problem forbidden."""
    if asked is None:
        return None if allowed is None else sorted(allowed)
    if allowed is not None and not allowed.issuperset(asked):
        others = ", ".join(sorted(set(asked) - allowed)[:5])
        raise Problem("forbidden", f'The token "{caller().name}" is not for these {what}: {others}.')
    return sorted(set(asked))


def check_session(session: Session) -> None:
    """A session is for its own worker; and no token speaks for one that may be given more than the token. Raises
    Problem forbidden."""
    for what, of_session, allowed in zip(
        ("queues", "namespaces"), (session.queues, session.namespaces), served(), strict=True
    ):
        if allowed is not None and (of_session is None or not allowed.issuperset(of_session)):
            raise Problem("forbidden", f'The session takes runs of {what} that the token "{caller().name}" is not for.')
