"""Edits tokens, and the rule whether requests need one."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import is_stale, stale_revision
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.ids import job_text
from raftsched.core.limits import U64_MAX
from raftsched.core.rows import decode_oidc, decode_token, encode_row
from raftsched.core.subjects.access import (
    OIDC_KEY,
    OIDC_MAX,
    SECRET_SIZE,
    TOKEN_NAME_MAX,
    TOKENS_MAX,
    CreateToken,
    CreateWorkerToken,
    ForgetSecrets,
    Oidc,
    RevokeToken,
    Role,
    SeedTokens,
    SetAccess,
    SetOidc,
    Token,
    token_error,
)
from raftsched.core.subjects.keyed import NOTE_MAX
from raftsched.core.tables import Table, u64


def create_token(tx: Tx, c: CreateToken) -> Answer:
    return _create(tx, c, None)


def create_worker_token(tx: Tx, c: CreateWorkerToken) -> Answer:
    return _create(tx, c, c.queues)


def _create(tx: Tx, c: CreateToken | CreateWorkerToken, queues: tuple[str, ...] | None) -> Answer:
    wrong = token_error(c)
    if wrong is None and len(c.answer) > NOTE_MAX:
        wrong = f"an answer takes at most {NOTE_MAX} bytes."
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    tokens = list(_tokens(tx))
    if any(token.name == c.name for token in tokens):
        return Rejected("name-taken", f"There is a token {c.name} already, or one that was revoked lately.")
    if tx.view.get(Table.TOKENS, c.digest) is not None:
        return Rejected("not-possible", "There is a token with this secret already.")
    if len(tokens) >= TOKENS_MAX:
        spent = next((token for token in tokens if not token.holds(tx.now)), None)
        if spent is None:
            return Rejected("not-possible", f"There are {len(tokens)} tokens, as many as may; revoke some.")
        _drop(tx, spent)
    token = Token(
        id=tx.new_id(),
        name=c.name,
        role=c.role,
        digest=c.digest,
        namespaces=None if c.namespaces is None else tuple(sorted(set(c.namespaces))),
        created_at_ms=tx.now,
        created_by=tx.actor,
        expires_at_ms=c.expires_at_ms,
        grants=tuple(sorted(c.grants, key=lambda grant: grant.namespace)),
        rate_count=c.rate_count,
        rate_period_ms=c.rate_period_ms,
        burst=c.burst,
        queues=None if queues is None else tuple(sorted(set(queues))),
    )
    tx.view.put(Table.TOKEN_IDS, u64(token.id), token.digest)
    _put(tx, token)
    tx.audit.access.tokens += 1
    return Accepted(number=token.id, created=True, note=c.answer)


def revoke_token(tx: Tx, c: RevokeToken) -> Answer:
    token = _find(tx, c.token)
    if token is None:
        return Rejected("not-found", f"There is no token {job_text(c.token & U64_MAX)}.")
    unchanged = token.revoked_at_ms is not None
    if not unchanged:
        if tx.audit.access.required and _lasting(token) and not _another(tx, token):
            return Rejected(
                "not-possible",
                "This is the last token of an admin that lasts, and requests need one; make another one first, or turn "
                "tokens off.",
            )
        token.revoked_at_ms, token.revoked_by = tx.now, tx.actor
        _put(tx, token)
    return Accepted(number=token.id, unchanged=unchanged)


def set_access(tx: Tx, c: SetAccess) -> Answer:
    access = tx.audit.access
    if is_stale(c.if_revision, access):
        return stale_revision("This", access)
    if c.digest:
        refused = _make_admin(tx, c)
        if refused is not None:
            return refused
    if c.required is access.required:
        return Accepted(number=access.revision, unchanged=not c.digest)
    if c.required:
        if not _fits(c.secret):
            return Rejected("invalid-parameter", "The secret of the nodes has {} to {} bytes.".format(*SECRET_SIZE))
        if not any(_lasting(token) for token in _tokens(tx)):
            return Rejected("not-possible", "There is no token of an admin that lasts; make one first.")
    access.required = c.required
    access.secret = c.secret if c.required else b""
    access.revision += 1
    return Accepted(number=access.revision)


def _make_admin(tx: Tx, c: SetAccess) -> Rejected | None:
    """Makes the first admin, or one more. When it is refused nothing was changed."""
    if not c.required or not _fits(c.secret):
        return Rejected("invalid-parameter", "Who makes an admin says that requests need a token.")
    new = CreateToken(c.name, Role.ADMIN, c.digest)
    wrong = token_error(new)
    if wrong is not None:
        return Rejected("invalid-parameter", wrong)
    tokens = list(_tokens(tx))
    there = next((token for token in tokens if token.digest == c.digest), None)
    if there is not None:  # it was sent again, or is somebody else's
        repeated = tx.audit.access.required and there.name == c.name and _lasting(there)
        return None if repeated else Rejected("not-possible", "There is a token with this secret already.")
    planted = [] if c.keep or tx.audit.access.required else [token for token in tokens if token.revoked_at_ms is None]
    namesake = next((token for token in tokens if token.name == c.name), None)
    if namesake is not None and namesake.holds(tx.now) and namesake not in planted:
        return Rejected("name-taken", f"There is a token {c.name} already.")
    if len(tokens) >= TOKENS_MAX and not planted and all(token.holds(tx.now) for token in tokens):
        return Rejected("not-possible", f"There are {len(tokens)} tokens, as many as may; revoke some.")
    if not c.keep and not tx.audit.access.required:
        set_oidc(tx, SetOidc(b""))
    for token in planted:
        token.revoked_at_ms, token.revoked_by = tx.now, tx.actor
        _put(tx, token)
    if namesake is not None:  # who holds no longer has no right to the name
        namesake.name = f"{c.name[: TOKEN_NAME_MAX - 14]}.{job_text(namesake.id)}"
        _put(tx, namesake)
    made = create_token(tx, new)
    return made if isinstance(made, Rejected) else None


def _fits(secret: bytes) -> bool:
    """Returns whether the secret of the nodes has the right size. Nodes with a cluster key need none."""
    smallest, largest = SECRET_SIZE
    return not secret or smallest <= len(secret) <= largest


def seed_tokens(tx: Tx, c: SeedTokens) -> Answer:
    """Stores the seed of the first tokens. No node proposes this any more: whoever has the seed can guess the
    tokens."""
    smallest, largest = SECRET_SIZE
    if not smallest <= len(c.seed) <= largest:
        return Rejected("invalid-parameter", f"A seed has {smallest} to {largest} bytes.")
    tx.audit.access.seed = tx.audit.access.seed or c.seed
    return Accepted()


def forget_secrets(tx: Tx, c: ForgetSecrets) -> Answer:
    access = tx.audit.access
    access.secret, access.seed = b"", b""
    return Accepted()


def set_oidc(tx: Tx, c: SetOidc) -> Answer:
    if len(c.content) > OIDC_MAX:
        return Rejected("invalid-parameter", f"This takes {len(c.content):,} bytes; {OIDC_MAX:,} is the limit.")
    before = decode_oidc(tx.view.get(Table.ACCESS, OIDC_KEY))
    if is_stale(c.if_revision, before):
        return stale_revision("This", before)
    if c.content == before.content:
        return Accepted(number=before.revision, unchanged=True)
    after = Oidc(c.content, before.revision + 1)
    tx.view.put(Table.ACCESS, OIDC_KEY, encode_row(after))
    return Accepted(number=after.revision, created=not before.content)


def _lasting(token: Token) -> bool:
    """Returns whether the token always lets its holder admit others."""
    return token.role is Role.ADMIN and token.revoked_at_ms is None and token.expires_at_ms is None


def _another(tx: Tx, but: Token) -> bool:
    return any(_lasting(token) for token in _tokens(tx) if token.id != but.id)


def _tokens(tx: Tx) -> Iterator[Token]:
    """Yields all tokens, the oldest first."""
    for _, digest in tx.view.scan(Table.TOKEN_IDS):
        raw = tx.view.get(Table.TOKENS, digest)
        if raw is not None:
            yield decode_token(raw)


def _find(tx: Tx, number: int) -> Token | None:
    digest = tx.view.get(Table.TOKEN_IDS, u64(number)) if 0 <= number <= U64_MAX else None
    raw = None if digest is None else tx.view.get(Table.TOKENS, digest)
    return None if raw is None else decode_token(raw)


def _put(tx: Tx, token: Token) -> None:
    tx.view.put(Table.TOKENS, token.digest, encode_row(token))


def _drop(tx: Tx, token: Token) -> None:
    tx.view.delete(Table.TOKENS, token.digest)
    tx.view.delete(Table.TOKEN_IDS, u64(token.id))
    tx.audit.access.tokens -= 1
