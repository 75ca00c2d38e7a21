"""Made from surface/audit.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

RecordKind = Literal["change", "job", "secret", "work"]
AuditOrder = Literal["newest", "oldest"]
