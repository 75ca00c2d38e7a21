"""The JSON of what operators set: queues, nodes, settings. Descriptions complete the sentence "must be ..."."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from raftsched.namespace_limits import LIMITS
from raftsched.quantities import is_duration, public_name
from raftsched.surface.content import RateIn
from raftsched.surface.jobs_generated import DefaultsIn
from raftsched.surface.scalars import Count, Description, Duration, Owner


class QueueIn(msgspec.Struct, forbid_unknown_fields=True):
    """The limits of a queue. A field that is left out, or null, does not limit."""

    max_running: Count | None = None
    rate: RateIn | None = None
    paused: bool | None = None


_LIMITS_SAY = """\
Null: no limit. A limit below what there is already lets nothing more in. `max_running`: runs at one time, of all
    its jobs; others wait. `max_starts_per_minute`: attempts that start. `output_bytes`: of what they print, so much is
    kept on each node, and the oldest goes first. `output_max_bytes`, `output_keep`, `output_copies`: in place of the
    settings of these names, how much is kept of what an attempt prints, how long, and on how many nodes."""


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


class NamespaceIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The declaration of a namespace. Defaults hold for jobs that are written from then on."""

    description: Description | None = None
    owner: Owner | None = None
    defaults: DefaultsIn | None = None
    limits: NamespaceLimits | None = None


class NamespaceOut(msgspec.Struct):
    """`declared`: something is said about it; else it merely has jobs or secrets, and its revision is 0."""

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


class RateOut(msgspec.Struct):
    count: int
    per: str


class QueueOut(msgspec.Struct):
    """`waiting`: instances that could start but for the queue's limits and the nodes' slots, counted up to a bound:
    there are more unless `waiting_exact`. `shut`: why nothing more may start now, "paused", "full" or "rate".
    `revision`: of its limits."""

    name: str
    max_running: int | None
    rate: RateOut | None
    paused: bool
    running: int
    waiting: int
    waiting_exact: bool
    shut: str | None
    revision: int
    created_at: str
    modified_at: str
