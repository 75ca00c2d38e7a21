"""Made from surface/forecast.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

FORECAST = "/v1/forecast"
