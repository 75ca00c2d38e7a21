"""Made from surface/jobs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

RESULT = ("created", "changed", "unchanged")
