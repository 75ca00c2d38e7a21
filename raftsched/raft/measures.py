"""Counts of a member's part in consensus, since it was started, for those who watch it."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

HEARTBEATS_S = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # late by up to RaftOptions.tick_ms is normal
DISK_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

Buckets = list[tuple[float, int]]  # (seconds, how many took no more than that); infinity comes last


class Times:
    """A histogram of durations."""

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> Buckets:
        """Returns (seconds, how many took no more than that)."""
        return list(zip((*self._bounds_s, float("inf")), accumulate(self._counts), strict=True))


class Measures:
    """Counted where it happens; none of it is read by the algorithm."""

    def __init__(self) -> None:
        self.elections = 0  # that this node stood in
        self.won = 0  # of these
        self.leaders = 0  # leaderships that it saw, its own among them
        self.snapshots_sent = 0  # whole
        self.snapshots_loaded = 0
        self.heartbeats_late = Times(HEARTBEATS_S)  # that it sent as a leader, against their schedule
        self.commits = Times(DISK_S)  # from when it made an entry as a leader to the entry's commit
        self.writes = Times(DISK_S)  # of write batches: what goes to the log, and its flush


class Measured(NamedTuple):
    """A member as it is shown. Of the followers only a leader knows anything."""

    counts: Measures
    log_entries: int  # that were not compacted away
    voters: int
    connected: dict[str, bool]  # the other members
    lag_entries: dict[str, int]  # of the followers
    clock_offset_s: dict[str, float]  # their clocks minus this node's
    voters_connected: int = 0  # with this node, itself among them
    uncommitted_s: float = 0.0  # that the oldest entry of this leader has waited for its commit
    writing_s: float = 0.0  # that the write batch has taken which is written now
    log_index: int = 0  # of the newest entry of the log, and its term
    log_term: int = 0
