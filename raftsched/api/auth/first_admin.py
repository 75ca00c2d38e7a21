"""The first admin: what PUT /v1/cluster/access makes beside turning tokens on, and what it finds to be there."""

from __future__ import annotations

import re
from collections import Counter

from raftsched import names
from raftsched.api.auth.oidc_verify import setting_of
from raftsched.api.context import ApiContext, own_jobs
from raftsched.api.http.problems import FieldError, Problem
from raftsched.config.addresses import parse_address
from raftsched.config.values import ConfigError
from raftsched.core.rows import decode_job, decode_token
from raftsched.core.subjects.access import ANONYMOUS, Oidc, Token
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView, Table
from raftsched.surface.tokens import AccessIn, FoundOut, IssuerFound, JobsBy, TokenOut

JOBS_SEEN_MAX = 1_000  # the newest, whose they are
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_admin(given: AccessIn) -> bytes:
    """The hash of the secret of the admin who is to be made; empty: none is. Raises Problem invalid-body."""
    if given.admin is None:
        if given.keep is not None:
            raise Problem("invalid-body", errors=[FieldError("/keep", "goes with admin; leave it out", "inconsistent")])
        return b""
    errors = []
    if not given.required:
        errors.append(FieldError("/admin", "goes with required: true; an open cluster needs none", "inconsistent"))
    if not names.TOKEN.allows(given.admin.name) or given.admin.name == ANONYMOUS:
        rule = f'must have {names.TOKEN.rule}, and not be "{ANONYMOUS}"'
        errors.append(FieldError("/admin/name", rule, "reserved" if given.admin.name == ANONYMOUS else None))
    if not _DIGEST.fullmatch(given.admin.sha256):
        errors.append(FieldError("/admin/sha256", "must be the SHA-256 of the secret, 64 characters of 0-9 and a-f"))
    if errors:
        raise Problem("invalid-body", errors=errors)
    return bytes.fromhex(given.admin.sha256)


def found(view: ReadView, cluster: Meta, shown: list[TokenOut], issuer: IssuerFound | None) -> FoundOut:
    """Returns what exists beside the new token. `shown`: see `others`."""
    owners: Counter[str] = Counter()
    seen = 0
    for _, raw in view.scan(Table.JOBS, reverse=True):
        if seen >= JOBS_SEEN_MAX:
            break
        job = decode_job(raw)
        if job.namespace != SYSTEM_NAMESPACE:
            seen += 1
            owners[job.by] += 1
    by = [JobsBy(name or None, count) for name, count in owners.most_common()]
    return FoundOut(shown, sum(own_jobs(cluster).values()), by, issuer)


def issuer_found(before: Oidc, after: Oidc) -> IssuerFound | None:
    """`before` and `after` the admin was made, as this node knows it."""
    setting = setting_of(after if after.content else before)
    return None if setting is None else IssuerFound(setting.issuer, "active" if after.content else "revoked")


def others(view: ReadView, made: Token, now_ms: int) -> list[Token]:
    """Tokens that hold, or were revoked when this one was made; the oldest first."""
    tokens = []
    for _, digest in view.scan(Table.TOKEN_IDS):
        raw = view.get(Table.TOKENS, digest)
        token = None if raw is None else decode_token(raw)
        if token is None or token.id == made.id:
            continue
        if token.holds(now_ms) or token.revoked_at_ms == made.created_at_ms:
            tokens.append(token)
    return tokens


def reached_from_outside(ctx: ApiContext) -> list[str]:
    """Members whose API others than their own machine can reach, as far as this node knows."""
    return [peer.node_id for peer in ctx.cluster.peers() if peer.http is not None and not _is_loopback(peer.http)]


def _is_loopback(address: str) -> bool:
    try:
        return parse_address("http", address.removeprefix("https://")).loopback
    except ConfigError:
        return False
