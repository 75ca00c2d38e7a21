"""Filters jobs, for lists and for operations on many. `selection` finds the jobs that a filter means."""

from __future__ import annotations

import msgspec

from raftsched.bounds import LABELS_MAX, TIME_MAX_MS
from raftsched.core.model import JobState

FILTER_MAX = 4_096  # bytes of all texts of a filter


class JobFilter(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A filter. All fields that are set have to match. Times: from (inclusive) and to (exclusive). A job's creation is
    the time in its id, which never goes back, as clocks may."""

    namespace: str | None = None
    name: str | None = None
    name_prefix: str | None = None
    name_contains: str | None = None
    states: tuple[JobState, ...] = ()  # any of these; none: any
    owner: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    queue: str | None = None
    created_from_ms: int | None = None
    created_to_ms: int | None = None
    next_from_ms: int | None = None  # of the next fire time, jitter included; jobs without one do not match
    next_to_ms: int | None = None
    calendar: str | None = None

    @property
    def is_empty(self) -> bool:
        """Returns whether every job matches."""
        return self == _ALL

    @property
    def by_due_time(self) -> bool:
        """Returns whether the next fire time decides."""
        return self.next_from_ms is not None or self.next_to_ms is not None


_ALL = JobFilter()


def filter_error(wanted: JobFilter) -> str | None:
    """Returns the error in the filter and its remedy, None when there is none."""
    texts = (wanted.namespace, wanted.name, wanted.name_prefix, wanted.name_contains, wanted.owner, wanted.queue)
    given = [text for text in (*texts, wanted.calendar) if text is not None] + [
        part for pair in wanted.labels for part in pair
    ]
    if sum(len(text.encode()) for text in given) > FILTER_MAX:
        return f"the texts of a filter take at most {FILTER_MAX} bytes together."
    if len(wanted.labels) > LABELS_MAX:
        return f"a filter names {len(wanted.labels)} labels; {LABELS_MAX} is the limit."
    times = (wanted.created_from_ms, wanted.created_to_ms, wanted.next_from_ms, wanted.next_to_ms)
    if not all(time is None or 0 <= time <= TIME_MAX_MS for time in times):
        return "the times of a filter lie between 1970 and 9999."
    return None
