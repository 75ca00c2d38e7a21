"""Judges whether the leader's wall clock is right. It decides when jobs fire: one that is off fires early, or not at
all.

Two signs: the wall clock moved against the boot clock since the last look (somebody set it), and a majority of the
members agree with each other, but not with this node. After the first, nothing is fired until the others' clocks have
been measured again; on the second, leadership is given away. Pure; times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

PATIENCE_MS = 1_000  # how long to wait for the others' clocks to be measured,
PATIENCE_AFTER_SET_MS = 60_000  # and after the clock was set, where none of them can be: most often it is wrong then


class ClockGuard:
    """One leadership's watch over its own clock. `boot_ms` is the boot clock, `wall_ms` the wall clock, `offsets` the
    other voters' wall clocks minus ours, one for each, None where not measured yet."""

    def __init__(self, wall_ms: int, boot_ms: int, limit_ms: int, ahead_ms: int = 0) -> None:
        """`limit_ms`: how far two clocks may be apart and still agree (Settings.clock_limit_ms). `ahead_ms`: how far
        this clock is ahead of the time that the leader before went by; it may have been set before it led."""
        self.limit_ms = limit_ms
        self._difference_ms = wall_ms - boot_ms
        self._since_ms = boot_ms
        self._moved_ms = ahead_ms  # by which it was set since a majority last agreed with it

    def jumped(self, wall_ms: int, boot_ms: int) -> bool:
        """Returns True once after the wall clock was set: the others have to be measured again."""
        difference = wall_ms - boot_ms
        by_ms = difference - self._difference_ms
        self._difference_ms = difference
        if abs(by_ms) <= self.limit_ms:
            return False
        self._since_ms = boot_ms
        self._moved_ms += by_ms
        return True

    def measured(self, boot_ms: int, offsets: Sequence[int | None]) -> bool:
        """Returns whether a majority is known to agree with us, or has been waited for long enough. Where it stays open
        which clock is right (one of three is down, and the other disagrees) the leader goes on. A clock that was set,
        and of which nobody said anything since, because links are slow, has to wait for longer."""
        agreeing = sum(1 for offset in offsets if offset is not None and abs(offset) <= self.limit_ms)
        if agreeing >= _majority(offsets) - 1:
            self._moved_ms = 0
            return True
        unheard = abs(self._moved_ms) > self.limit_ms and all(offset is None for offset in offsets)
        return boot_ms - self._since_ms >= (PATIENCE_AFTER_SET_MS if unheard else PATIENCE_MS)

    def off(self, offsets: Sequence[int | None]) -> bool:
        """Returns whether a majority of the members agree on a time that is not ours. After it was set, and while
        nobody agrees with that, our clock of before (or the time of the leader before) counts as one of them: it and
        the only other one left know better."""
        known = [o for o in offsets if o is not None]
        away = [o for o in known if abs(o) > self.limit_ms]
        if known and len(away) == len(known) and abs(self._moved_ms) > self.limit_ms:
            away.append(-self._moved_ms)
        away.sort()
        size = _majority(offsets)
        return any(away[i + size - 1] - away[i] <= self.limit_ms for i in range(len(away) - size + 1))


def _majority(others: Sequence[int | None]) -> int:
    """Returns the size of a majority of all voters, this node included."""
    return (len(others) + 1) // 2 + 1
