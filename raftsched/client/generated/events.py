"""Made from surface/events.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

import msgspec

EventType = Literal[
    "cluster.paused",
    "cluster.resumed",
    "instance.discarded",
    "instance.failed",
    "instance.kill_asked",
    "instance.killed",
    "instance.launched",
    "instance.retrying",
    "instance.running",
    "instance.skipped",
    "instance.succeeded",
    "instance.timed_out",
    "instance.waiting",
    "job.created",
    "job.deleted",
    "job.edited",
    "job.expired",
    "job.moved",
    "job.scheduled",
    "job.suspended",
    "leader.changed",
    "members.changed",
    "node.changed",
    "operation.ended",
    "operation.started",
    "queue.changed",
    "session.ended",
    "session.opened",
    "settings.changed",
    "webhook.changed",
    "zones.changed",
]


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """A digest of what changed since the one before. `id`: the index of the log up to which it tells, after which
    reading may go on at any node. `jobs` and `runs`: ids of those that changed; with `more` they are not listed,
    because there are too many, or it is not known which. `kinds` names all that changed. `leader`: the node that leads;
    None when there is none."""

    id: str
    at: datetime
    more: bool
    jobs: list[str]
    runs: list[str]
    kinds: list[str]  # such as "jobs", "runs", "cluster"
    leader: str | None = None


class EventFilter(TypedDict, total=False):
    """Parameters of a stream of events. All that is given has to hold."""

    type: str  # such as "instance.failed" or "job", several with commas
    namespace: str
    job: str  # an id, "namespace/name", or with `namespace` a name
    state: str  # one, or several with commas
