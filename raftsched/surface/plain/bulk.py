"""Made from surface/bulk.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

ACT = "/v1/jobs:actions"
DELETE_MATCHING = "/v1/jobs"
GET = "/v1/operations/{id}"
CANCEL = "/v1/operations/{id}/cancel"
LIST = "/v1/operations"
