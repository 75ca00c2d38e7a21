"""Answers who a caller is taken for."""

from __future__ import annotations

from typing import Literal

import msgspec

from raftsched.surface.enums import RoleName
from raftsched.surface.operation import READ, Operation
from raftsched.surface.sdk import Sdk, record

WhoKind = Literal["token", "oidc", "local", "anonymous"]


@record("Grant")
class WhoGrant(msgspec.Struct):
    """A role in one namespace."""

    namespace: str
    role: RoleName


@record(
    "Who",
    since={**dict.fromkeys(("namespaces", "expires_at", "issuer", "subject")), "grants": []},
    types={"expires_at": "datetime | None"},
)
class WhoOut(msgspec.Struct):
    """The caller as the cluster knows them. `kind`: of what was shown: a token of the cluster ("token"), one of an
    issuer ("oidc"), the secret of a node's data directory ("local"), nothing ("anonymous"). `role` holds in
    `namespaces` (null: all) and for what is in none, each of `grants` in its namespace. `queues`: of a worker, those
    whose runs it may be given; null: all."""

    kind: WhoKind
    name: str
    role: RoleName
    namespaces: list[str] | None
    grants: list[WhoGrant]
    expires_at: str | None
    issuer: str | None
    subject: str | None
    queues: list[str] | None = None


WHOAMI = Operation(
    "whoami_get",
    "GET",
    "/v1/whoami",
    "Read the caller's identity",
    {200: WhoOut},
    query=READ,
    role="viewer",
    scope="shared",
    of_caller=True,
    says="The name, roles and expiry of the token that was sent. Workers may ask, too.",
    sdk=Sdk(
        "Cluster.whoami",
        says="Returns the caller as the cluster knows them: name, roles, and until when. Raises AuthError when a token "
        "is missing or not valid.",
    ),
)
