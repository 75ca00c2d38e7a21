"""Made from surface/runs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

OF_JOB = "/v1/jobs/{id}/instances"
OF_JOB_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}/instances"
LIST = "/v1/instances"
GET = "/v1/instances/{id}"
CANCEL = "/v1/instances/{id}"
KILL = "/v1/instances/{id}/kill"
RERUN = "/v1/instances/{id}/rerun"
KILL_MATCHING = "/v1/instances:kill"
RECENT = "/v1/instances:recent"

FIELDS = (
    "id",
    "job_id",
    "job_name",
    "namespace",
    "state",
    "scheduled_at",
    "late_ms",
    "manual",
    "priority",
    "node",
    "token",
    "attempt",
    "started_at",
    "ended_at",
    "exit_code",
    "error",
    "reason",
    "kill_asked",
    "dead_letter",
    "job_revision",
    "created_at",
    "modified_at",
    "skipped",
    "skipped_until",
    "params",
    "event",
    "result",
    "output",
    "attempts",
    "worker",
    "parent",
    "shard",
    "parts",
    "trigger",
    "expires_at",
    "snoozes",
    "progress",
    "saved_state",
    "key",
    "cause",
    "root",
    "joined",
    "passed",
)
