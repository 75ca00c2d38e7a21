"""Tokens, and whether requests need one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from raftsched import names
from raftsched.bounds import RATE_COUNT_MAX, SERVED_MAX, TOKEN_NAMESPACES_MAX
from raftsched.surface.content import RateCount, RatePeriod
from raftsched.surface.enums import RoleName
from raftsched.surface.kinds import action, listing, tagged_read
from raftsched.surface.operation import BODIES, READ, WRITES, Operation, Reply
from raftsched.surface.queues import RateOut
from raftsched.surface.scalars import Namespace, Time, by_rule

GrantRole = Literal["viewer", "editor", "operator"]
TokenState = Literal["active", "expired", "revoked"]
QueueServed = Annotated[str, by_rule(names.QUEUE)]
TokenName = Annotated[str, by_rule(names.TOKEN)]


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
        Annotated[list[Namespace], Meta(max_length=TOKEN_NAMESPACES_MAX, extra_json_schema={"minItems": 1})] | None
    ) = None
    expires_at: Time | None = None
    grants: Annotated[list[GrantIn], Meta(max_length=TOKEN_NAMESPACES_MAX)] = []
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
    state: TokenState
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


LIST = listing(
    "tokens_list_all",
    "/v1/tokens",
    "List tokens",
    TokenOut,
    "A page of tokens, the oldest first.",
    role="admin",
    says="Without their secrets, which are shown only once. Revoked tokens are kept for a while.",
)
CREATE = action(
    "tokens_create",
    "/v1/tokens",
    "Create a token",
    {201: Reply(TokenMade, "Made. Its secret is shown this once.", ("Location",))},
    body=TokenIn,
    codes=("name-taken", "not-possible", "not-found"),
    role="admin",
    says="To change a token, create another one and revoke the first. With an Idempotency-Key the request may be "
    "repeated, and is answered with the same secret.",
)
GET = Operation("tokens_get", "GET", "/v1/tokens/{id}", "Read a token", {200: TokenOut}, query=READ, role="admin")
DELETE = Operation(
    "tokens_delete",
    "DELETE",
    "/v1/tokens/{id}",
    "Revoke a token",
    {204: None},
    codes=(*WRITES, "not-possible"),
    role="admin",
    says="Each node refuses the token from the moment it has applied this; streams opened with it are closed.",
)
ACCESS = tagged_read(
    "tokens_get_access",
    "/v1/cluster/access",
    "Read whether requests need a token",
    AccessOut,
    "Whether they do.",
    scope="shared",
)
SET_ACCESS = Operation(
    "tokens_put_access",
    "PUT",
    "/v1/cluster/access",
    "Set whether requests need a token",
    {200: Reply(AccessMade, "As it is now.", ("ETag",))},
    headers=("If-Match",),
    body=AccessIn,
    codes=(*BODIES, *WRITES, "name-taken", "not-possible", "stale-revision"),
    role="admin",
    says="To turn tokens on, send the token of an admin that does not expire with this request, or have one created by "
    "it (`admin`), so that you are not locked out. The request may be repeated. Tokens are not turned off where other "
    "machines can reach the nodes, unless the node that is asked was started with --open.",
)
