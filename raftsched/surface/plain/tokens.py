"""Made from surface/tokens.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/tokens"
CREATE = "/v1/tokens"
GET = "/v1/tokens/{id}"
DELETE = "/v1/tokens/{id}"
ACCESS = "/v1/cluster/access"
SET_ACCESS = "/v1/cluster/access"

GRANT_ROLE = ("viewer", "editor", "operator")
TOKEN_STATE = ("active", "expired", "revoked")
