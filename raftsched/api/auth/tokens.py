"""/v1/tokens, and /v1/cluster/access: whether requests need one."""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import Any

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.auth.access import access_of, digest_of, oidc_of
from raftsched.api.auth.callers import ROLES, caller, role_name
from raftsched.api.auth.first_admin import check_admin, found, issuer_found, others, reached_from_outside
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_duration, format_time, format_time_or_none
from raftsched.api.http.idempotency import Named, done_before, under
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import propose_one, reply_tagged, reply_value
from raftsched.api.http.requests import IDEMPOTENCY_KEY, NAMESPACE_HELP, catch_up, id_of
from raftsched.api.jobs.triggers import duration_of, time_of
from raftsched.api.resources.named import list_page
from raftsched.api.serving import serves
from raftsched.bounds import SERVED_MAX, TOKEN_NAMESPACES_MAX
from raftsched.core.commands import encode
from raftsched.core.ids import job_text, parse_job
from raftsched.core.limits import RATE_PERIOD_MS
from raftsched.core.rows import TOKENS, decode_token
from raftsched.core.subjects.access import (
    ANONYMOUS,
    CreateToken,
    CreateWorkerToken,
    Grant,
    RevokeToken,
    Role,
    SetAccess,
    Token,
)
from raftsched.core.tables import ReadView, Table, u64
from raftsched.security.sealing import ANSWERS, Unsealable, open_whole
from raftsched.surface import tokens as surface
from raftsched.surface.queues import RateOut
from raftsched.surface.tokens import AccessIn, AccessMade, AccessOut, GrantOut, TokenIn, TokenMade, TokenOut

PREFIX = "rs_"
SECRET_BYTES = 32  # of randomness


@serves(surface.CREATE)
async def create(ctx: ApiContext, call: Call[TokenIn]) -> web.Response:
    name = call.key("token", call.raw)
    given = call.body
    accepted = done_before(ctx, name)
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    if accepted is None:
        answer = b""
        if name.key and ctx.security.sealer is not None:
            answer = ctx.security.sealer.seal_whole(ANSWERS, name.key.hex(), secret.encode())
        accepted = await propose_one(ctx, under(name, _command(ctx, given, sha256(secret.encode()).digest(), answer)))
    assert accepted.number is not None
    with ctx.read() as view:
        made = _find(view, accepted.number)
    if made is None:
        raise Problem("not-found", "The token was made before; it was revoked and forgotten since.")
    if sha256(secret.encode()).digest() != made.digest:
        secret = _shown_before(ctx, name, made, accepted.note)
    shown = TokenMade(**msgspec.structs.asdict(_shown(ctx, made)), secret=secret)
    return reply_value(shown, 201, {"Location": surface.GET.at(id=shown.id)})


def _shown_before(ctx: ApiContext, name: Named, made: Token, answer: bytes) -> str:
    """The secret that the first request under this name was answered: it was kept for repeats, sealed, for as long as
    the name is remembered. Raises Problem not-possible."""
    why = "without a cluster key it is not kept"
    if answer:
        try:
            return open_whole(ctx.security.sealer, ANSWERS, name.key.hex(), answer).decode()
        except Unsealable as error:
            why = str(error)
    raise Problem(
        "not-possible",
        f'The token "{made.name}" was made by the first request with this {IDEMPOTENCY_KEY}, and its secret is not '
        f"shown again ({why}). Revoke it, and make one under another name.",
    )


def _command(ctx: ApiContext, given: TokenIn, digest: bytes, answer: bytes) -> CreateToken | CreateWorkerToken:
    """Raises Problem invalid-body."""
    errors: list[FieldError] = []
    if given.name == ANONYMOUS:
        errors.append(FieldError("/name", "stands for nobody in the audit; take another", "reserved"))
    elif not names.TOKEN.allows(given.name):
        errors.append(FieldError("/name", f"must have {names.TOKEN.rule}"))
    namespaces = given.namespaces
    if namespaces is not None:
        if not 1 <= len(namespaces) <= TOKEN_NAMESPACES_MAX:
            errors.append(FieldError("/namespaces", f"must be 1 to {TOKEN_NAMESPACES_MAX}, or null for all"))
        for place, namespace in enumerate(namespaces):
            if not names.NAMESPACE.allows(namespace):
                errors.append(FieldError(f"/namespaces/{place}", f"is no namespace; use {names.NAMESPACE.rule}"))
        if given.role == "admin":
            errors.append(FieldError("/namespaces", "must be left out: an admin can make tokens for all namespaces"))
    chosen = None if namespaces is None else tuple(sorted(set(namespaces)))
    grants = _grants(given, errors)
    queues = _queues(given, errors)
    expires_at_ms = time_of(given.expires_at, "/expires_at", errors)
    if expires_at_ms is not None and expires_at_ms <= ctx.now_ms():
        errors.append(FieldError("/expires_at", "is past; it must be a time to come, or null", "past"))
    rate_count, rate_period_ms = _rate(given, errors)
    if errors:
        raise Problem("invalid-body", errors=errors)
    if given.role == "worker":
        return CreateWorkerToken(
            given.name, digest, queues, chosen, expires_at_ms, rate_count, rate_period_ms, given.burst, answer
        )
    return CreateToken(
        given.name,
        ROLES[given.role],
        digest,
        chosen,
        expires_at_ms,
        grants,
        rate_count,
        rate_period_ms,
        given.burst,
        answer,
    )


def _queues(given: TokenIn, errors: list[FieldError]) -> tuple[str, ...] | None:
    if given.queues is None:
        return None
    if given.role != "worker":
        errors.append(FieldError("/queues", 'goes with the role "worker"; leave it out'))
    if not 1 <= len(given.queues) <= SERVED_MAX:
        errors.append(FieldError("/queues", f"must be 1 to {SERVED_MAX}, or null for all"))
    for place, queue in enumerate(given.queues):
        if not names.QUEUE.allows(queue):
            errors.append(FieldError(f"/queues/{place}", f"is no queue; use {names.QUEUE.rule}"))
    return tuple(sorted(set(given.queues)))


def _grants(given: TokenIn, errors: list[FieldError]) -> tuple[Grant, ...]:
    if given.role == "worker" and given.grants:
        errors.append(FieldError("/grants", "must be left out: a worker's token is for workers only"))
    if len(given.grants) > TOKEN_NAMESPACES_MAX:
        errors.append(FieldError("/grants", f"has {len(given.grants)}; at most {TOKEN_NAMESPACES_MAX} are allowed"))
        return ()
    found: dict[str, Grant] = {}
    for place, one in enumerate(given.grants):
        namespace, role = one.namespace, ROLES[one.role]
        at = f"/grants/{place}/namespace"
        if not names.NAMESPACE.allows(namespace):
            errors.append(FieldError(at, NAMESPACE_HELP))
        elif namespace in found:
            errors.append(FieldError(at, "has a grant already; say one role for each namespace", "repeated"))
        elif (given.namespaces is None or namespace in given.namespaces) and role <= ROLES[given.role]:
            says = f'adds nothing: the role there is {given.role} without it; a grant can only add to "role"'
            errors.append(FieldError(f"/grants/{place}/role", says, "inconsistent"))
        found[namespace] = Grant(namespace, role)
    return tuple(found.values())


def _rate(given: TokenIn, errors: list[FieldError]) -> tuple[int | None, int]:
    """Requests, and in how many milliseconds."""
    rate = given.rate
    if rate is None:
        if given.burst is not None:
            errors.append(
                FieldError(
                    "/burst", "goes with a rate; say how many requests there may be in the long run", "inconsistent"
                )
            )
        return None, 0
    shortest, longest = RATE_PERIOD_MS
    period = duration_of(rate.per, "/rate/per", errors)
    if rate.count is None:
        errors.append(FieldError("/rate/count", "is missing; say how many requests there may be in each period"))
    if rate.per is None:
        errors.append(FieldError("/rate/per", "is missing; give the period of the rate, such as 1s"))
    elif period is not None and not shortest <= period <= longest:
        errors.append(
            FieldError(
                "/rate/per", f"must be from {format_duration(shortest)} to {format_duration(longest)}", "out-of-range"
            )
        )
    return rate.count, period or 0


@serves(surface.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:

    def shown(view: ReadView, digest: bytes, _: int) -> TokenOut | None:
        token = TOKENS.get(view, digest)
        return None if token is None else _shown(ctx, token)

    return await list_page(ctx, call, "tokens", Table.TOKEN_IDS, lambda view, _, digest: digest, shown)


@serves(surface.GET)
async def get(ctx: ApiContext, call: Call[None]) -> web.Response:
    number = _number(call)
    with ctx.read() as view:
        found = _find(view, number)
    if found is None:
        raise _nothing(call)
    return reply_value(_shown(ctx, found))


@serves(surface.DELETE)
async def delete(ctx: ApiContext, call: Call[None]) -> web.Response:
    await propose_one(ctx, encode(RevokeToken(_number(call))))
    return web.Response(status=204)


_ABSENT = 'There is no token "{}"; tokens are named by their ids.'


def _number(call: Call[Any]) -> int:
    return id_of(call, parse_job, _ABSENT)


def _nothing(call: Call[Any]) -> Problem:
    return Problem("not-found", _ABSENT.format(call.path["id"][:64]))


def _find(view: ReadView, number: int) -> Token | None:
    digest = view.get(Table.TOKEN_IDS, u64(number))
    raw = None if digest is None else view.get(Table.TOKENS, digest)
    return None if raw is None else decode_token(raw)


def _shown(ctx: ApiContext, token: Token) -> TokenOut:
    state = "active" if token.holds(ctx.now_ms()) else "expired"
    return TokenOut(
        id=job_text(token.id),
        name=token.name,
        role=role_name(token.role),
        namespaces=None if token.namespaces is None else list(token.namespaces),
        state="revoked" if token.revoked_at_ms is not None else state,  # type: ignore[arg-type]
        created_at=format_time(token.created_at_ms),
        created_by=token.created_by or None,
        expires_at=format_time_or_none(token.expires_at_ms),
        revoked_at=format_time_or_none(token.revoked_at_ms),
        revoked_by=token.revoked_by or None,
        grants=[GrantOut(one.namespace, role_name(one.role)) for one in token.grants],  # type: ignore[arg-type]
        rate=None if token.rate_count is None else RateOut(token.rate_count, format_duration(token.rate_period_ms)),
        burst=token.burst,
        queues=None if token.queues is None else list(token.queues),
    )


# ---------------------------------------------------------------- whether they are needed


@serves(surface.ACCESS)
async def get_access(ctx: ApiContext, call: Call[None]) -> web.Response:
    with ctx.read() as view:
        access = access_of(view)
    return reply_tagged(call.request, AccessOut(access.required), access.revision)


@serves(surface.SET_ACCESS)
async def put_access(ctx: ApiContext, call: Call[AccessIn]) -> web.Response:
    given = call.body
    digest = check_admin(given)
    secret = b""
    if given.required:
        if not digest:
            await _check_way_back(ctx, digest_of(call.request.headers.get("Authorization")))
        secret = b"" if ctx.security.peer_keys else secrets.token_bytes(SECRET_BYTES)  # see peer_proof.py
    else:
        _check_enclosed(ctx)
    name = given.admin.name if given.admin is not None else ""
    command = SetAccess(given.required, secret, call.if_match, name, digest, bool(given.keep))
    taken = oidc_of(ctx)
    accepted = await propose_one(ctx, encode(command))
    answer = AccessMade(given.required)
    if digest:
        with ctx.read() as view:
            raw = view.get(Table.TOKENS, digest)
            if raw is not None:
                made = decode_token(raw)
                there = [_shown(ctx, token) for token in others(view, made, ctx.now_ms())]
                issuer = issuer_found(taken, oidc_of(ctx))
                answer.token, answer.found = _shown(ctx, made), found(view, meta(view), there, issuer)
    return reply_tagged(call.request, answer, accepted.number or 0)


def _check_enclosed(ctx: ApiContext) -> None:
    """Raises Problem not-possible."""
    outside = [ctx.node_id] if ctx.security.guarded else [] if ctx.security.open else reached_from_outside(ctx)
    if outside:
        raise Problem(
            "not-possible",
            f"Others than its own machine can reach {outside[0]}, which would lock itself then; start the nodes with "
            "--open if whoever reaches them may do everything, and ask one of these.",
        )


async def _check_way_back(ctx: ApiContext, digest: bytes) -> None:
    """Raises Problem not-possible."""
    if caller().known and not caller().actor:
        return  # by the secret of this node
    await catch_up(ctx)
    with ctx.read() as view:
        raw = view.get(Table.TOKENS, digest) if digest else None
    token = None if raw is None else decode_token(raw)
    if token is None or not token.holds(ctx.now_ms()) or token.role is not Role.ADMIN or token.expires_at_ms:
        raise Problem(
            "not-possible",
            "Make a token of an admin without an end first, and send it along with this request (Authorization: Bearer "
            "TOKEN): who turns tokens on must not be locked out.",
        )
