"""The audit: notes of what was asked for and by whom, their hash chains, and the requests that a node refused."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from raftsched.surface.operation import READ, Operation, PageOf, Reply
from raftsched.surface.scalars import Name, Time

RecordKind = Literal["change", "job", "secret", "work"]
AuditOrder = Literal["newest", "oldest"]


class RecordOut(msgspec.Struct):
    """`actor`: the name of the token, "anonymous" where none was needed and none was sent; `token`: its id. `operation`
    is that of /openapi.json, `subject` the id of the job, the instance, the operation or the token that it was about:
    the first of `count` that are alike in one entry of the log. `change`: what was asked for, secrets and what jobs
    run as "***"; of settings what they were and are, in milliseconds. `hash`: over this note and the one before it of
    its kind (docs/security.md); null of notes that are older than the chain."""

    index: int
    at: Time
    kind: RecordKind
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


LIST = Operation(
    "audit_list_all",
    "GET",
    "/v1/audit",
    "List audit records",
    {200: Reply(PageOf(RecordOut), "A page of notes, the newest first.", ("Link",))},
    query=("order", "actor", "resource", "operation", "kind", "namespace", "from", "to", "limit", "cursor", *READ),
    schemas={
        "kind": {"type": "string", "enum": list(get_args(RecordKind))},
        "order": {"type": "string", "enum": list(get_args(AuditOrder))},
    },
    role="operator",
    says="Kinds: `change` is what operators and admins changed, `job` and `secret` what was changed of jobs and of "
    "secrets, `work` what was submitted with tokens. The newest first, or the oldest with `order=oldest`. A page may "
    "be short, even empty, while `next` says that there is more to look through.",
)
CHAIN = Operation(
    "audit_chain",
    "GET",
    "/v1/audit/chain",
    "Read the heads of the audit's hash chains",
    {200: ChainsOut},
    query=READ,
    role="operator",
    says="The same on every node that has applied the same log entries. `raftsched audit verify` checks the records, "
    "and a copy that was kept elsewhere, against it.",
)
REFUSALS = Operation(
    "audit_refusals",
    "GET",
    "/v1/audit/refusals",
    "List requests that this node refused",
    {200: RefusedPage},
    query=READ,
    role="operator",
    says="Requests that this node answered with 401, 403 or 429.",
)
