"""Namespaces: what is declared about them, and the keys of runs that are in use in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from raftsched.namespace_limits import LIMITS
from raftsched.quantities import is_duration, public_name
from raftsched.surface.jobs_generated import DefaultsIn
from raftsched.surface.kinds import listing
from raftsched.surface.named import Named
from raftsched.surface.scalars import Description, Duration, Owner
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict

_TIMES = dict.fromkeys(("created_at", "modified_at"), "datetime | None")

_LIMITS_SAY = """Null: no limit. A limit below what there is already lets nothing more in. `max_running`: runs at one
time, of all its jobs; others wait. `max_starts_per_minute`: attempts that start. `output_bytes`: of what they print, so
much is kept on each node, and the oldest goes first. `output_max_bytes`, `output_keep`, `output_copies`: in place of
the settings of these names, how much is kept of what an attempt prints, how long, and on how many nodes."""


def _limit(field: str) -> Any:
    if is_duration(field):
        return Duration | None
    least, most, _ = LIMITS[field]
    return Annotated[int, Meta(ge=least, le=most, description=f"an integer from {least:,} to {most:,}")] | None


def _limit_shown(field: str) -> tuple[str, Any]:
    return public_name(field), (str if is_duration(field) else int) | None


if TYPE_CHECKING:  # which does not see through rows
    NamespaceLimits = msgspec.Struct
    NamespaceLimitsOut = msgspec.Struct
else:
    _FIRST, *_LATER = LIMITS  # the first is in all answers, the others not in those of nodes that do not know them yet
    NamespaceLimitsOut = msgspec.defstruct(
        "NamespaceLimitsOut", [_limit_shown(_FIRST), *((*_limit_shown(field), None) for field in _LATER)]
    )
    NamespaceLimits = msgspec.defstruct(
        "NamespaceLimits",
        [(public_name(field), _limit(field), None) for field in LIMITS],
        omit_defaults=True,
        forbid_unknown_fields=True,
        namespace={"__doc__": _LIMITS_SAY},
    )
    record("NamespaceLimits", says=_LIMITS_SAY.replace("Null", "None"))(NamespaceLimitsOut)
    typed_dict("NamespaceLimits", says=_LIMITS_SAY.replace("Null", "None"))(NamespaceLimits)


@typed_dict("NamespaceSpec", types={"defaults": "JobDefaults | None"})
class NamespaceIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The declaration of a namespace. Defaults hold for jobs that are written from then on."""

    description: Description | None = None
    owner: Owner | None = None
    defaults: DefaultsIn | None = None
    limits: NamespaceLimits | None = None


@record("Namespace", types={"defaults": "dict[str, Any]", **_TIMES})
class NamespaceOut(msgspec.Struct):
    """A namespace. `declared`: something is said about it; else it has only jobs or secrets, and its revision is 0."""

    name: str
    declared: bool
    description: str | None
    owner: str | None
    defaults: DefaultsIn
    limits: NamespaceLimitsOut
    jobs: int
    secrets: int
    revision: int
    created_at: str | None
    modified_at: str | None


@record("RunKey", types={"next_at": "datetime | None"})
class RunKeyOut(msgspec.Struct):
    """A key of runs that is in use. `running`: runs that have a permit, whether they run already or wait for a worker;
    `runs`: some of them, ten at most. `waiting`: runs that wait for a permit. `next_at`: when the line is looked at
    again because of a rate."""

    key: str
    running: int
    waiting: int
    runs: list[str]
    next_at: str | None


NAMESPACES = Named(
    "namespaces",
    "/v1/namespaces/{ns}",
    "namespace",
    NamespaceIn,
    NamespaceOut,
    scope="",
    sdk="Namespaces",
    given="said",
    given_type="NamespaceSpec",
)
LIST = NAMESPACES.list_all(
    "List namespaces",
    "By name: those that are declared, and those that merely have jobs or secrets.",
    scope="checked",
    tells="Yields, by name, the namespaces that are declared and those that merely have jobs or secrets",
)
GET = NAMESPACES.get(
    "Read a namespace",
    'The ETag is the revision of its declaration, "0" when it merely has jobs or secrets.',
    tells="it is not declared, and has neither jobs nor secrets",
)
PUT = NAMESPACES.put(
    "Create or replace a namespace",
    "Replaces all that is declared; what was answered may be put back. Jobs that are written from then on get its "
    "defaults; jobs that exist do not change. With If-Match it must be declared, with If-None-Match: * it must not be.",
    tells="Declares the namespace, or replaces all that is declared. Jobs that are written from then on get its "
    "defaults.",
)
PATCH = NAMESPACES.patch(
    "Change a namespace",
    "RFC 7396. Without If-Match, a change in between means to merge again: none gets lost.",
    tells="Changes the fields that are given; None removes one. Raises NotFoundError: it is not declared.",
)
DELETE = NAMESPACES.delete(
    "Delete a namespace",
    "Refused while it holds jobs or secrets.",
    "in-use",
    tells="Deletes the declaration. Raises ConflictError while it has jobs or secrets.",
)
KEYS = listing(
    "run_keys_list_all",
    "/v1/namespaces/{ns}/keys",
    "List the keys of a namespace",
    RunKeyOut,
    "A page of keys, in their order.",
    scope="checked",
    says="The keys by which runs of the namespace are limited, of runs that go or wait now. A key that no run has any "
    "more is not listed, or for as long as its rate still counts what started lately.",
    sdk=Sdk(
        "Namespaces.keys",
        (Arg("name", sent_as="ns"),),
        "Yields the keys of runs that are in use in a namespace, at most `most` (None: all).",
    ),
)
