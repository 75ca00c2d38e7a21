"""Queues with limits. Jobs may name any queue; one that has no limits is not here."""

from __future__ import annotations

import msgspec

from raftsched.surface.content import RateIn
from raftsched.surface.named import Named
from raftsched.surface.scalars import Count


class QueueIn(msgspec.Struct, forbid_unknown_fields=True):
    """The limits of a queue. A field that is left out, or null, does not limit."""

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


QUEUES = Named("queues", "/v1/queues/{name}", "queue", QueueIn, QueueOut)
LIST = QUEUES.list_all("List queues with limits", "By name.")
GET = QUEUES.get("Read a queue", "The ETag is the revision of its limits; what runs and waits changes without it.")
PUT = QUEUES.put(
    "Create or replace a queue",
    "Creates the queue or replaces all its limits; what was answered may be put back. With If-Match it must have "
    "limits, with If-None-Match: * it must have none yet.",
)
PATCH = QUEUES.patch(
    "Change a queue",
    "RFC 7396. Without If-Match, a change in between means to merge again: none gets lost.",
    "stale",
    "not-possible",
)
DELETE = QUEUES.delete("Delete a queue", "Its limits go; what waits in it goes on without.", "not-possible")
