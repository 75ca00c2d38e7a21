"""Made from surface/whoami.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

WHOAMI = "/v1/whoami"

WHO_KIND = ("token", "oidc", "local", "anonymous")
