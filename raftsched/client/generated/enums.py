"""Made from surface/enums.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

JobState = Literal["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]
Action = Literal["pause", "resume", "run", "expire", "delete"]
OperationState = Literal["RUNNING", "DONE", "CANCELLED"]
StepName = Literal["1m", "5m", "15m", "1h"]
DeliveryName = Literal["at_least_once", "at_most_once"]
EventName = Literal["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started"]
ClusterEventName = Literal["leader_changed", "node_lost", "node_back", "disk_short"]
JobEventName = Literal[
    "succeeded",
    "failed",
    "timed_out",
    "killed",
    "skipped",
    "dead_letter",
    "lost",
    "started",
    "late",
    "running_long",
    "not_run_since",
]
AfterEnd = Literal["succeeded", "failed", "ended"]
CalendarAction = Literal["skip", "move"]
OverlapName = Literal["forbid", "allow", "queue_one", "queue_all", "replace"]
LiveStateName = Literal["WAITING", "LAUNCHED", "RUNNING", "RETRYING"]
RanStateName = Literal["SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED"]
EndStateName = Literal["SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"]
InstanceStateName = Literal[
    "WAITING", "LAUNCHED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"
]
RoleName = Literal["worker", "viewer", "editor", "operator", "admin"]
