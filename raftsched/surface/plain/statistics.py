"""Made from surface/statistics.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

OF_JOB = "/v1/jobs/{id}/stats"
OF_JOB_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}/stats"
ALL = "/v1/stats"
NOW = "/v1/stats/now"
MINUTES = "/v1/stats/minutes"
