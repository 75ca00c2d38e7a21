"""Keeps keys by due time in memory, in a timing wheel of two levels. Add, cancel and advance cost O(1); no I/O, no
clock.

The fine level has a slot per millisecond, the coarse level a slot per 1,024 ms; a coarse slot is dealt out to the fine
level when time reaches it. (G. Varghese, T. Lauck: Hashed and Hierarchical Timing Wheels, SOSP 1987, scheme 7.)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_BITS = 10
_SLOTS = 1 << _BITS
_MASK = _SLOTS - 1

K = TypeVar("K", bound=Hashable)


class Wheel(Generic[K]):
    """Keys with a due time each, within about 17 minutes (`SPAN_MS`) of the wheel's time."""

    SPAN_MS = (_SLOTS - 1) << _BITS

    def __init__(self, now_ms: int) -> None:
        self._now = now_ms  # everything up to here was handed out
        self._at: dict[K, int] = {}
        self._fine: list[dict[K, None]] = [{} for _ in range(_SLOTS)]
        self._coarse: list[dict[K, None]] = [{} for _ in range(_SLOTS)]
        self._late: dict[K, None] = {}
        self._fine_bits = 0  # bit per fine slot that is not empty, to find the next one without a walk

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: object) -> bool:
        return key in self._at

    def add(self, key: K, at_ms: int) -> None:
        """Moves the key when it is there. A past time is due at the next advance; ValueError beyond the span."""
        self.cancel(key)
        if at_ms - self._now > self.SPAN_MS:
            raise ValueError(f"{at_ms} is more than {self.SPAN_MS} ms ahead of {self._now}")
        self._at[key] = at_ms
        self._place(key, at_ms)

    def _place(self, key: K, at_ms: int) -> None:
        if at_ms <= self._now:
            self._late[key] = None
        elif at_ms >> _BITS == self._now >> _BITS:
            self._fine[at_ms & _MASK][key] = None
            self._fine_bits |= 1 << (at_ms & _MASK)
        else:
            self._coarse[at_ms >> _BITS & _MASK][key] = None

    def cancel(self, key: K) -> bool:
        """Removes a key; returns whether it was there."""
        at_ms = self._at.pop(key, None)
        if at_ms is None:
            return False
        if key in self._late:
            del self._late[key]
        elif at_ms >> _BITS == self._now >> _BITS:
            slot = self._fine[at_ms & _MASK]
            del slot[key]
            if not slot:
                self._fine_bits &= ~(1 << (at_ms & _MASK))
        else:
            del self._coarse[at_ms >> _BITS & _MASK][key]
        return True

    def advance(self, now_ms: int) -> list[tuple[int, K]]:
        """Takes out and returns (due time, key) of all that is due by `now_ms`, in order of time. With a clock that
        went back that is what was due by then, and no more."""
        due = self._take_late(now_ms)
        while self._now < now_ms:
            if self._now & _MASK == _MASK:  # time enters the next coarse slot
                if not self._fine_bits and not any(self._coarse):
                    self._now = now_ms
                    break
                self._deal(self._now + 1)
            end = min(now_ms, (self._now + 1) | _MASK)
            self._take_fine(end, due)
            self._now = end
        result = [(self._at.pop(key), key) for key in due]
        result.sort(key=lambda item: item[0])
        return result

    def _take_late(self, now_ms: int) -> list[K]:
        if now_ms >= self._now:
            due = list(self._late)
            self._late.clear()
            return due
        due = [key for key in self._late if self._at[key] <= now_ms]
        for key in due:
            del self._late[key]
        return due

    def _take_fine(self, end_ms: int, due: list[K]) -> None:
        bits = self._fine_bits & ((2 << (end_ms & _MASK)) - 1)
        while bits:
            low = bits & -bits
            slot = self._fine[low.bit_length() - 1]
            due.extend(slot)
            slot.clear()
            self._fine_bits ^= low
            bits ^= low

    def _deal(self, start_ms: int) -> None:
        """Time enters the coarse slot that starts at `start_ms`: its keys go to the fine level."""
        slot = self._coarse[start_ms >> _BITS & _MASK]
        keys = list(slot)
        slot.clear()
        for key in keys:
            at_ms = self._at[key]
            self._fine[at_ms & _MASK][key] = None
            self._fine_bits |= 1 << (at_ms & _MASK)

    def next_ms(self) -> int | None:
        """Returns a time at or before the next due one (exact within the current coarse slot); None: the wheel is
        empty."""
        if not self._at:
            return None
        if self._late:
            return min(self._at[key] for key in self._late)
        base = self._now & ~_MASK
        if self._fine_bits:
            return base + (self._fine_bits & -self._fine_bits).bit_length() - 1
        for ahead in range(1, _SLOTS):
            if self._coarse[((self._now >> _BITS) + ahead) & _MASK]:
                return base + (ahead << _BITS)
        return self._now

    def clear(self) -> None:
        self._at.clear()
        self._late.clear()
        self._fine_bits = 0
        for slot in (*self._fine, *self._coarse):
            slot.clear()
