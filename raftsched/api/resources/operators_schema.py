"""The JSON of what operators set: queues, nodes, settings. Descriptions complete the sentence "must be ..."."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from raftsched.bounds import LABEL_KEY_MAX, LABEL_VALUE_MAX, SLOTS_MAX
from raftsched.namespace_limits import LIMITS
from raftsched.quantities import is_duration, public_name
from raftsched.surface.content import RateIn
from raftsched.surface.jobs_generated import DefaultsIn
from raftsched.surface.scalars import Count, Description, Duration, Owner, Time

Slots = Annotated[
    int, Meta(ge=1, le=SLOTS_MAX, description=f"an integer from 1 to {SLOTS_MAX:,}; drain a node instead")
]


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


class NodeIn(msgspec.Struct, forbid_unknown_fields=True):
    """A change of what holds for a node; null: as the node itself says. A label that is null is taken out."""

    drained: bool | UnsetType | None = UNSET
    slots: Slots | UnsetType | None = UNSET
    labels: (
        Annotated[
            dict[
                str,
                Annotated[str, Meta(description="a string", extra_json_schema={"maxLength": LABEL_VALUE_MAX})] | None,
            ],
            Meta(extra_json_schema={"propertyNames": {"minLength": 1, "maxLength": LABEL_KEY_MAX}}),
        ]
        | UnsetType
        | None
    ) = UNSET


class SessionOut(msgspec.Struct):
    """Its right to run jobs."""

    id: int
    open: bool
    opened_at: str


class AllowedOut(msgspec.Struct):
    """The commands, directories and addresses that jobs may name there. Null: anything. `http_allow` and `http_deny`
    are exceptions to the rule that requests go to public addresses only. `env_allow`: the variables that jobs may set;
    null: none where `exec_allow` or `python_allow` restricts, or only handlers by name are called."""

    exec_allow: list[str] | None
    cwd_allow: list[str] | None
    python_allow: list[str] | None
    http_allow: list[str]
    http_deny: list[str]
    env_allow: list[str] | None = None


class DiskOut(msgspec.Struct):
    """Bytes of the file system that the data directory is on: `free` to the node, of `total`; `store` and `output` are
    what the node takes of it for its state and for what runs printed."""

    free: int
    total: int
    store: int
    output: int


class NodeDetail(msgspec.Struct):
    """A member as it runs jobs. `own_slots` and `own_labels` are those that it was started with; `slots` and `labels`
    hold. Null, or empty, of one that never ran. `limits_whole_runs`: a handler's limits.memory holds for all processes
    of a run together, not for each. `users`: as whom jobs may ask to run there, as "namespace:user"; "default" is for
    all that it does not name. `revision`: of what is said here about it; 0: nothing is. `trouble`: why it starts no
    runs now: it cannot start processes, or waits for those of an earlier run to end. `last_heartbeat_at`: when the
    leader got the newest word of its worker; null where no leader answers. `allowed`: what jobs may name there; null of
    one that never ran, or does not say. `disk`: null where no leader answers, but of this node. `runs`: false of one
    that was started with --no-run: it votes and serves the API. `weight`: of its slots, beside those of others."""

    id: str
    role: str
    voter: bool
    alive: bool
    http: str | None
    raft: str | None
    version: str | None
    drained: bool
    running: int
    slots: int
    own_slots: int | None
    labels: dict[str, str]
    own_labels: dict[str, str]
    handlers: list[str]
    limits_whole_runs: bool
    users: list[str]
    session: SessionOut | None
    revision: int = 0
    trouble: str | None = None
    last_heartbeat_at: Time | None = None
    allowed: AllowedOut | None = None
    disk: DiskOut | None = None
    runs: bool = True
    weight: int = 1
