"""Made from surface/queues.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/queues"
GET = "/v1/queues/{name}"
PUT = "/v1/queues/{name}"
PATCH = "/v1/queues/{name}"
DELETE = "/v1/queues/{name}"
