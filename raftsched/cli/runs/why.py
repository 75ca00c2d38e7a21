"""Why a run is as it is, in one line, and how long it took."""

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


def duration_ms(run: Mapping[str, Any]) -> float | None:
    """Returns how long a run, or an attempt, took from its start to its end; of what runs up to now, None: it did not
    start, or its end is not known."""
    from datetime import datetime

    from raftsched.system.clock import SystemClock

    start, end = run.get("started_at"), run.get("ended_at")
    if not start or not (end or run.get("state") == "RUNNING"):
        return None
    end_ms = datetime.fromisoformat(end).timestamp() * 1_000 if end else SystemClock().wall_ms()
    return max(0.0, end_ms - datetime.fromisoformat(start).timestamp() * 1_000)
