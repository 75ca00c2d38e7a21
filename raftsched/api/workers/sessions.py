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
from raftsched.api.openapi.operation import BODIES, Reply, operation
from raftsched.api.workers.polls import read_poll
from raftsched.api.workers.schema import (
    BindIn,
    CloseIn,
    PollAnswer,
    PollIn,
    WorkerSessionIn,
    WorkerSessionOut,
    check_opening,
)
from raftsched.core.rows import TOKENS
from raftsched.core.subjects.cluster import Session
from raftsched.errors import RaftschedError
from raftsched.remote.gateway import NameTaken
from raftsched.remote.session_secrets import HEADER, parse

OPENING_MAX = 256 * 1024  # bytes of a body
POLL_MAX = 4 * 1024 * 1024
CLOSING_MAX = 512 * 1024
BINDING_MAX = 64 * 1024
LOOKED_AT_S = 1.0  # a token may be revoked while a poll waits for longer

_WRITES = ("no-leader", "overloaded", "stopping", "unknown-outcome")


@operation(
    "Open a worker's session",
    {201: Reply(WorkerSessionOut, "The session, and its lease.", ("Location",), leads_to="/v1/workers/{name}")},
    body=WorkerSessionIn,
    body_max=OPENING_MAX,
    codes=(*BODIES, *_WRITES, "name-taken", "too-many"),
    role="worker",
    scope="shared",
    repeatable=True,
    work=True,
)
async def open_session(ctx: ApiContext, call: Call[WorkerSessionIn]) -> web.Response:
    """A worker takes runs under a session, with any node. While another process works under the same name, or did a
    moment ago, the name is taken (409, and when to ask again). The lease counts from when the request was sent, so
    that an answer must not be given twice: who got none asks again, with a higher `opening`, and what the first request
    opened ends at once."""
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
            whose=caller().whose,
        )
    except NameTaken as taken:
        raise Problem(taken.code, taken.detail, headers={"Retry-After": str(taken.after_s)}) from None
    return reply_value(opened, 201, {"Location": f"/v1/workers/{opened.name}"})


@operation(
    "Poll for a worker",
    {200: Reply(PollAnswer, "Runs to begin, runs to end, and for how long the worker may run any.")},
    headers=(HEADER,),
    body=PollIn,
    body_max=POLL_MAX,
    codes=(*BODIES, *_WRITES, "not-found", "session-over", "too-many", "rate-limited", "disk-full"),
    role="worker",
    scope="shared",
    repeatable=True,
    paced=True,
)
async def poll(ctx: ApiContext, call: Call[PollIn]) -> web.Response:
    """Renews the lease, hands in reports, takes runs, and waits for some if there are none. It may be sent again, to
    any node: the same runs are given until a poll says that they were taken (`after`), and reports that are known
    already change nothing. A report that is not as it must be is refused alone (`refused`, "invalid"), as long as the
    body is JSON and says whose the report is. 410: the session is over, and so must be all that runs under it."""
    began, who = ctx.clock.monotonic(), caller()
    request = call.request
    session = session_of(call)
    try:
        await ctx.workers.admit(session, check_session, whose=who.whose)  # what nobody may say is not read
        said, refused = await read_poll(call)
        answer = await ctx.workers.poll(
            session,
            said,
            ctx.clock.boot_ms(),
            refused=refused,
            check=check_session,
            whose=who.whose,
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


@operation(
    "Close a worker's session",
    {204: Reply(None, "The session is over.")},
    headers=(HEADER,),
    body=CloseIn,
    body_required=False,
    body_max=CLOSING_MAX,
    codes=(*BODIES, *_WRITES, "not-found"),
    role="worker",
    scope="shared",
    repeatable=True,
)
async def close(ctx: ApiContext, call: Call[CloseIn]) -> web.Response:
    """Ends a session. What the worker had is given to others at once. It may be sent again: a session that is over
    stays so."""
    await ctx.workers.close(session_of(call), call.body, check_session, whose=caller().whose)
    return web.Response(status=204)


@operation(
    "Give a worker's session to another token",
    {204: Reply(None, "The session is that of the token of this request.")},
    headers=(HEADER,),
    body=BindIn,
    body_max=BINDING_MAX,
    codes=(*BODIES, *_WRITES, "not-found", "session-over"),
    role="worker",
    scope="shared",
    repeatable=True,
    work=True,
)
async def bind(ctx: ApiContext, call: Call[BindIn]) -> web.Response:
    """A worker that gets another token goes on with its session, and with what runs under it: it shows the new token as
    always, and the secret of the earlier one in the body. That one may have been revoked by then, or have expired, as
    long as the session is open. The new token has to be good for all that the session takes runs of. It may be sent
    again."""
    await ctx.workers.bind(
        session_of(call),
        _owner_of(ctx, call.body.secret),
        _incarnation_of(call.body.incarnation),
        check_session,
        signed=_signed,
        whose=caller().whose,
    )
    return web.Response(status=204)


def _owner_of(ctx: ApiContext, secret: str) -> str:
    """Returns the owner of one of the cluster's own tokens, whether or not it still holds. Raises RaftschedError
    session-over: there is no such token, so no session is its."""
    with ctx.read() as view:
        found = TOKENS.get(view, digest_of(f"Bearer {secret}"))
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
    text = call.request.headers.get(HEADER, address)
    if parse(text) is None or address not in (text, text.partition("-")[0]):
        raise Problem(
            "not-found",
            "There is no such session. Its number goes into the address, and all that its opening was answered with as "
            f'"session" into the header {HEADER}.',
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
