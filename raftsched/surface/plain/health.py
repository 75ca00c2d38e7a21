"""Made from surface/health.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIVEZ = "/livez"
READYZ = "/readyz"
METRICS = "/metrics"
