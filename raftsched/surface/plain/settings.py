"""Made from surface/settings.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

GET = "/v1/cluster/settings"
PATCH = "/v1/cluster/settings"
PAUSE = "/v1/cluster/pause"
RESUME = "/v1/cluster/resume"
