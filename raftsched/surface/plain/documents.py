"""Made from surface/documents.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

OPENAPI = "/openapi.json"
PAGE = "/docs"
