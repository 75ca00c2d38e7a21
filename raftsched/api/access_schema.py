"""The JSON of tokens, of whether they are needed, and of the record of what was asked for."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from raftsched.api.callers import RoleName
from raftsched.api.schema import Name, Namespace, Time
from raftsched.core.access import NAMESPACES_MAX

GrantRole = Literal["viewer", "editor", "operator"]
TokenName = Annotated[
    str,
    Meta(
        description="1 to 64 characters of a-z, 0-9, '.', '_' and '-'",
        extra_json_schema={"pattern": "^[a-z0-9_-][a-z0-9._-]{0,63}$"},
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


class TokenIn(msgspec.Struct, forbid_unknown_fields=True):
    """`role`: in `namespaces`, and for what is in no namespace. `namespaces`: null, or left out: all. `grants`: higher
    roles in some of them, or roles in others. `expires_at`: null, or left out: never."""

    name: TokenName
    role: RoleName
    namespaces: (
        Annotated[list[Namespace], Meta(max_length=NAMESPACES_MAX, extra_json_schema={"minItems": 1})] | None
    ) = None
    expires_at: Time | None = None
    grants: Annotated[list[GrantIn], Meta(max_length=NAMESPACES_MAX)] = []


class TokenOut(msgspec.Struct):
    """`created_by` and `revoked_by`: the name of whose token it was; null when nobody knows."""

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


class TokenMade(TokenOut):
    """`secret`: what is sent with requests. It is shown here and never again."""

    secret: str


class AccessIn(msgspec.Struct, forbid_unknown_fields=True):
    required: Annotated[bool, Meta(description="true or false")]


class AccessOut(msgspec.Struct):
    """`required`: requests need a token."""

    required: bool


class RecordOut(msgspec.Struct):
    """`actor`: the name of the token, "anonymous" where none was needed and none was sent; `token`: its id. `operation`
    is that of /openapi.json, `subject` the id of the job, the instance, the operation or the token that it was about:
    the first of `count` that are alike in one entry of the log."""

    index: int
    at: Time
    kind: Literal["change", "work"]
    actor: str
    token: str | None
    operation: str
    resource: str | None
    namespace: str | None
    subject: str | None
    job: Name | None
    count: int
    remote: str | None
