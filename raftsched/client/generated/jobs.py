"""Made from surface/jobs.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

Result = Literal["created", "changed", "unchanged"]
