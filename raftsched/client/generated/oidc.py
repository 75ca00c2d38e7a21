"""Made from surface/oidc.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

PersonRole = Literal["viewer", "editor", "operator", "admin"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
