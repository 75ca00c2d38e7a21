"""Made from surface/secrets.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/secrets"
GET = "/v1/namespaces/{ns}/secrets/{name}"
PUT = "/v1/namespaces/{ns}/secrets/{name}"
DELETE = "/v1/namespaces/{ns}/secrets/{name}"
RESEAL = "/v1/secrets:reseal"
