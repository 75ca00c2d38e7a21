"""Made from surface/cluster.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

TERMS = "/v1/cluster/terms"
