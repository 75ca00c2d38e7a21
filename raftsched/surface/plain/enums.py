"""Made from surface/enums.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

JOB_STATE = ("NEW", "SCHEDULED", "SUSPENDED", "EXPIRED")
ACTION = ("pause", "resume", "run", "expire", "delete")
OPERATION_STATE = ("RUNNING", "DONE", "CANCELLED")
STEP_NAME = ("1m", "5m", "15m", "1h")
DELIVERY_NAME = ("at_least_once", "at_most_once")
EVENT_NAME = ("succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started")
CLUSTER_EVENT_NAME = ("leader_changed", "node_lost", "node_back", "disk_short")
JOB_EVENT_NAME = (
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
)
AFTER_END = ("succeeded", "failed", "ended")
CALENDAR_ACTION = ("skip", "move")
OVERLAP_NAME = ("forbid", "allow", "queue_one", "queue_all", "replace")
LIVE_STATE_NAME = ("WAITING", "LAUNCHED", "RUNNING", "RETRYING")
RAN_STATE_NAME = ("SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED")
END_STATE_NAME = ("SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED")
INSTANCE_STATE_NAME = (
    "WAITING",
    "LAUNCHED",
    "RUNNING",
    "RETRYING",
    "SUCCEEDED",
    "FAILED",
    "TIMED_OUT",
    "KILLED",
    "SKIPPED",
)
ROLE_NAME = ("worker", "viewer", "editor", "operator", "admin")
