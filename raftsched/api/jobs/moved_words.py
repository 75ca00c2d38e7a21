"""Says of a job that new time zone data moved its next time."""

from __future__ import annotations

from raftsched.api.http.durations import format_time
from raftsched.core.model import Job


def moved_words(job: Job, nominal_at_ms: int | None) -> str:
    """Returns a sentence about the last move of the job's next time, if it was to this time; else nothing."""
    moved = job.moved
    if moved is None or moved.to_ms != nominal_at_ms:
        return ""
    before = "it had none" if moved.from_ms is None else f"it was {format_time(moved.from_ms)}"
    now = "none" if moved.to_ms is None else format_time(moved.to_ms)
    return f"New time zone data made its next time {now} at {format_time(moved.at_ms)}; until then {before}."
