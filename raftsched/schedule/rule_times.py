"""The wall-clock seconds that a recurrence rule means, without any zone: find the next one, count them.

A search begins at the period it is asked about, not at the rule's start: `INTERVAL` is a matter of the distance from
the start, and `COUNT` is turned into a last time once. Searches end with fields.LAST_YEAR, so that a rule that never
matches costs milliseconds. Walls are as in `wall`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import product
from math import gcd

from raftsched.schedule.fields import LAST_YEAR
from raftsched.schedule.rule_days import EPOCH, DayParts, days_of, weekday_of
from raftsched.schedule.rule_text import Freq, Rule
from raftsched.schedule.wall import DAY_S

_UNIT_S = {Freq.HOURLY: 3600, Freq.MINUTELY: 60, Freq.SECONDLY: 1}  # a period; of longer ones each day has its times
_PHASES_KEPT = 512
_END_DAY = date(LAST_YEAR + 1, 1, 1).toordinal() - EPOCH


class RuleTimes:
    """The wall times of a rule that starts at the wall time `start` (RFC 5545: DTSTART), which is one of its times only
    when it matches. What the rule leaves open, the time of day or the day, is that of the start. `since`: the first
    wall time that counts, when a clock that is turned back shows some that are earlier than the start after it."""

    def __init__(self, rule: Rule, start: int, since: int | None = None) -> None:
        self._rule = rule
        self._start = start
        self._since = start if since is None else since
        self._day, second = divmod(start, DAY_S)
        begin = date.fromordinal(EPOCH + self._day)
        self._year, self._month = begin.year, begin.year * 12 + begin.month
        self._week = self._day - (weekday_of(self._day) - rule.week_start) % 7
        self.parts = _day_parts(rule, begin)
        self._unit = _UNIT_S.get(rule.freq, DAY_S)
        self._per_day = DAY_S // self._unit
        self.pattern = _pattern(rule, second)  # seconds in each period, or in each day of longer ones
        self._by_set = bool(rule.positions) and rule.freq < Freq.DAILY
        if rule.positions and not self._by_set:
            self.pattern = tuple(self.pattern[i] for i in _positions(rule, len(self.pattern)))
        self._phases: dict[int, Sequence[int]] = {}
        if rule.interval > 1 and self._unit < DAY_S and not self._ever():
            self.pattern = ()
        self._until = None if rule.until_utc else rule.until
        if rule.count is not None:
            self._until = self._last(rule.count)

    def _ever(self) -> bool:
        """Returns whether the steps of the interval reach a time of day that the rule allows, on any day: only their
        remainder modulo the day has to fit. Without this check each day would be searched in vain."""
        step = gcd(self._rule.interval, self._per_day)
        return bool(self._of_phase(range(self._start // self._unit % step, self._per_day, step)))

    def next_from(self, wall: int) -> int | None:
        """The first matching wall time at or after `wall`; None when there is none up to the end of LAST_YEAR."""
        low = max(wall, self._since)
        for base, offsets in self._chunks(low):
            if self._until is not None and base > self._until:
                return None
            at = bisect_left(offsets, low - base)
            if at < len(offsets):
                found = base + offsets[at]
                return None if self._until is not None and found > self._until else found
        return None

    def matches(self, wall: int) -> bool:
        return self.next_from(wall) == wall

    def count(self, low: int, high: int) -> int:
        """Returns how many wall times match in low <= wall < high."""
        low = max(low, self._since)
        if self._until is not None:
            high = min(high, self._until + 1)
        total = 0
        if low < high:
            for base, offsets in self._chunks(low):
                if base >= high:
                    break
                total += bisect_left(offsets, high - base) - bisect_left(offsets, low - base)
                if offsets[-1] >= high - base:
                    break
        return total

    def _last(self, count: int) -> int | None:
        """The wall time of the rule's last occurrence."""
        for base, offsets in self._chunks(self._start):
            skip = bisect_left(offsets, self._start - base)
            if count <= len(offsets) - skip:
                return base + offsets[skip + count - 1]
            count -= len(offsets) - skip
        return None

    def _chunks(self, low: int) -> Iterator[tuple[int, Sequence[int]]]:
        """Matching times from about `low` on, in order, some at a time: (base, offsets), none empty."""
        if self._by_set:
            for days in self._periods(low // DAY_S):
                size = len(self.pattern)
                chosen = [divmod(i, size) for i in _positions(self._rule, len(days) * size)]
                if chosen:
                    yield 0, [days[day] * DAY_S + self.pattern[time] for day, time in chosen]
            return
        for day in self._days(low // DAY_S) if self.pattern else ():
            offsets = self.pattern if self._unit == DAY_S else self._offsets(day)
            if offsets:
                yield day * DAY_S, offsets

    def _days(self, low: int) -> Iterator[int]:
        """Matching days from `low` on."""
        freq, interval = self._rule.freq, self._rule.interval
        for year in range(date.fromordinal(EPOCH + low).year, LAST_YEAR + 1):
            if freq is Freq.YEARLY and (year - self._year) % interval:
                continue
            days = days_of(self.parts, year)
            for day in days[bisect_left(days, low) :]:
                if interval == 1 or self._in_phase(freq, interval, day):
                    yield day

    def _in_phase(self, freq: Freq, interval: int, day: int) -> bool:
        if freq is Freq.DAILY:
            return (day - self._day) % interval == 0
        if freq is Freq.WEEKLY:
            return (day - self._week) // 7 % interval == 0
        if freq is Freq.MONTHLY:
            when = date.fromordinal(EPOCH + day)
            return (when.year * 12 + when.month - self._month) % interval == 0
        return True  # YEARLY was looked at; shorter ones are a matter of the time

    def _offsets(self, day: int) -> Sequence[int]:
        """Matching seconds of a day, of a rule that repeats within days."""
        interval, unit = self._rule.interval, self._unit
        phase = (self._start // unit - day * self._per_day) % interval
        if phase >= self._per_day:
            return ()
        found = self._phases.get(phase)
        if found is None:
            if len(self._phases) >= _PHASES_KEPT:
                self._phases.clear()
            found = self._phases[phase] = self._of_phase(range(phase, self._per_day, interval))
        return found

    def _of_phase(self, periods: range) -> Sequence[int]:
        rule, unit = self._rule, self._unit
        hours, minutes, seconds = rule.hours, rule.minutes if unit <= 60 else (), rule.seconds if unit == 1 else ()
        if unit == 1 and not (hours or minutes or seconds):
            return periods if self.pattern else ()
        return array(
            "l",
            (
                period * unit + offset
                for period in periods
                if (not hours or period * unit // 3600 in hours)
                and (not minutes or period * unit // 60 % 60 in minutes)
                and (not seconds or period % 60 in seconds)
                for offset in self.pattern
            ),
        )

    def _periods(self, low: int) -> Iterator[tuple[int, ...]]:
        """The matching days of each year, month or week of the rule, from the one that holds `low` on."""
        freq, interval = self._rule.freq, self._rule.interval
        if freq is Freq.WEEKLY:
            first = low - (low - self._week) % (7 * interval) if low > self._week else self._week
            for week in range(first, _END_DAY, 7 * interval):
                yield self._between(week, week + 7)
            return
        when = date.fromordinal(EPOCH + low)
        if freq is Freq.YEARLY:
            for year in range(when.year, LAST_YEAR + 1):
                if (year - self._year) % interval == 0:
                    yield days_of(self.parts, year)
            return
        for month in range(when.year * 12 + when.month, (LAST_YEAR + 1) * 12 + 1):
            if (month - self._month) % interval == 0:
                begin = date((month - 1) // 12, (month - 1) % 12 + 1, 1).toordinal() - EPOCH
                end = date(month // 12, month % 12 + 1, 1).toordinal() - EPOCH
                yield self._between(begin, end)

    def _between(self, low: int, high: int) -> tuple[int, ...]:
        first, last = (date.fromordinal(EPOCH + day).year for day in (low, high - 1))
        found: tuple[int, ...] = ()
        for year in range(first, last + 1):
            days = days_of(self.parts, year)
            found += days[bisect_left(days, low) : bisect_left(days, high)]
        return found


def _day_parts(rule: Rule, begin: date) -> DayParts:
    """Takes the parts about days from the start where the rule has none."""
    months, month_days, weekdays = rule.months, rule.month_days, rule.weekdays
    if not (rule.month_days or rule.year_days or rule.weeks or rule.weekdays or rule.nth):
        if rule.freq is Freq.YEARLY:
            months = months or frozenset({begin.month})
        if rule.freq <= Freq.MONTHLY:
            month_days = frozenset({begin.day})
        elif rule.freq is Freq.WEEKLY:
            weekdays = frozenset({begin.weekday()})
    return DayParts(
        months=months,
        month_days=month_days,
        year_days=rule.year_days,
        weeks=rule.weeks,
        week_start=rule.week_start,
        weekdays=weekdays,
        nth=rule.nth,
        nth_of_year=rule.freq is Freq.YEARLY and not rule.months,
    )


def _pattern(rule: Rule, second: int) -> tuple[int, ...]:
    if rule.freq is Freq.SECONDLY:
        return (0,)
    hours = (rule.hours or (second // 3600,)) if rule.freq <= Freq.DAILY else (0,)
    minutes = (rule.minutes or (second // 60 % 60,)) if rule.freq <= Freq.HOURLY else (0,)
    seconds = rule.seconds or (second % 60,)
    return tuple(h * 3600 + m * 60 + s for h, m, s in product(hours, minutes, seconds))


def _positions(rule: Rule, size: int) -> list[int]:
    """Which of so many BYSETPOS chooses, from 0 on, ascending."""
    found = {position - 1 if position > 0 else size + position for position in rule.positions}
    return sorted(i for i in found if 0 <= i < size)
