"""Made from surface/calendars.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/calendars"
GET = "/v1/calendars/{name}"
PUT = "/v1/calendars/{name}"
PATCH = "/v1/calendars/{name}"
DELETE = "/v1/calendars/{name}"

WEEKDAY = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
