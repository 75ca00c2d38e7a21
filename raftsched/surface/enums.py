"""The words of which a request or an answer has one."""

from __future__ import annotations

from typing import Any, Literal, get_args

JobState = Literal["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]
Action = Literal["pause", "resume", "run", "expire", "delete"]
OperationState = Literal["RUNNING", "DONE", "CANCELLED"]  # of what is done to many jobs
StepName = Literal["1m", "5m", "15m", "1h"]  # what is counted together
DeliveryName = Literal["at_least_once", "at_most_once"]
EventName = Literal["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started"]
ClusterEventName = Literal["leader_changed", "node_lost", "node_back", "disk_short"]
JobEventName = Literal[EventName, "late", "running_long", "not_run_since"]  # those that a job measures, too
AfterEnd = Literal["succeeded", "failed", "ended"]  # of the runs that a job follows
CalendarAction = Literal["skip", "move"]  # of what falls into excluded time
OverlapName = Literal["forbid", "allow", "queue_one", "queue_all", "replace"]
LiveStateName = Literal["WAITING", "LAUNCHED", "RUNNING", "RETRYING"]  # of instances that are not at their end
RanStateName = Literal["SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED"]  # of those that ended and were not left out
EndStateName = Literal[RanStateName, "SKIPPED"]
InstanceStateName = Literal[LiveStateName, EndStateName]
RoleName = Literal["worker", "viewer", "editor", "operator", "admin"]  # from the least to the most


def one_of(words: Any) -> dict[str, Any]:
    """Returns the schema of one of these words."""
    return {"type": "string", "enum": list(get_args(words))}


def several_of(names: tuple[str, ...]) -> dict[str, Any]:
    """Returns the schema of one or more of these words, separated by commas."""
    return {"type": "array", "items": {"type": "string", "enum": list(names)}, "minItems": 1}


INSTANCE_STATES = several_of(get_args(InstanceStateName))
