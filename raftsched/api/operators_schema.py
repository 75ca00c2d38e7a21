"""The JSON of what operators set: queues, nodes, settings. Descriptions complete the sentence "must be ..."."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from raftsched.api import patterns
from raftsched.api.schema import Count, Duration
from raftsched.core.limits import LABEL_KEY_MAX, LABEL_VALUE_MAX, RATE_COUNT_MAX, SETTINGS, SLOTS_MAX

RateCount = Annotated[int, Meta(ge=1, le=RATE_COUNT_MAX, description=f"an integer from 1 to {RATE_COUNT_MAX:,}")]
Slots = Annotated[
    int, Meta(ge=1, le=SLOTS_MAX, description=f"an integer from 1 to {SLOTS_MAX:,}; drain a node instead")
]


class RateIn(msgspec.Struct, forbid_unknown_fields=True):
    """So many starts in each period."""

    count: RateCount | None = None
    per: (
        Annotated[
            str,
            Meta(
                description="a duration such as 30s, 5m, 1h30m, 1d or PT5M",
                extra_json_schema={"format": "rate-period", "pattern": patterns.DURATION},
            ),
        ]
        | None
    ) = None


class QueueIn(msgspec.Struct, forbid_unknown_fields=True):
    """What is left out, or null, does not limit."""

    max_running: Count | None = None
    rate: RateIn | None = None
    paused: bool | None = None


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


QUEUE_READ_ONLY = frozenset(QueueOut.__struct_fields__) - frozenset(QueueIn.__struct_fields__)


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


class NodeDetail(msgspec.Struct):
    """A member as it runs jobs. `own_slots` and `own_labels` are those that it was started with; `slots` and `labels`
    hold. Null, or empty, of one that never ran. `limits_whole_runs`: a handler's limits.memory holds for all processes
    of a run together, not for each. `revision`: of what is said here about it; 0: nothing is."""

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
    session: SessionOut | None
    revision: int = 0


def setting_name(field: str) -> str:
    """As the API calls a field of core.model.Settings: durations are text there."""
    return field.removesuffix("_ms")


def is_duration(field: str) -> bool:
    return field.endswith("_ms")


def _setting(field: str) -> tuple[str, Any, Any]:
    least, most = SETTINGS[field]
    kind: Any = Duration if is_duration(field) else _integer(least, most)
    return setting_name(field), kind | None | UnsetType, UNSET


def _integer(least: int, most: int) -> Any:
    return Annotated[int, Meta(ge=least, le=most, description=f"an integer from {least:,} to {most:,}")]


SettingsOut = msgspec.defstruct(
    "SettingsOut",
    [(setting_name(field), Duration if is_duration(field) else int) for field in SETTINGS],
    namespace={"__doc__": "All settings, as they are."},
)
SettingsIn = msgspec.defstruct(
    "SettingsIn",
    [_setting(field) for field in SETTINGS],
    forbid_unknown_fields=True,
    namespace={"__doc__": "A change of the settings; null: the default."},
)
