"""Made from surface/output.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

GET = "/v1/instances/{id}/output"
SEARCH = "/v1/instances:search"
COPIES = "/v1/nodes/{id}/output-copies"

STREAM_NAME = ("stdout", "stderr")
SEARCHED = ("q", "ignore_case", "stream", "job", "namespace", "from", "to", "limit", "cursor")
