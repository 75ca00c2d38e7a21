"""Idempotency-Key: a request that may be sent again without being done again.

The key holds for an hour, on every node (`core.subjects.idempotency`), for one kind of request, such as creating a job,
a batch, or a manual run. The same key with another body (compared byte by byte: who sends again sends the same bytes),
other conditions or another job is refused. A request that was refused leaves its key free. The repeat is answered like
the first time, with the job as it is by then; when the job was deleted meanwhile, with 404.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from aiohttp import web

from raftsched.api.auth.callers import caller
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.problems import from_rejected
from raftsched.api.http.replies import propose_one
from raftsched.api.http.requests import IDEMPOTENCY_KEY, idempotency_key
from raftsched.core.commands import Accepted, Command, Idempotent, Rejected, StoredResponse, encode
from raftsched.core.subjects.idempotency import key_mismatch, known_use, replay
from raftsched.core.subjects.keyed import NOTE_MAX, KeyUse
from raftsched.errors import KINDS, RaftschedError, UnknownOutcome


class Named(NamedTuple):
    """A request and the name its sender gave it, as hashes; both empty without one."""

    key: bytes = b""
    digest: bytes = b""


UNNAMED = Named()


def named(request: web.Request, kind: str, *parts: bytes) -> Named:
    """`parts`: all that makes the request what it is. Raises Problem invalid-parameter."""
    given = idempotency_key(request)
    if given is None:
        return UNNAMED
    whose = caller().whose  # keys of one token mean nothing under another
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    text = f"{kind}\0{given}\0{whose}" if whose else f"{kind}\0{given}"
    return Named(sha256(text.encode()).digest(), digest.digest())


def part(name: Named, place: int | bytes) -> Named:
    """Returns the key of what a request does at one of its places, or to one of many."""
    if not name.key:
        return name
    which = place if isinstance(place, bytes) else place.to_bytes(8, "big")
    return Named(sha256(name.key + which).digest(), name.digest)


def under(name: Named, command: Command) -> bytes:
    """Returns the command to propose: once under the request's key, if it has one."""
    raw = encode(command)
    return encode(Idempotent(name.key, name.digest, raw)) if name.key else raw


async def propose_once(ctx: ApiContext, name: Named, command: Command) -> Accepted:
    """Raises what `done_before` and `propose_one` raise."""
    return done_before(ctx, name) or await propose_one(ctx, under(name, command))


async def noted(ctx: ApiContext, name: Named, answer: bytes) -> bytes:
    """Returns the answer of a request that is done, and remembers it for repeats under the same key. Raises
    UnknownOutcome when it is not certain that it was remembered."""
    if not name.key or len(answer) > NOTE_MAX:
        return answer
    try:
        accepted = await propose_one(ctx, encode(StoredResponse(name.key, name.digest, answer)))
    except RaftschedError as error:
        if KINDS[error.code].status != 503:
            raise
        raise UnknownOutcome(f"It was done, but not remembered under its {IDEMPOTENCY_KEY}: {error.detail}") from None
    return accepted.note


def done_before(ctx: ApiContext, name: Named) -> Accepted | None:
    """Returns the answer when this node knows that the request was done: it is not checked again, for what was right
    then may be too late by now. None: apply will tell. Raises what apply would refuse."""
    use = known(ctx, name)
    if use is None:
        return None
    with ctx.read() as view:
        answer = replay(view, use)
    if isinstance(answer, Rejected):
        raise from_rejected(answer)
    return answer


def known(ctx: ApiContext, name: Named) -> KeyUse | None:
    """Returns what this node knows to be done under the request's key. Raises idempotency-mismatch."""
    if not name.key:
        return None
    with ctx.read() as view:
        cluster = meta(view)
        use = known_use(view, cluster, name.key)
    if use is None or use.at_ms <= ctx.now_ms() - cluster.settings.idempotency_keep_ms:
        return None
    if use.digest != name.digest:
        raise from_rejected(key_mismatch())
    return use
