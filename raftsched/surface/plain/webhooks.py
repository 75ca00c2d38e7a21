"""Made from surface/webhooks.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

CREATE = "/v1/webhooks"
LIST = "/v1/webhooks"
GET = "/v1/webhooks/{name}"
PUT = "/v1/webhooks/{name}"
PATCH = "/v1/webhooks/{name}"
DELETE = "/v1/webhooks/{name}"
TEST = "/v1/webhooks/{name}/test"
ROTATE = "/v1/webhooks/{name}/rotate"

WEBHOOK_KIND = ("webhook", "slack", "email")
TLS_NAME = ("starttls", "tls", "none")
