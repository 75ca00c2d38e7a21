"""Made from surface/cluster.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

STATUS = "/v1/cluster"
DOCTOR = "/v1/cluster/doctor"
TERMS = "/v1/cluster/terms"
MEMBERS = "/v1/cluster/members"
ADD_MEMBER = "/v1/cluster/members"
REMOVE_MEMBER = "/v1/cluster/members/{id}"
TRANSFER = "/v1/cluster/leader"
SNAPSHOT = "/v1/cluster/snapshot"
LOG = "/v1/cluster/log"

FINDING_STATE = ("ok", "warn", "fail")
