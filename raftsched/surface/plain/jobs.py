"""Made from surface/jobs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

CREATE = "/v1/jobs"
CREATE_BATCH = "/v1/jobs:batch"
COMPARE_ALL = "/v1/jobs:compare"
CHECK_NEW = "/v1/jobs:check"
GET = "/v1/jobs/{id}"
GET_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}"
PATCH = "/v1/jobs/{id}"
PATCH_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}"
DELETE = "/v1/jobs/{id}"
DELETE_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}"
CHECK_CHANGE = "/v1/jobs/{id}/check"
CHECK_CHANGE_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}/check"
REVISIONS = "/v1/jobs/{id}/revisions"
REVISIONS_BY_NAME = "/v1/namespaces/{ns}/jobs/{name}/revisions"
PUT = "/v1/jobs/{id}"
PUT_NAMED = "/v1/namespaces/{ns}/jobs/{name}"
COMPARE_NAMED = "/v1/namespaces/{ns}/jobs/{name}/compare"
LIST = "/v1/jobs"

RESULT = ("created", "changed", "unchanged")
LIST_ONLY = ("failing", "late", "order")
FILTERS = (
    "namespace",
    "name",
    "name_prefix",
    "name_contains",
    "state",
    "owner",
    "label",
    "queue",
    "calendar",
    "created_from",
    "created_to",
    "next_from",
    "next_to",
)
