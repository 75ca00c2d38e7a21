"""Made from surface/nodes.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/nodes"
GET = "/v1/nodes/{id}"
PATCH = "/v1/nodes/{id}"
DRAIN = "/v1/nodes/{id}/drain"
UNDRAIN = "/v1/nodes/{id}/undrain"
