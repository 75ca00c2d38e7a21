"""Made from surface/explain.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

INSTANCE = "/v1/instances/{id}/explain"
JOB = "/v1/jobs/{id}/explain"
JOB_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}/explain"
