"""Made from surface/scalars.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import TypedDict

# The value of a secret, which is put in its place when a run starts.
SecretRef = TypedDict(
    "SecretRef",
    {
        "$secret": str,
    },
)
