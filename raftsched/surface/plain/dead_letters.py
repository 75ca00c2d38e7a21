"""Made from surface/dead_letters.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/dead-letters"
REQUEUE = "/v1/dead-letters/requeue"
DISCARD = "/v1/dead-letters"

FILTERS = ("job", "namespace", "name_prefix", "from", "to")
