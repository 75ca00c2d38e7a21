"""Made from surface/events.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/events"
CHANGES = "/v1/changes"

EVENT_TYPE = (
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
)
