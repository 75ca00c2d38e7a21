"""Made from surface/oidc.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

GET = "/v1/cluster/oidc"
PUT = "/v1/cluster/oidc"
DELETE = "/v1/cluster/oidc"

PERSON_ROLE = ("viewer", "editor", "operator", "admin")
ALGORITHM = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
USUAL = ("RS256", "ES256")
