"""Keeps the next part of a time-ordered table in a wheel: the load-ahead window.

Memory follows what is due soon, bounded by time and by count; the rest stays on disk until its time comes near. The
horizon is a row and not a time, so that a million rows of one millisecond are loaded in parts like all others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from raftsched.core.tables import ReadView, Table, from_u64, u64
from raftsched.leader.due.wheel import Wheel

COUNT_MAX = 100_000
LOAD_MAX = 10_000  # rows read at once: the event loop does other work in between
BACK_MS = 1_000  # a clock that goes back by more than this is a new one


class Window:
    """Keys of a table whose rows start with an 8-byte due time; the rest of the row's key is the wheel's key."""

    def __init__(
        self,
        table: Table,
        read: Callable[[], AbstractContextManager[ReadView]],
        now_ms: int,
        *,
        window_ms: int,
        count_max: int = COUNT_MAX,
    ) -> None:
        self._table = table
        self._read = read
        self._window_ms = min(window_ms, Wheel.SPAN_MS - 1)
        self._count_max = count_max
        self._wheel: Wheel[bytes] = Wheel(now_ms)
        self._advanced_ms = now_ms
        self._horizon = b""  # rows with smaller keys are in the wheel
        self.load(now_ms)

    def __len__(self) -> int:
        return len(self._wheel)

    @property
    def _horizon_ms(self) -> int:
        """The time before which all due rows are in the wheel."""
        return from_u64(self._horizon[:8]) if self._horizon else 0

    def reach(self, window_ms: int) -> None:
        """Changes how far ahead rows are read. What was read for a longer window stays."""
        self._window_ms = min(window_ms, Wheel.SPAN_MS - 1)

    def load(self, now_ms: int) -> None:
        """Reads on from the horizon, as far as window and count allow, a bounded part of it."""
        end = u64(now_ms + self._window_ms + 1)
        room = min(self._count_max - len(self._wheel), LOAD_MAX)
        if room <= 0 or end <= self._horizon:
            return
        with self._read() as view:
            for key, _ in view.scan(self._table, self._horizon, end):
                if room <= 0:
                    self._horizon = key
                    return
                self._wheel.add(key[8:], from_u64(key[:8]))
                room -= 1
        self._horizon = end

    def add(self, key: bytes, at_ms: int, now_ms: int) -> None:
        """Takes in a row that was written: it goes into the wheel when it lies before the horizon."""
        if u64(at_ms) + key >= self._horizon:
            self._wheel.cancel(key)
            return
        self._wheel.add(key, at_ms)
        if len(self._wheel) > 2 * self._count_max:
            self.reload(now_ms)

    def cancel(self, key: bytes) -> None:
        self._wheel.cancel(key)

    def reload(self, now_ms: int) -> None:
        """Forgets what is in memory and reads again from the start of the table."""
        self._wheel = Wheel(now_ms)
        self._advanced_ms = now_ms
        self._horizon = b""
        self.load(now_ms)

    def advance(self, now_ms: int) -> list[tuple[int, bytes]]:
        """Returns (due time, key) of what is due; loads on when the window runs low."""
        if now_ms < self._advanced_ms - BACK_MS:
            self.reload(now_ms)  # the clock was set back: what was "late" by the old one is ahead again
        self._advanced_ms = max(now_ms, self._advanced_ms)
        due = self._wheel.advance(now_ms)
        if self._wants_more(now_ms):
            self.load(now_ms)
            due += self._wheel.advance(now_ms)
        return due

    def _wants_more(self, now_ms: int) -> bool:
        return self._horizon_ms - now_ms < self._window_ms // 2 and len(self._wheel) <= self._count_max // 2

    def next_ms(self, now_ms: int) -> int:
        """Returns when to look again: the next due time, or when the window has to be loaded."""
        upcoming = self._wheel.next_ms()
        reload_at = max(now_ms + 1, self._horizon_ms - self._window_ms // 2)
        if upcoming is None:
            return reload_at
        if len(self._wheel) > self._count_max // 2:
            return upcoming  # no room to load more until some of these are due
        return min(upcoming, reload_at)
