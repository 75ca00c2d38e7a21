"""Defines tokens, the rule whether requests need one, and the audit: who asked for what.

A token's secret is in no table and in no log: only its SHA-256 is, which is enough to recognize it (it has 256 random
bits, so nothing slower than a hash is needed). A command that a caller asked for travels inside an
`Attributed`, which names the caller.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from hashlib import sha256

import msgspec

from raftsched.bounds import RATE_COUNT_MAX, SERVED_MAX, TIME_MAX_MS, TOKEN_NAMESPACES_MAX
from raftsched.core.ids import job_text
from raftsched.core.limits import QUEUE_NAME_MAX, rate_error
from raftsched.core.subjects.command import Command

DIGEST_SIZE = 32  # bytes: SHA-256
TOKENS_MAX = 1_000  # kept, with those that were revoked; the oldest of these make room
TOKEN_NAME_MAX = 64  # bytes
NAMESPACE_MAX = 64  # bytes
SECRET_SIZE = (16, 64)  # bytes of what nodes prove to each other with: least, most
CHANGE_MAX = 1_024  # bytes of what a By says was asked for
TEXT_MAX = 512  # characters of each text of a By; the rest is cut off
ACCESS_KEY = b"access"
OIDC_KEY = b"oidc"  # the row of ACCESS that says whose tokens are taken beside those of TOKENS
OIDC_MAX = 64 * 1024  # bytes of what is said about that
ANONYMOUS = "anonymous"  # what who shows no token is called; no token is


class Role(IntEnum):
    """From VIEWER on, each may do what those below it may. WORKER is no rung of this ladder: it stands below, so that
    no comparison with a rung lets it in, and what it may do is asked for by name (api.auth.access.check_role)."""

    WORKER = 0  # sessions of remote workers, and nothing else
    VIEWER = 1  # reads
    EDITOR = 2  # jobs and their runs
    OPERATOR = 3  # nodes, queues, pauses
    ADMIN = 4  # tokens, settings, members


class Grant(msgspec.Struct, array_like=True, frozen=True):
    """A role in one namespace."""

    namespace: str
    role: Role


class Token(msgspec.Struct, array_like=True, kw_only=True):
    """One row of TOKENS. It has `role` in `namespaces` and for what is in no namespace, and the role of each grant in
    its namespace, which is a higher one."""

    id: int
    name: str
    role: Role
    digest: bytes  # SHA-256 of the secret: the key of its row
    namespaces: tuple[str, ...] | None = None  # sorted; None: all
    created_at_ms: int
    created_by: str = ""
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None
    revoked_by: str = ""
    grants: tuple[Grant, ...] = ()  # sorted by namespace, one for each
    rate_count: int | None = None  # requests in each period; None: as the settings have it
    rate_period_ms: int = 0
    burst: int | None = None  # of these at once; None: as many as come in two seconds
    queues: tuple[str, ...] | None = None  # of a worker's token: whose runs it may be given, sorted; None: all

    def holds(self, now_ms: int) -> bool:
        return self.revoked_at_ms is None and (self.expires_at_ms is None or now_ms < self.expires_at_ms)


class Access(msgspec.Struct, array_like=True, kw_only=True):
    """The one row of ACCESS. Nodes without a cluster key prove to each other who they are with `secret`."""

    required: bool = False  # requests need a token
    secret: bytes = b""
    tokens: int = 0  # rows of TOKENS
    # Rows of AUDIT, by ring. The first two rings are always there, the others from their first note on (`use`).
    notes: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    revision: int = 1  # of `required`
    seed: bytes = b""  # of no use: secrets of tokens once came of it
    heads: list[bytes] = msgspec.field(default_factory=lambda: [b"", b""])  # hash of the newest row, by ring
    bases: list[bytes] = msgspec.field(default_factory=lambda: [b"", b""])  # that of the newest row that was dropped

    def chain(self, ring: int) -> tuple[bytes, bytes, int]:
        """(head, base, number of notes) of a ring"""
        return (self.heads[ring], self.bases[ring], self.notes[ring]) if ring < len(self.notes) else (b"", b"", 0)

    def use(self, ring: int) -> None:
        """Makes room for what is counted of a ring. Until then the row is as versions write it that know two."""
        for _ in range(len(self.notes), ring + 1):
            self.notes.append(0)
            self.heads.append(b"")
            self.bases.append(b"")


class Oidc(msgspec.Struct, array_like=True, frozen=True):
    """The row of ACCESS under OIDC_KEY. `content` is canonical JSON and opaque to core; empty: no tokens of an issuer
    are taken. The row stays when they are not any more, so that no revision is used again."""

    content: bytes
    revision: int


# ---------------------------------------------------------------- the record

# Each has bounds of its own, so that whoever may write much into one pushes nothing out of another.
CHANGES_RING = 0  # what operators and admins change: tokens, settings, members, namespaces, queues, ...
WORK_RING = 1  # work that was handed in: many times as much
JOBS_RING = 2  # what editors change of jobs and their runs
SECRETS_RING = 3  # what editors change of secrets

RINGS = ("change", "work", "job", "secret")  # what they are called

_KEY = struct.Struct(">BQL")
_json = msgspec.json.Encoder(order="deterministic").encode


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One row of AUDIT: something that was asked for and done, `count` times in one entry of the log."""

    at_ms: int
    actor: int  # id of the token; 0: none
    name: str  # of the token, as it was; empty: nobody knows
    operation: str  # of the API
    resource: str  # its address
    remote: str  # where the request came from
    namespace: str = ""
    subject: str = ""  # id of the job, the operation, ... that it was about, the first of them
    job: str = ""  # its name
    count: int = 1
    change: bytes = b""  # JSON: what was asked for, without secrets; of settings what they were and are
    hash: bytes = b""  # see `link`; empty: it was noted before there were any


def link(before: bytes, ring: int, index: int, position: int, note: Record) -> bytes:
    """The hash of a row: SHA-256 over that of the row before it in its ring and over what it says, as JSON. So no row
    can be changed, taken out or put in without another hash in each that follows."""
    said = (
        RINGS[ring],
        index,
        position,
        note.at_ms,
        job_text(note.actor) if note.actor else "",
        note.name or ANONYMOUS,
        note.operation,
        note.resource,
        note.remote,
        note.namespace,
        note.subject,
        note.job,
        note.count,
        note.change.decode("utf-8", "replace"),
    )
    return sha256(before + _json(said)).digest()


def record_key(ring: int, index: int, position: int) -> bytes:
    return _KEY.pack(ring, index, position)


def split_record(key: bytes) -> tuple[int, int, int]:
    """(ring, index of the entry, position)"""
    ring, index, position = _KEY.unpack(key)
    return ring, index, position


# ---------------------------------------------------------------- commands


class Attributed(Command, frozen=True, tag=100):
    """A command, and who asked for it. With an `operation` it is noted once it is done."""

    command: msgspec.Raw
    actor: int = 0
    name: str = ""
    operation: str = ""
    resource: str = ""
    remote: str = ""
    namespace: str = ""
    work: bool = False  # noted among the work that was handed in
    change: bytes = b""  # JSON, canonical: what was asked for, without secrets; at most CHANGE_MAX bytes


class CreateToken(Command, frozen=True, tag=101):
    """Names are taken as long as their token is kept."""

    name: str
    role: Role
    digest: bytes
    namespaces: tuple[str, ...] | None = None
    expires_at_ms: int | None = None
    grants: tuple[Grant, ...] = ()
    rate_count: int | None = None
    rate_period_ms: int = 0
    burst: int | None = None
    answer: bytes = b""  # sealed: what a repeat under the same key is answered, as long as keys are remembered


class CreateWorkerToken(Command, frozen=True, tag=110):
    """Does the same for a worker's token. Versions before this command know no such role, and would make another token
    of CreateToken."""

    name: str
    digest: bytes
    queues: tuple[str, ...] | None = None  # whose runs it may be given; None: all
    namespaces: tuple[str, ...] | None = None
    expires_at_ms: int | None = None
    rate_count: int | None = None
    rate_period_ms: int = 0
    burst: int | None = None
    answer: bytes = b""  # as in CreateToken

    @property
    def role(self) -> Role:
        return Role.WORKER

    @property
    def grants(self) -> tuple[Grant, ...]:
        return ()


class RevokeToken(Command, frozen=True, tag=102):
    """A repeat changes nothing. Refused for the last lasting token of an admin while requests need one."""

    token: int


class SetAccess(Command, frozen=True, tag=103):
    """Turns tokens on or off. Refused unless an admin has a token that lasts, and unless `if_revision` fits.

    With a `digest` it makes that token itself, `name`; and unless `keep`, those that were made while requests needed
    none are revoked by it, and tokens of an issuer are not taken any more. So there is no moment between in which
    one of them would be an admin's."""

    required: bool
    secret: bytes = b""
    if_revision: int | None = None
    name: str = ""
    digest: bytes = b""  # SHA-256 of the secret of the admin to be made
    keep: bool = False


class SeedTokens(Command, frozen=True, tag=104):
    """See Access.seed; the first one stays. Nobody proposes it any more."""

    seed: bytes


class ForgetSecrets(Command, frozen=True, tag=109):
    """Takes `secret` and `seed` out of the row of ACCESS, for a cluster whose nodes have a key."""


class SetOidc(Command, frozen=True, tag=105):
    """Sets the issuer whose tokens are accepted beside those that are made here; see Oidc. Refused unless `if_revision`
    fits."""

    content: bytes
    if_revision: int | None = None


def token_error(c: CreateToken | CreateWorkerToken) -> str | None:
    """Returns what is wrong and what would be right; None: nothing is wrong."""
    if isinstance(c, CreateWorkerToken):
        if c.queues is not None and not 1 <= len(c.queues) <= SERVED_MAX:
            return f"a worker's token is for 1 to {SERVED_MAX} queues, or for all."
        if any(not 1 <= len(queue.encode()) <= QUEUE_NAME_MAX for queue in c.queues or ()):
            return f"a queue takes 1 to {QUEUE_NAME_MAX} bytes."
    elif c.role is Role.WORKER:
        return "a worker's token is made with CreateWorkerToken."
    if not 1 <= len(c.name.encode()) <= TOKEN_NAME_MAX:
        return f"the name of a token takes 1 to {TOKEN_NAME_MAX} bytes."
    if c.name == ANONYMOUS:
        return f"no token is called {ANONYMOUS}: that stands for nobody."
    if len(c.digest) != DIGEST_SIZE:
        return f"what is kept of a secret is a hash of {DIGEST_SIZE} bytes."
    if c.expires_at_ms is not None and not 0 <= c.expires_at_ms <= TIME_MAX_MS:
        return "expires_at must lie between 1970 and 9999."
    wrong = _request_rate_error(c)
    if wrong is not None:
        return wrong
    if c.namespaces is None:
        return grants_error(c)
    if c.role is Role.ADMIN:
        return "an admin's token is for all namespaces: it can make others."
    if not 1 <= len(c.namespaces) <= TOKEN_NAMESPACES_MAX:
        return f"a token is for 1 to {TOKEN_NAMESPACES_MAX} namespaces, or for all."
    if any(not 1 <= len(namespace.encode()) <= NAMESPACE_MAX for namespace in c.namespaces):
        return f"a namespace takes 1 to {NAMESPACE_MAX} bytes."
    return grants_error(c)


def grants_error(c: CreateToken | CreateWorkerToken) -> str | None:
    """The same of its grants: each adds something, so that none says less than it seems to."""
    if len(c.grants) > TOKEN_NAMESPACES_MAX:
        return f"a token has at most {TOKEN_NAMESPACES_MAX} grants."
    if len({grant.namespace for grant in c.grants}) < len(c.grants):
        return "a namespace has one grant of a token."
    for grant in c.grants:
        if not 1 <= len(grant.namespace.encode()) <= NAMESPACE_MAX:
            return f"a namespace takes 1 to {NAMESPACE_MAX} bytes."
        if grant.role in (Role.ADMIN, Role.WORKER):
            return "an admin is one everywhere: a grant is viewer, editor or operator."
        if (c.namespaces is None or grant.namespace in c.namespaces) and grant.role <= c.role:
            return f"the grant in {grant.namespace} adds nothing: the role there is as high without it."
    return None


def _request_rate_error(c: CreateToken | CreateWorkerToken) -> str | None:
    """Returns what is wrong with a rate of requests, and what would be right; None: nothing is wrong."""
    if c.burst is not None and not 1 <= c.burst <= RATE_COUNT_MAX:
        return f"a burst of {c.burst} requests is out of bounds; use 1 to {RATE_COUNT_MAX}."
    if c.rate_count is None:
        return None if c.burst is None else "a burst goes with a rate."
    return rate_error(c.rate_count, c.rate_period_ms, "requests")
