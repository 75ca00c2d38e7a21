"""Why a run is as it is, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raftsched.error_texts import telling_line


def error_line(run: Mapping[str, Any]) -> str:
    """Returns the line of its error, or of its attempt's, that says what happened; empty: there is none."""
    return telling_line(run.get("error") or "")


def why(run: Mapping[str, Any]) -> str | None:
    """Returns its reason, or where it has none what happened."""
    return run.get("reason") or error_line(run) or None
