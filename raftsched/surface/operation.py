"""An operation of the API as a value: its address, what it takes, what it answers, and the method of the SDK that asks
for it.

    TERMS = Operation(
        "terms_list_all", "GET", "/v1/cluster/terms", "List the newest leaderships",
        {200: PageOf(TermOut)}, query=READ, role="viewer", scope="shared", sdk=Sdk("Cluster.terms"),
        says="The newest first, 200 of them at most.",
    )

The status of each problem is that of `raftsched.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from raftsched.surface.sdk import Sdk

Role = Literal["open", "worker", "viewer", "editor", "operator", "admin"]
Scope = Literal["", "checked", "shared"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
TEXT = "text/plain"
BODY_MAX = 4_096  # bytes, of what takes a word or two
MERGE_PATCH = "application/merge-patch+json"

READ = ("consistency", "min_index")  # parameters of what waits until the node is as fresh as it is asked to be
ALWAYS = ("invalid-parameter", "invalid-request", "forbidden-host", "expectation-failed")
READS = ("no-leader", "behind", "overloaded")  # of what takes `consistency` and `min_index`
WRITES = ("no-leader", "overloaded", "stopping", "unknown-outcome", "disk-full")
HEALTH = frozenset({"/livez", "/readyz"})  # what a locked node answers, too
_BODIES = ("invalid-json", "too-large", "unsupported-media-type", "request-timeout")
BODIES = (*_BODIES, "invalid-body")
JOB_BODIES = (*_BODIES, "invalid-job", "invalid-trigger")

JOB = "/v1/jobs/{id}"  # where a job is by its id,
NAMED_JOB = "/v1/namespaces/{ns}/jobs/{name}"  # and by its name


@dataclass(frozen=True)
class PageOf:
    """{"items": [...], "next": cursor or null}."""

    item: Any


@dataclass(frozen=True)
class AnyOf:
    """One of these types."""

    types: tuple[Any, ...]


@dataclass(frozen=True)
class Special:
    """A schema that is made of others: `parts` are the types that it needs, `make` is given the schemas of all."""

    name: str
    parts: tuple[Any, ...]
    make: Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Reply:
    """`schema`: a type, a PageOf, or None for an answer without a body. `leads_to`: the address of the thing that it is
    about, where that does not follow from the schema; the name in it is that of a field (`openapi.links`)."""

    schema: Any = None
    says: str = ""
    headers: tuple[str, ...] = ()
    media: str = JSON
    leads_to: str = ""


@dataclass(frozen=True)
class Operation:
    """The parts of a request, which `http.call.parse_call` reads for the handler, and of its answers. `id` is public,
    and noted in the audit. In `answers` a bare type stands for JSON of it, None for no body. `says`: more than the
    `summary`, for readers of /openapi.json and of the SDK.

        `query` and `headers`: parameters that are taken; all others are refused. With `consistency` among them the
    request waits until this node is as fresh as it asks for. `body`: the type of the body, of at most `body_max` bytes
    (None: the setting body_max_bytes), in one of the `media` types; a schema: bytes, which the handler reads itself.
    `codes`: of problems, beside those of every request. `of_job`: If-Match is the ETag of a job. `by_name`: a job has
    it under its name, too (`each`). `schemas` replaces
    that of a parameter, which means something of its own here.

        `role`: what the caller's token must have at least ("open": none is needed; "worker": this one or admin).
    `scope` is about tokens that are for some namespaces only. Where the address or a parameter `namespace` names one,
    that is checked, and no more has to be said; "checked": the handler touches only what `callers.permits`; "shared":
    it belongs to no namespace. Otherwise they are refused. `of_caller`: it is about the caller and nothing else, so
    that workers may ask it, too. `work`: it hands in work, or is noted as often (core.apply.cluster.audit_rows).
    `paced`: its handler bounds how often it may be called; it counts nothing for its caller. `repeatable`: of a POST
    that changes something: it may be sent again as it is, and takes no Idempotency-Key. `peers`: other nodes of the
    cluster alone may call it, and where it has no key, who has the role."""

    id: str
    method: Method
    path: str
    summary: str
    answers: Mapping[int, Any]
    query: tuple[str, ...] = ()
    required: tuple[str, ...] = ()  # of these, what the handler refuses to go without
    headers: tuple[str, ...] = ()
    body: Any = None
    body_required: bool = True
    body_max: int | None = BODY_MAX
    media: tuple[str, ...] = (JSON,)
    codes: tuple[str, ...] = ()
    of_job: bool = False
    by_name: bool = False
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
    says: str = ""
    sdk: Sdk | tuple[Sdk, ...] = ()

    def __post_init__(self) -> None:
        replies = {status: one if isinstance(one, Reply) else Reply(one) for status, one in self.answers.items()}
        object.__setattr__(self, "answers", replies)

    def each(self) -> tuple[Operation, ...]:
        """Returns the operation, and the one that a job has under its name, whose id ends in _by_name."""
        if not self.by_name:
            return (self,)
        path = self.path.replace(JOB, NAMED_JOB, 1)
        return (self, replace(self, id=f"{self.id}_by_name", path=path, by_name=False, sdk=()))

    def at(self, **parts: str) -> str:
        """Returns its address with these parts, as they are: ids need no quoting."""
        return self.path.format_map(parts)

    @property
    def methods(self) -> tuple[Sdk, ...]:
        """The SDK's methods that ask for it."""
        return (self.sdk,) if isinstance(self.sdk, Sdk) else self.sdk
