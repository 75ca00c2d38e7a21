"""The words of which a request or an answer has one."""

from __future__ import annotations

from typing import Literal

JobState = Literal["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]
Action = Literal["pause", "resume", "run", "expire", "delete"]
DeliveryName = Literal["at_least_once", "at_most_once"]
EventName = Literal["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started"]
ClusterEventName = Literal["leader_changed", "node_lost", "node_back", "disk_short"]
JobEventName = Literal[EventName, "late", "running_long", "not_run_since"]  # those that a job measures, too
OverlapName = Literal["forbid", "allow", "queue_one", "queue_all", "replace"]
RoleName = Literal["worker", "viewer", "editor", "operator", "admin"]  # from the least to the most
