"""Declarations of endpoints: beside each handler, read by `http.call` and by `openapi`.

The address, the method and the id come from the route table, the long description from the handler's docstring, the
status of each problem from `raftsched.errors`. All else is declared by the decorator `operation`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

Role = Literal["open", "worker", "viewer", "editor", "operator", "admin"]
Scope = Literal["", "checked", "shared"]
H = TypeVar("H", bound=Callable[..., Awaitable[Any]])

JSON = "application/json"
TEXT = "text/plain"
BODY_MAX = 4_096  # bytes, of what takes a word or two
MERGE_PATCH = "application/merge-patch+json"

ALWAYS = ("invalid-parameter", "invalid-request", "forbidden-host", "expectation-failed")
READS = ("no-leader", "behind", "overloaded")  # of what takes `consistency` and `min_index`
WRITES = ("no-leader", "overloaded", "stopping", "unknown-outcome", "disk-full")
HEALTH = frozenset({"/livez", "/readyz"})  # what a locked node answers, too
_BODIES = ("invalid-json", "too-large", "unsupported-media-type", "request-timeout")
BODIES = (*_BODIES, "invalid-body")
JOB_BODIES = (*_BODIES, "invalid-job", "invalid-trigger")


@dataclass(frozen=True)
class PageOf:
    """{"items": [...], "next": cursor or null}."""

    item: Any


@dataclass(frozen=True)
class AnyOf:
    """One of these types."""

    types: tuple[Any, ...]


@dataclass(frozen=True)
class Reply:
    """`schema`: a type, a PageOf, or None for an answer without a body. `leads_to`: the address of the thing that it is
    about, where that does not follow from the schema; the name in it is that of a field (`openapi_links`)."""

    schema: Any = None
    says: str = ""
    headers: tuple[str, ...] = ()
    media: str = JSON
    leads_to: str = ""


@dataclass(frozen=True)
class Operation:
    """The parts of a request, which `http.call.parse_call` reads for the handler, and of its answers.

        `query` and `headers`: parameters that are taken; all others are refused. With `consistency` among them the
    request waits until this node is as fresh as it asks for. `body`: the type of the body, of at most `body_max` bytes
    (None: the setting body_max_bytes), in one of the `media` types; a schema: bytes, which the handler reads itself.
    `codes`: of problems, beside those of every request. `of_job`: If-Match is the ETag of a job. `schemas` replaces
    that of a parameter, which means something of its own here.

        `role`: what the caller's token must have at least ("open": none is needed; "worker": this one or admin).
    `scope` is about tokens that are for some namespaces only. Where the address or a parameter `namespace` names one,
    that is checked, and no more has to be said; "checked": the handler touches only what `callers.permits`; "shared":
    it belongs to no namespace. Otherwise they are refused. `of_caller`: it is about the caller and nothing else, so
    that workers may ask it, too. `work`: it hands in work, or is noted as often (core.apply.cluster.audit). `paced`:
    its handler bounds how often it may be called; it counts nothing for its caller. `repeatable`: of a POST that
    changes something: it may be sent again as it is, and takes no Idempotency-Key. `peers`: other nodes of the cluster
    alone may call it, and where it has no key, who has the role."""

    summary: str
    answers: Mapping[int, Reply]
    query: tuple[str, ...] = ()
    required: tuple[str, ...] = ()  # of these, what the handler refuses to go without
    headers: tuple[str, ...] = ()
    body: Any = None
    body_required: bool = True
    body_max: int | None = BODY_MAX
    media: tuple[str, ...] = (JSON,)
    codes: tuple[str, ...] = ()
    of_job: bool = False
    schemas: Mapping[str, Any] = field(default_factory=dict)
    streams: bool = False  # may answer without end
    changes_nothing: bool = False  # of a POST: it only answers
    role: Role | None = None
    scope: Scope = ""
    work: bool = False
    of_caller: bool = False
    paced: bool = False
    repeatable: bool = False
    peers: bool = False


OPERATIONS: dict[Callable[..., Any], Operation] = {}


def operation(
    summary: str,
    answers: Mapping[int, Any],
    *,
    query: Sequence[str] = (),
    required: Sequence[str] = (),
    headers: Sequence[str] = (),
    body: Any = None,
    body_required: bool = True,
    body_max: int | None = BODY_MAX,
    media: Sequence[str] = (JSON,),
    codes: Sequence[str] = (),
    of_job: bool = False,
    schemas: Mapping[str, Any] | None = None,
    streams: bool = False,
    changes_nothing: bool = False,
    role: Role | None = None,
    scope: Scope = "",
    work: bool = False,
    of_caller: bool = False,
    paced: bool = False,
    repeatable: bool = False,
    peers: bool = False,
) -> Callable[[H], H]:
    """Declares what a handler takes and answers. In `answers` a bare type stands for JSON of it, None for no body."""
    replies = {status: one if isinstance(one, Reply) else Reply(one) for status, one in answers.items()}
    declared = Operation(
        summary,
        replies,
        tuple(query),
        tuple(required),
        tuple(headers),
        body,
        body_required,
        body_max,
        tuple(media),
        tuple(codes),
        of_job,
        schemas or {},
        streams,
        changes_nothing,
        role,
        scope,
        work,
        of_caller,
        paced,
        repeatable,
        peers,
    )

    def declare(handler: H) -> H:
        OPERATIONS[handler] = declared
        return handler

    return declare
