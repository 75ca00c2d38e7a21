"""Admission of requests: the token of each, the role that its operation needs, and the namespaces it is for.

While the cluster is open everybody may do everything, and a token only says who somebody is. Once tokens are required,
a request shows one (`Authorization: Bearer`), or comes from another node (PEER), or from this node's machine with the
secret that lies in its data directory (`local_digest`), which is the way back in when the last token is lost.

A node that other machines can reach (`guarded`) is never open: while requests need no token elsewhere it is locked, and
lets in only those who show that secret. So only somebody who may read its disk can be first; tokens that were made
while the cluster was open do not count there.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from aiohttp import web

from raftsched.api.auth.callers import (
    ANYBODY,
    ROLES,
    Caller,
    Rate,
    RequestContext,
    RequestState,
    check_permitted,
    enter_request,
    must_name,
    request_state,
    role_name,
)
from raftsched.api.auth.oidc_verify import looks_issued
from raftsched.api.auth.peer_proof import PEER, peer_said
from raftsched.api.auth.rates import rate_of
from raftsched.api.auth.refusals import STATUSES, note_refusal
from raftsched.api.context import AccessSeen, ApiContext
from raftsched.api.http.problems import Problem
from raftsched.core.rows import decode_access, decode_oidc, decode_token
from raftsched.core.subjects.access import ACCESS_KEY, OIDC_KEY, Access, Oidc, Role, Token
from raftsched.core.tables import ReadView, Table
from raftsched.errors import KINDS, RaftschedError
from raftsched.security.shown import path_without_secrets
from raftsched.surface.health import METRICS
from raftsched.surface.jobs import CREATE
from raftsched.surface.operation import HEALTH, Operation

TOKENS_SEEN_MAX = 1_000  # remembered until something is applied
LOOK_S = 1.0  # between two looks whether the reader of a stream may go on

CHALLENGE = 'Bearer realm="raftsched"'
LOCKED = "This node is locked until there is an admin; make one on its machine: raftsched tokens bootstrap --data DIR"
_REFUSED = "The token is not known, was revoked, or is past its end."
_NODE: web.RequestKey[Caller] = web.RequestKey("node", Caller)  # which asks, once that is known
_INVALID = 'error="invalid_token"'
_MADE = re.compile(r"r[sl]_[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]", re.ASCII)  # 256 bits leave two of the last character
_BEARER = re.compile(r"bearer +([\x21-\x7e]{1,8192})", re.ASCII | re.IGNORECASE)
_FAILURES = ("unauthorized", "locked")
_NARROWING = ("namespace", "job", "ids")  # parameters by which something less than everything is meant


class MalformedDigest(bytes):
    """The hash of a token in a form that neither nodes nor issuers make. An admin may have brought one."""


class UnknownToken(Problem):
    """Nothing is known of the token here."""

    def __init__(self, code: str = "unauthorized", detail: str = _REFUSED) -> None:
        super().__init__(code, detail, headers=_challenge(_INVALID))


class Locked(UnknownToken):
    """This node lets nobody in yet; or it has not heard that it may."""

    def __init__(self) -> None:
        super().__init__("locked", LOCKED)


def digest_of(authorization: str | None) -> bytes:
    """The hash of the token that is shown; empty: none is."""
    match = None if authorization is None else _BEARER.fullmatch(authorization.strip())
    if match is None:
        return b""
    digest = sha256(match[1].encode()).digest()
    return digest if _MADE.fullmatch(match[1]) or looks_issued(match[1]) else MalformedDigest(digest)


def access_of(view: ReadView) -> Access:
    return decode_access(view.get(Table.ACCESS, ACCESS_KEY))


def identify(ctx: ApiContext, digest: bytes) -> Caller:
    """Returns the caller whose token has this hash. Raises Problem unauthorized, forbidden, UnknownToken."""
    access, token, oidc = _look_up(ctx, digest)
    required = access is not None and access.required
    locked = ctx.security.guarded and not required
    if (required or locked) and digest and hmac.compare_digest(digest, ctx.security.local_digest):
        return Caller(Role.ADMIN, name=f"local at {ctx.node_id}", digest=digest, counted=False)
    if locked:
        raise Locked() if digest else Problem("locked", LOCKED, headers=_challenge(""))
    if token is not None and token.holds(ctx.now_ms()):
        rate = _rate_of(token)
        if not required:
            return Caller(Role.ADMIN, None, token.id, token.name, digest, expires_at_ms=token.expires_at_ms, rate=rate)
        return caller_of(token)._replace(rate=rate) if rate is not None else caller_of(token)
    if not required:
        return ANYBODY
    if digest:
        who = None if token is not None else ctx.issuer.known(oidc, digest, ctx.clock.monotonic(), ctx.now_ms())
        if who is not None:
            return who
        raise UnknownToken() if token is None else _unauthorized(_REFUSED, _INVALID)
    raise _unauthorized('This cluster wants a token; send "Authorization: Bearer TOKEN".')


def caller_of(token: Token) -> Caller:
    """Returns the caller of a token that is valid, where tokens are needed."""
    allowed = None if token.namespaces is None else frozenset(token.namespaces)
    found = Caller(token.role, allowed, token.id, token.name, token.digest, expires_at_ms=token.expires_at_ms)
    if token.queues is not None:
        found = found._replace(queues=frozenset(token.queues))
    if not token.grants:
        return found
    return found._replace(grants={grant.namespace: grant.role for grant in token.grants})


def asker(ctx: ApiContext, request: web.Request, *, peers: bool = False) -> Caller:
    """Returns the caller of a request: another node, or the owner of the token. `peers`: nodes may do more than read
    there. Raises Problem unauthorized, forbidden, UnknownToken."""
    headers = request.headers
    if PEER in headers and (peers or request.method in ("GET", "HEAD")):
        who = request.get(_NODE) or _peer(ctx, request)  # what proves it is good for once
        if who is not None:
            request[_NODE] = who
            return who
    return identify(ctx, digest_of(headers.get("Authorization")))


def is_locked(ctx: ApiContext) -> bool:
    """Returns whether this node lets in only those who can read its disk."""
    if not ctx.security.guarded:
        return False
    access, _, _ = _look_up(ctx, b"")
    return access is None or not access.required


def _rate_of(token: Token) -> Rate | None:
    if token.rate_count is None:
        return None
    return rate_of(token.rate_count * 1_000 / token.rate_period_ms, token.burst or 0)


def count(ctx: ApiContext, who: Caller) -> Caller:
    """Counts one more request of a caller. Raises Problem rate-limited."""
    if who.name:
        now = ctx.clock.monotonic()
        ctx.rates.of_token(who, ctx.settings(), now)
        ctx.rates.of_processor(who, ctx.bounds.token_processor_ms, now)
    return who


def count_open(ctx: ApiContext, address: str) -> None:
    """One more request that needs no token, by somebody who may be anybody: where all may do everything, nobody is
    counted. Raises Problem rate-limited."""
    access, _, _ = _look_up(ctx, b"")
    if access is not None and access.required:
        ctx.rates.of_address(address, ctx.settings(), ctx.clock.monotonic())


def count_failure(ctx: ApiContext, address: str, *, take: bool = True) -> None:
    """One more request without a token that is good. Raises Problem rate-limited in place of what it was refused with.
    `take`: False only looks, before something is asked of others on behalf of somebody who may be anybody."""
    ctx.rates.of_failure(address, ctx.settings(), ctx.clock.monotonic(), take=take)


def counted(ctx: ApiContext, address: str, refused: RaftschedError) -> RaftschedError:
    """Returns the problem to answer with. A refusal for want of a good token is counted, and becomes rate-limited when
    there were too many."""
    if refused.code not in _FAILURES:
        return refused
    try:
        count_failure(ctx, address)
    except Problem as limited:
        return limited
    return refused


def refused_create(ctx: ApiContext, address: str, refused: RaftschedError, call: RequestContext) -> RaftschedError:
    """Does the same for a POST of a job, and notes the refusal. `call`: the request's context, as far as that is
    known."""
    found = counted(ctx, address, refused)
    status = KINDS[found.code].status
    if status in STATUSES:
        actor = call.caller.name or (refused.actor if isinstance(refused, Problem) else "")
        note_refusal(ctx, status, "POST", CREATE.path, actor, address)
    return found


def _look_up(ctx: ApiContext, digest: bytes) -> tuple[Access | None, Token | None, Oidc]:
    """Returns the rows about access as of what is applied now. Requests between two applied entries share one look at
    the tables."""
    index = ctx.applied()
    seen = ctx.access_seen
    if seen is not None and seen.index == index and (not digest or digest in seen.tokens):
        return seen.access, seen.tokens[digest] if digest else None, seen.oidc
    with ctx.read() as view:
        raw = view.get(Table.ACCESS, ACCESS_KEY)
        issuer = view.get(Table.ACCESS, OIDC_KEY)
        found = view.get(Table.TOKENS, digest) if digest else None
    access = None if raw is None else decode_access(raw)
    token = None if found is None else decode_token(found)
    if seen is None or seen.index != index or len(seen.tokens) >= TOKENS_SEEN_MAX:
        seen = ctx.access_seen = AccessSeen(index, access, {}, decode_oidc(issuer))
    if digest:
        seen.tokens[digest] = token
    return access, token, seen.oidc


def refused(why: str) -> Problem:
    """Returns the problem for a token that is not accepted."""
    return _unauthorized(why, _INVALID)


def oidc_of(ctx: ApiContext) -> Oidc:
    """Returns the issuer whose tokens are accepted beside the cluster's own."""
    return _look_up(ctx, b"")[2]


def bearer_of(authorization: str | None) -> str:
    """Returns the token of the header when it may be an issuer's; else an empty text."""
    match = None if authorization is None else _BEARER.fullmatch(authorization.strip())
    return match[1] if match is not None and looks_issued(match[1]) else ""


def _unauthorized(detail: str, more: str = "") -> Problem:
    return Problem("unauthorized", detail, headers=_challenge(more))


def _challenge(more: str) -> dict[str, str]:
    return {"WWW-Authenticate": f"{CHALLENGE}, {more}" if more else CHALLENGE}


def check_role(who: Caller, needed: Role) -> None:
    """Raises Problem forbidden unless the caller has this role in some namespace. That of workers takes a worker's
    token, or an admin."""
    if who.role not in (Role.WORKER, Role.ADMIN) if needed is Role.WORKER else who.highest < needed:
        refused = Problem(
            "forbidden",
            f'This needs the role {role_name(needed)}; the token "{who.name}" has the role {role_name(who.highest)}.',
        )
        refused.actor = who.name
        raise refused


def role_of(declared: Operation) -> Role | None:
    """Returns the role that an operation needs; None: it is open to everybody. One that declares no role is for
    admins."""
    if declared.role == "open":
        return None
    return Role.ADMIN if declared.role is None else ROLES[declared.role]


def admit(
    ctx: ApiContext,
    request: web.Request,
    declared: Operation,
    name: str,
    who: Caller | None = None,
) -> Caller:
    """Lets a request pass to its handler and returns its caller. Raises Problem unauthorized or forbidden, and
    UnknownToken. `name`: of the operation. `who`: the caller, if already known."""
    needed = role_of(declared)
    if needed is None or (request.path == METRICS.path and ctx.settings().metrics_open):
        if request.path not in HEALTH:
            count_open(ctx, request.remote or "")
        enter_request(RequestContext(state=RequestState(ctx.applied())))
        return ANYBODY
    if who is None:
        who = asker(ctx, request, peers=declared.peers)
    if declared.peers and who.peer:
        needed = who.role
    elif declared.peers and _peer_keys(ctx):
        raise Problem("forbidden", "This is for the nodes of the cluster, which prove that they are with its key.")
    enter_request(RequestContext(who))  # who it is, should it be refused
    if not declared.paced:
        count(ctx, who)
    if declared.of_caller and who.role is Role.WORKER:
        needed = Role.WORKER
    check_role(who, needed)
    namespace = request.match_info.get("ns") or (
        request.query.get("namespace") if "namespace" in declared.query else None
    )
    noted = name if request.method not in ("GET", "HEAD") else ""
    enter_request(
        RequestContext(
            who,
            noted,
            path_without_secrets(request.path),
            request.remote or "",
            namespace or "",
            declared.work,
            RequestState(ctx.applied()),
            needed,
        )
    )
    if who.grants or who.namespaces is not None:
        _check_scope(who, declared, needed, namespace, request.query)
    return who


def _check_scope(
    who: Caller, declared: Operation, needed: Role, namespace: str | None, query: Mapping[str, str]
) -> None:
    """Checks a token that may not do the same in all namespaces. Raises Problem forbidden."""
    if declared.scope == "shared":
        if who.role < needed:
            raise Problem(
                "forbidden",
                f'This is in no namespace and needs the role {role_name(needed)}; the token "{who.name}" has the role '
                f"{role_name(who.role)} for what is in none.",
            )
        return
    if who.within(needed) is None:
        return
    if namespace is not None:
        check_permitted(namespace)
    elif "namespace" in declared.query:
        if not any(name in declared.query and name in query for name in _NARROWING):
            raise must_name("name one of them with ?namespace=")
    elif not declared.scope:
        raise must_name("this takes a token that is for all")


# ---------------------------------------------------------------- between nodes


def peer_header(ctx: ApiContext, node: str, target: str, method: str = "GET") -> dict[str, str]:
    """Returns the header that proves to that node that a request for this path and query comes from this one, which has
    admitted the caller; and those by which the trace of the request goes on there."""
    keys, trace = _peer_keys(ctx), request_state().trace
    headers = {} if trace is None else trace.onward()
    if keys:
        headers[PEER] = peer_said(keys[0], ctx.node_id, node, target, ctx.now_ms(), method)
    return headers


def _peer_keys(ctx: ApiContext) -> Sequence[bytes]:
    """Returns the keys by which nodes prove themselves to each other: derived from the cluster's keys, else the secret
    in the tables."""
    if ctx.security.peer_keys:
        return ctx.security.peer_keys
    with ctx.read() as view:
        secret = access_of(view).secret
    return (secret,) if secret else ()


def _peer(ctx: ApiContext, request: web.Request) -> Caller | None:
    """Returns the node that sent the request, as a caller; None: no node did."""
    header, target = request.headers[PEER], request.rel_url.raw_path_qs
    now_ms, now_s = ctx.now_ms(), ctx.clock.monotonic()
    node = ctx.peers_seen.caller(_peer_keys(ctx), header, ctx.node_id, request.method, target, now_ms, now_s)
    return None if node is None else Caller(Role.VIEWER, name=f"node {node}", counted=False)


def still_holds(ctx: ApiContext, who: Caller) -> bool:
    """Returns whether a caller who was admitted would be again."""
    if who.issued is not None:
        return ctx.now_ms() < (who.expires_at_ms or 0) and oidc_of(ctx).revision == who.issued.revision
    if not who.actor:
        return who.known or not (ctx.security.guarded or _required(ctx))
    try:
        return identify(ctx, who.digest).actor == who.actor
    except Problem:
        return False


def _required(ctx: ApiContext) -> bool:
    with ctx.read() as view:
        return access_of(view).required
