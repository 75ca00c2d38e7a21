"""Made from surface/workers.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/workers"
GET = "/v1/workers/{name}"
