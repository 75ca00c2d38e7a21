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
