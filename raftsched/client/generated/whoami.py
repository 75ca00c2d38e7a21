"""Made from surface/whoami.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

WhoKind = Literal["token", "oidc", "local", "anonymous"]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A role in one namespace."""

    namespace: str
    role: str


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """The caller as the cluster knows them. `kind`: of what was shown: a token of the cluster ("token"), one of an
    issuer ("oidc"), the secret of a node's data directory ("local"), nothing ("anonymous"). `role` holds in
    `namespaces` (None: all) and for what is in none, each of `grants` in its namespace. `queues`: of a worker, those
    whose runs it may be given; None: all."""

    kind: str
    name: str
    role: str
    namespaces: list[str] | None = None
    grants: list[Grant] = []
    expires_at: datetime | None = None
    issuer: str | None = None
    subject: str | None = None
    queues: list[str] | None = None
