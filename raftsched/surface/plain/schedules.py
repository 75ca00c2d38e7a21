"""Made from surface/schedules.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

NEXT = "/v1/jobs/{id}/next"
NEXT_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}/next"
PREVIEW = "/v1/schedules/preview"
CONVERT_CRONTAB = "/v1/schedules/crontab"
