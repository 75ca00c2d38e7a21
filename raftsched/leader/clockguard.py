"""Is the leader's wall clock to be trusted? It decides when jobs fire: one that is off fires early, or not at all.

Two signs: the wall clock moved against the boot clock since the last look (somebody set it), and a majority of the
members agree with each other, but not with this node. After the first, nothing is fired until the others' clocks have
been measured again; on the second, leadership is given away. Pure; times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

LIMIT_MS = 500  # how far two clocks may be apart and still agree
PATIENCE_MS = 1_000  # how long to wait for the others' clocks to be measured


class ClockGuard:
    """One leadership's watch over its own clock. `boot_ms` is the boot clock, `wall_ms` the wall clock, `offsets` the
    other members' wall clocks minus ours, None where not measured yet."""

    def __init__(self, members: int, wall_ms: int, boot_ms: int, limit_ms: int = LIMIT_MS) -> None:
        self._majority = members // 2 + 1
        self._limit_ms = limit_ms
        self._difference_ms = wall_ms - boot_ms
        self._since_ms = boot_ms

    def jumped(self, wall_ms: int, boot_ms: int) -> bool:
        """True once after the wall clock was set: the others have to be measured again."""
        difference = wall_ms - boot_ms
        moved = abs(difference - self._difference_ms) > self._limit_ms
        self._difference_ms = difference
        if moved:
            self._since_ms = boot_ms
        return moved

    def measured(self, boot_ms: int, offsets: Sequence[int | None]) -> bool:
        """Whether a majority is known to agree with us, or has been waited for long enough. Where it stays open who is
        right (one of three is down, and the other disagrees) the leader goes on."""
        agreeing = sum(1 for offset in offsets if offset is not None and abs(offset) <= self._limit_ms)
        return agreeing >= self._majority - 1 or boot_ms - self._since_ms >= PATIENCE_MS

    def off(self, offsets: Sequence[int | None]) -> bool:
        """Whether a majority of the members agree on a time that is not ours."""
        away = sorted(o for o in offsets if o is not None and abs(o) > self._limit_ms)
        size = self._majority
        return any(away[i + size - 1] - away[i] <= self._limit_ms for i in range(len(away) - size + 1))
