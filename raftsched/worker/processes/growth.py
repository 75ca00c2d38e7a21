"""Decides when runs that wait for a process get another one: the rule for processes of functions and for keepers."""

from __future__ import annotations

GROW_AFTER_MS = 10  # how long an attempt waits for a busy process before another one is started
KEEP_UP_MS = 30  # not where those there are get through all that waits within this time


def keeps_up(served: int, processes: int, waiting: int, waited_ms: int) -> bool:
    """Returns whether those processes that there are get through all that waits soon, so that another one would only
    cost. `served`: the runs that they got through while the first of those had waited for `waited_ms`."""
    # At that rate all that wait take waiting * waited_ms / served ms: with KEEP_UP_MS or less nothing is started. Where
    # each of them has not served one yet (served < processes) that is no rate to go by.
    #
    # KEEP_UP_MS is about what a new process for python costs until it is of use: 10 ms of a processor for its start,
    # 10 ms (GROW_AFTER_MS) before that, and its first run. A queue that is gone by then would leave it idle. Of 4,000
    # runs that do nothing, 32 at a time, that made 7 processes instead of 14, and 64 us of processor a run instead of
    # 117. A higher value lets bursts of short runs wait longer, a lower one starts processes that they need not.
    return waited_ms >= GROW_AFTER_MS and served >= processes and served * KEEP_UP_MS >= waiting * waited_ms
