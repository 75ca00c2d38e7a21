"""Made from surface/tokens.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

GrantRole = Literal["viewer", "editor", "operator"]
TokenState = Literal["active", "expired", "revoked"]
