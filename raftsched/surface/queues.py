"""Queues with limits. Jobs may name any queue; one that has no limits is not here."""

from __future__ import annotations

import msgspec

from raftsched.surface.content import RateIn
from raftsched.surface.named import Named
from raftsched.surface.scalars import Count
from raftsched.surface.sdk import record, typed_dict

_TIMES = dict.fromkeys(("created_at", "modified_at"), "datetime")


@typed_dict("QueueLimits", says="Limits of a queue; one that is left out, or None, does not limit.")
class QueueIn(msgspec.Struct, forbid_unknown_fields=True):
    """The limits of a queue. A field that is left out, or null, does not limit."""

    max_running: Count | None = None
    rate: RateIn | None = None
    paused: bool | None = None


@record("Rate")
class RateOut(msgspec.Struct):
    """So many starts in each period."""

    count: int
    per: str


@record("Queue", since={"revision": 0}, types=_TIMES)
class QueueOut(msgspec.Struct):
    """A queue with limits. `waiting`: instances that could start but for these and the nodes' slots, counted up to a
    bound: there are more unless `waiting_exact`. `shut`: why nothing more may start now, "paused", "full" or "rate".
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


QUEUES = Named(
    "queues",
    "/v1/queues/{name}",
    "queue",
    QueueIn,
    QueueOut,
    sdk="Queues",
    given="limits",
    given_type="QueueLimits",
)
LIST = QUEUES.list_all("List queues with limits", "By name.", tells="Yields the queues with limits by name")
GET = QUEUES.get(
    "Read a queue",
    "The ETag is the revision of its limits; what runs and waits changes without it.",
    tells="it has no limits",
)
PUT = QUEUES.put(
    "Create or replace a queue",
    "Creates the queue or replaces all its limits; what was answered may be put back. With If-Match it must have "
    "limits, with If-None-Match: * it must have none yet.",
    tells="Replaces all its limits: what is left out does not limit.",
)
PATCH = QUEUES.patch(
    "Change a queue",
    "RFC 7396. Without If-Match, a change in between means to merge again: none gets lost.",
    "stale",
    "not-possible",
    tells="Changes the limits that are given; None removes one. Raises NotFoundError: it has none.",
)
DELETE = QUEUES.delete(
    "Delete a queue",
    "Its limits go; what waits in it goes on without.",
    "not-possible",
    tells="Removes its limits; what waits in it goes on without.",
)
