"""Times and durations as callers give them. A `datetime` needs a time zone."""

from __future__ import annotations

from datetime import datetime, timedelta

Moment = datetime | str  # RFC 3339 as text
Duration = timedelta | str  # "90s", "1h30m", ISO 8601 as text
