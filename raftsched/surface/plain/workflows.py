"""Made from surface/workflows.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/workflows"
GET = "/v1/workflows/{id}"
KILL = "/v1/workflows/{id}/kill"

WORKFLOW_STATE_NAME = ("running", "succeeded", "failed", "killed")
