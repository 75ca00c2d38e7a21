"""Hours that a calendar excludes: windows that come each week, business windows outside of which all is excluded, and
stretches of time that are excluded once.

A window begins on a day of the calendar's zone, at a time of day, and ends on that day or the next one. It lasts from
the first moment at which clocks show its begin to the last at which they show its end, so that an hour that comes twice
belongs to it twice. Where clocks go forward over its begin or end, that is the moment at which they do.

Instants are UTC seconds, ends are not included.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from raftsched.schedule.budget import PAID_KEPT, Steps, pay, spend
from raftsched.schedule.local_days import day_of, first_shown, last_shown
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.zones import Zone

WEEK_S = 7 * DAY_S
_THURSDAY = 3  # 1970-01-01, with Monday as 0
_CHUNK_BITS = 21  # 2**21 s: 24 days are looked at together
_CHUNKS_KEPT = PAID_KEPT
_AROUND_S = 5 * DAY_S  # longer than any change of clocks, a window and a day matter
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)

Span = tuple[int, int]  # begin <= instant < end


class Window(NamedTuple):
    """Seconds from the midnight of the day that it begins on: 0 <= begin < end <= begin + a day."""

    weekdays: frozenset[int]  # Monday is 0
    begin: int
    end: int


def parse_clock(text: str, *, end: bool = False) -> int:
    """Seconds since midnight. `end`: 24:00 is one. ValueError says what would be right."""
    if end and text == "24:00":
        return DAY_S
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError("must be a time of day from 00:00 to 24:00" if end else "must be a time of day such as 22:00")
    return int(match[1]) * 3600 + int(match[2]) * 60


def window(begin: str, end: str, weekdays: Iterable[int]) -> Window:
    """Returns the window from one time of day to another, of the next day if that is not later. ValueError says what
    would be right."""
    first, last = parse_clock(begin), parse_clock(end, end=True)
    if first == last:
        raise ValueError("is the same as from; for a whole day write 00:00 to 24:00")
    return Window(frozenset(weekdays), first, last if last > first else last + DAY_S)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Returns the spans in order, those that touch as one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif begin < end:
            found.append((begin, end))
    return found


class Windows:
    """The hours that a calendar excludes."""

    def __init__(self, place: Zone, hours: tuple[Window, ...], only: tuple[Window, ...], once: list[Span]) -> None:
        self._place = place
        self._hours = hours
        self._only = only
        self._once = merged(once)
        self._week = self._held_in_week()
        self._chunks: dict[int, tuple[list[Span], int]] = {}  # what is excluded in each, in order; its steps

    def cover_week(self, weekdays: frozenset[int]) -> bool:
        """Returns whether they exclude the whole of each week, together with these days."""
        return merged([*self._week, *((day * DAY_S, (day + 1) * DAY_S) for day in weekdays)]) == [(0, WEEK_S)]

    def _held_in_week(self) -> list[Span]:
        held = _in_week(self._hours)
        if self._only:
            held += _between(merged(_in_week(self._only)), 0, WEEK_S)
        return merged(held)

    def holds(self, at: int) -> bool:
        return self._end_of(at) is not None

    def free_from(self, at: int, horizon: int) -> int | None:
        """The first instant at or after this one that is not excluded; None: none before the horizon is."""
        while at < horizon:
            spend(1)
            end = self._end_of(at)
            if end is None:
                return at
            at = end
        return None

    def next_held(self, at: int, high: int) -> int:
        """The first excluded instant at or after this one, `high` at the latest."""
        while at < high:
            spend(1)
            held = self._chunk(at >> _CHUNK_BITS)
            i = bisect_right(held, (at, high)) - 1
            if i >= 0 and at < held[i][1]:
                return at
            if i + 1 < len(held):
                return min(held[i + 1][0], high)
            at = ((at >> _CHUNK_BITS) + 1) << _CHUNK_BITS
        return high

    def _end_of(self, at: int) -> int | None:
        """None: the instant is not excluded; else an instant up to which all is, as far as is known at once."""
        held = self._chunk(at >> _CHUNK_BITS)
        i = bisect_right(held, at, key=_begin) - 1
        return held[i][1] if i >= 0 and at < held[i][1] else None

    def _chunk(self, number: int) -> list[Span]:
        kept = self._chunks.get(number)
        if kept is None:
            with Steps(kept=True) as steps:
                held = self._held_in(number << _CHUNK_BITS, (number + 1) << _CHUNK_BITS)
            while len(self._chunks) >= _CHUNKS_KEPT:
                self._chunks.pop(next(iter(self._chunks)), None)
            kept = self._chunks[number] = held, steps.spent
        pay((self, number), kept[1])
        return kept[0]

    def _held_in(self, low: int, high: int) -> list[Span]:
        around = self._place.stretch(low - _AROUND_S)
        if around.end > high + _AROUND_S:  # clocks are not changed: each week is the same
            spend(8 + len(self._week) // 2 + len(self._once) // 8)
            monday = low - (low + around.offset + _THURSDAY * DAY_S) % WEEK_S
            weeks = range(monday, high, WEEK_S)
            held = _clipped([(week + begin, week + end) for week in weeks for begin, end in self._week], low, high)
            return merged([*held, *_clipped(self._once, low, high)]) if self._once else list(held)
        spend(8 + 28 * (len(self._hours) + len(self._only)))
        found = list(_clipped(self._once, low, high))
        found += _clipped(self._spans(self._hours, low, high), low, high)
        if self._only:
            allowed = merged(_clipped(self._spans(self._only, low, high), low, high))
            found += _between(allowed, low, high)
        return merged(found)

    def _spans(self, windows: tuple[Window, ...], low: int, high: int) -> Iterator[Span]:
        for day in range(day_of(self._place, low) - 2, day_of(self._place, high) + 2):
            weekday, midnight = (day + _THURSDAY) % 7, day * DAY_S
            around = self._place.stretch(midnight - _AROUND_S)
            steady = around.end > midnight + _AROUND_S
            for one in windows:
                if weekday not in one.weekdays:
                    continue
                if steady:
                    yield midnight + one.begin - around.offset, midnight + one.end - around.offset
                else:
                    yield first_shown(self._place, midnight + one.begin), last_shown(self._place, midnight + one.end)


def _begin(span: Span) -> int:
    return span[0]


def _clipped(spans: Iterable[Span], low: int, high: int) -> Iterator[Span]:
    for begin, end in spans:
        if begin < high and end > low:
            yield max(begin, low), min(end, high)


def _between(spans: list[Span], low: int, high: int) -> list[Span]:
    """The parts of low <= instant < high that lie in none of these, which are in order and do not touch."""
    begins = [low, *(end for _, end in spans)]
    ends = [*(begin for begin, _ in spans), high]
    return [(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end]


def _in_week(windows: tuple[Window, ...]) -> list[Span]:
    """Seconds of a week that begins on Monday."""
    found: list[Span] = []
    for one in windows:
        for day in one.weekdays:
            begin, end = day * DAY_S + one.begin, day * DAY_S + one.end
            found += [(begin, min(end, WEEK_S)), (0, max(0, end - WEEK_S))]
    return [span for span in found if span[0] < span[1]]
