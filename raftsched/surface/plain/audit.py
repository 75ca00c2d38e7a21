"""Made from surface/audit.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

LIST = "/v1/audit"
CHAIN = "/v1/audit/chain"
REFUSALS = "/v1/audit/refusals"

RECORD_KIND = ("change", "job", "secret", "work")
AUDIT_ORDER = ("newest", "oldest")
