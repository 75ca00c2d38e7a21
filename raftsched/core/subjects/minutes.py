"""Counts of runs by minute, of the last day.

A run is counted in the minute of the log entry by which the cluster learned of it, under the namespace of its job. The
minute that goes on is one row of META, which every write batch writes anyway: a table of its own would be a page more
for each. When it is over, it goes to MINUTES: a row for each namespace, and one for all of them.
"""

from __future__ import annotations

import msgspec

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core.tables import u64

LATE_MS = 1_000  # a first start later than this after due time and jitter is late
KEEP_MS = DAY_MS + HOUR_MS  # rows older than that are dropped: all of the last day is there, whoever's clock asks
AHEAD_MS = HOUR_MS  # and rows so far ahead, which a clock has left that was wrong
COUNT_MAX = 2**53  # of each, so that every reader of JSON can tell it
ALL = ""  # the namespace of the row that adds up all others, but for what the cluster does for itself
OPEN_KEY = b"minute"  # of the row of META


class Minute(msgspec.Struct, array_like=True, gc=False):
    """The counts of a minute: one row of MINUTES."""

    started: int = 0  # runs, each with the first attempt that started (core.rules.lateness)
    restarted: int = 0  # starts after that one: retries, and runs that were lost, rerun or requeued
    succeeded: int = 0
    failed: int = 0  # or timed out: when nothing more is to be tried
    killed: int = 0
    skipped: int = 0  # due times that were left out, and runs that nobody could take in time
    late: int = 0  # of `started`: later than LATE_MS
    late_max_ms: int = 0  # how late the latest of `started` was


class OpenMinute(msgspec.Struct, array_like=True, gc=False):
    """The counts since `at_ms`, the beginning of the minute, that are not in MINUTES yet; by namespace."""

    at_ms: int
    rows: dict[str, Minute]


def minute_key(at_ms: int, namespace: str) -> bytes:
    """Returns the key of a row of MINUTES. `at_ms`: the beginning of the minute."""
    return u64(at_ms) + namespace.encode()


def add_up(row: Minute, more: Minute) -> None:
    """Adds the counts of another row."""
    row.started += more.started
    row.restarted += more.restarted
    row.succeeded += more.succeeded
    row.failed += more.failed
    row.killed += more.killed
    row.skipped = min(row.skipped + more.skipped, COUNT_MAX)
    row.late += more.late
    row.late_max_ms = max(row.late_max_ms, more.late_max_ms)
