"""The JSON of tokens, of whether they are needed, and of the record of what was asked for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from raftsched import names
from raftsched.api.auth.callers import RoleName
from raftsched.api.resources.operators_schema import RateOut
from raftsched.bounds import RATE_COUNT_MAX
from raftsched.core.limits import SERVED_MAX
from raftsched.core.subjects.access import NAMESPACES_MAX
from raftsched.surface.content import RateCount, RatePeriod
from raftsched.surface.scalars import Name, Namespace, Time, by_rule

GrantRole = Literal["viewer", "editor", "operator"]
QueueServed = Annotated[str, by_rule(names.QUEUE)]
TokenName = Annotated[
    str,
    Meta(
        description=names.TOKEN.rule,
        extra_json_schema={"pattern": names.TOKEN.pattern},
    ),
]


class GrantIn(msgspec.Struct, forbid_unknown_fields=True):
    """A role in one namespace, higher than the one that holds there without it."""

    namespace: Namespace
    role: GrantRole


class GrantOut(msgspec.Struct):
    """A role in one namespace."""

    namespace: str
    role: GrantRole


class RequestRateIn(msgspec.Struct, forbid_unknown_fields=True):
    """So many requests in each period."""

    count: RateCount | None = None
    per: RatePeriod | None = None


class TokenIn(msgspec.Struct, forbid_unknown_fields=True):
    """`role`: in `namespaces`, and for what is in no namespace. `namespaces`: null, or left out: all. `grants`: higher
    roles in some of them, or roles in others. `expires_at`: null, or left out: never. `rate`: how many requests each
    node takes in each period; null, or left out: as the setting `rate_per_token` has it. `burst`, which goes with a
    rate: how many of these at once; null, or left out: as many as come in two seconds. `queues`: of a worker, those
    whose runs it may be given; null, or left out: all. A worker has no `grants`."""

    name: TokenName
    role: RoleName
    namespaces: (
        Annotated[list[Namespace], Meta(max_length=NAMESPACES_MAX, extra_json_schema={"minItems": 1})] | None
    ) = None
    expires_at: Time | None = None
    grants: Annotated[list[GrantIn], Meta(max_length=NAMESPACES_MAX)] = []
    rate: RequestRateIn | None = None
    burst: (
        Annotated[int, Meta(ge=1, le=RATE_COUNT_MAX, description=f"an integer from 1 to {RATE_COUNT_MAX:,}")] | None
    ) = None
    queues: Annotated[list[QueueServed], Meta(max_length=SERVED_MAX, extra_json_schema={"minItems": 1})] | None = None


class TokenOut(msgspec.Struct):
    """`created_by` and `revoked_by`: the name of whose token it was; null when nobody knows. `rate` and `burst`: null:
    as the settings have it. `queues`: of a worker, those whose runs it may be given; null: all."""

    id: str
    name: str
    role: RoleName
    namespaces: list[str] | None
    state: Literal["active", "expired", "revoked"]
    created_at: Time
    created_by: str | None
    expires_at: Time | None
    revoked_at: Time | None
    revoked_by: str | None
    grants: list[GrantOut]
    rate: RateOut | None = None
    burst: int | None = None
    queues: list[str] | None = None


class TokenMade(TokenOut, kw_only=True):
    """`secret`: what is sent with requests. It is shown here and never again."""

    secret: str


class AdminIn(msgspec.Struct, forbid_unknown_fields=True):
    """`sha256`: the SHA-256 of a secret that the sender made of 256 random bits and keeps."""

    name: TokenName
    sha256: Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9a-f]{64}$"})]


class AccessIn(msgspec.Struct, forbid_unknown_fields=True):
    """`admin`: the token of an admin that is made with it; unless `keep`, those that were made while requests needed
    none are revoked then."""

    required: Annotated[bool, Meta(description="true or false")]
    admin: AdminIn | None = None
    keep: bool | None = None


class AccessOut(msgspec.Struct):
    """`required`: requests need a token."""

    required: bool


class JobsBy(msgspec.Struct):
    """`by`: the name of whose token made them, or changed them last; null when nobody knows."""

    by: str | None
    jobs: int


class IssuerFound(msgspec.Struct):
    """The issuer whose tokens are accepted beside those of the cluster ("active"), or were until then ("revoked")."""

    issuer: str
    state: Literal["active", "revoked"]


class FoundOut(msgspec.Struct):
    """The state in which the admin was made. `tokens`: all others that are valid, and those that were revoked by it.
    `jobs`: how many there are; `jobs_by`: the owners of the newest 1,000, the most first. `oidc`: see
    /v1/cluster/oidc."""

    tokens: list[TokenOut]
    jobs: int
    jobs_by: list[JobsBy]
    oidc: IssuerFound | None = None


class AccessMade(AccessOut, omit_defaults=True):
    """`token` and `found` are there when an admin was made."""

    token: TokenOut | None = None
    found: FoundOut | None = None


class RecordOut(msgspec.Struct):
    """`actor`: the name of the token, "anonymous" where none was needed and none was sent; `token`: its id. `operation`
    is that of /openapi.json, `subject` the id of the job, the instance, the operation or the token that it was about:
    the first of `count` that are alike in one entry of the log. `change`: what was asked for, secrets and what jobs
    run as "***"; of settings what they were and are, in milliseconds. `hash`: over this note and the one before it of
    its kind (docs/security.md); null of notes that are older than the chain."""

    index: int
    at: Time
    kind: Literal["change", "work", "job", "secret"]
    actor: str
    token: str | None
    operation: str
    resource: str | None
    namespace: str | None
    subject: str | None
    job: Name | None
    count: int
    remote: str | None
    change: Any = None
    position: int = 0
    hash: str | None = None


class ChainOut(msgspec.Struct):
    """The hash chain of one kind of records: `head` is the hash of the newest, `base` that of the newest one that is no
    longer kept; empty where there is none."""

    head: str
    base: str
    count: int


class ChainsOut(msgspec.Struct):
    """As of one entry of the log; the same on every node that has applied it."""

    index: int
    change: ChainOut
    work: ChainOut
    job: ChainOut
    secret: ChainOut


class RefusedOut(msgspec.Struct):
    """Equal refusals of one caller within one minute. `actor`: the name of the token; null: none was accepted.
    `resource`: the first address that was asked for."""

    first_at: Time
    last_at: Time
    status: int
    method: str
    resource: str
    actor: str | None
    remote: str | None
    count: int


class RefusedPage(msgspec.Struct):
    """`node`: whose they are; each node keeps its own, the newest 1,000, until it is stopped. The newest first."""

    node: str
    items: list[RefusedOut]
