"""Made from surface/graph.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

GRAPH = "/v1/jobs:graph"
