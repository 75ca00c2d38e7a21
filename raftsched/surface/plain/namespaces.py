"""Made from surface/namespaces.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/namespaces"
GET = "/v1/namespaces/{ns}"
PUT = "/v1/namespaces/{ns}"
PATCH = "/v1/namespaces/{ns}"
DELETE = "/v1/namespaces/{ns}"
KEYS = "/v1/namespaces/{ns}/keys"
