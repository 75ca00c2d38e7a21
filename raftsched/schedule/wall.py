"""Finds and counts the wall-clock seconds that match a cron expression, without any zone.

A wall time is the number of seconds from 1970-01-01T00:00:00 to what a clock on the wall shows, as if that were UTC.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterable
from datetime import date

from raftsched.schedule.days import DayRule
from raftsched.schedule.fields import FIRST_YEAR, LAST_YEAR

DAY_S = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_THURSDAY = 4  # 1970-01-01, with Sunday as 0


class WallTimes:
    """Sorted seconds, minutes, hours and months, a day rule, and years (None: all up to LAST_YEAR)."""

    def __init__(
        self,
        *,
        seconds: Iterable[int],
        minutes: Iterable[int],
        hours: Iterable[int],
        days: DayRule,
        months: Iterable[int],
        years: Iterable[int] | None,
    ) -> None:
        self.seconds = tuple(sorted(seconds))
        self.minutes = tuple(sorted(minutes))
        self.hours = tuple(sorted(hours))
        self.days = days
        self.months = tuple(sorted(months))
        self.years = None if years is None else tuple(sorted(years))
        self._second_set = frozenset(self.seconds)
        self._minute_set = frozenset(self.minutes)
        self._hour_set = frozenset(self.hours)
        self._month_set = frozenset(self.months)
        self._first = self.hours[0] * 3600 + self.minutes[0] * 60 + self.seconds[0]
        self._per_minute = len(self.seconds)
        self._per_hour = len(self.minutes) * self._per_minute
        self._per_day = len(self.hours) * self._per_hour

    def next_from(self, wall: int) -> int | None:
        """The first matching wall time at or after `wall`; None when there is none up to the end of LAST_YEAR."""
        day, second = divmod(wall, DAY_S)
        today = date.fromordinal(_EPOCH + day)
        year, month, number = today.year, today.month, today.day
        if month in self._month_set and self._year_allowed(year):
            mask = self.days.mask((day - number + 1 + _THURSDAY) % 7, month_length(year, month))
            if mask >> number & 1:
                found = self._next_in_day(second)
                if found >= 0:
                    return day * DAY_S + found
            rest = mask >> (number + 1)
            if rest:
                return (day + (rest & -rest).bit_length()) * DAY_S + self._first
        date_found = self._next_date(year, month + 1)
        return None if date_found is None else date_found * DAY_S + self._first

    def first_date(self) -> int | None:
        """The first matching day, in days since 1970-01-01; None when no year has one."""
        return self._next_date(FIRST_YEAR, 1)

    def matches(self, wall: int) -> bool:
        return self.next_from(wall) == wall

    def count(self, low: int, high: int) -> int:
        """Returns how many wall times match in low <= wall < high."""
        if low >= high:
            return 0
        return self._count_before(high, low // DAY_S) - self._count_before(low, low // DAY_S)

    def _year_allowed(self, year: int) -> bool:
        if self.years is None:
            return year <= LAST_YEAR
        return year in self.years

    def _next_in_day(self, second: int) -> int:
        """The first matching second of the day at or after `second`, or -1."""
        hour, rest = divmod(second, 3600)
        if hour in self._hour_set:
            minute, rest = divmod(rest, 60)
            if minute in self._minute_set:
                if rest in self._second_set:
                    return second
                at = bisect_right(self.seconds, rest)
                if at < len(self.seconds):
                    return hour * 3600 + minute * 60 + self.seconds[at]
            at = bisect_right(self.minutes, minute)
            if at < len(self.minutes):
                return hour * 3600 + self.minutes[at] * 60 + self.seconds[0]
        at = bisect_right(self.hours, hour)
        if at < len(self.hours):
            return self.hours[at] * 3600 + self.minutes[0] * 60 + self.seconds[0]
        return -1

    def _next_date(self, year: int, month: int) -> int | None:
        """The first matching day of this month (13: of the next January) or a later one, in days since 1970."""
        at = bisect_left(self.months, month)
        while True:
            if at >= len(self.months):
                at = 0
                year += 1
            if not self._year_allowed(year):
                later = [] if self.years is None else [y for y in self.years if y > year]
                if not later:
                    return None
                at = 0
                year = later[0]
            month = self.months[at]
            start = date(year, month, 1).toordinal() - _EPOCH
            mask = self.days.mask((start + _THURSDAY) % 7, month_length(year, month))
            if mask:
                return start + (mask & -mask).bit_length() - 2  # bit 1 is day 1
            at += 1

    def _count_before(self, wall: int, since: int) -> int:
        """Matches from the midnight that begins day `since` (days since 1970) up to, without, `wall`."""
        last, second = divmod(wall, DAY_S)
        days = 0
        day = since
        while day <= last:
            today = date.fromordinal(_EPOCH + day)
            start = day - today.day + 1
            length = month_length(today.year, today.month)
            if today.month in self._month_set and self._year_allowed(today.year):
                mask = self.days.mask((start + _THURSDAY) % 7, length) >> today.day
                end = last - day  # bit 0 is this day, bit `end` the last one; beyond the month no bit is set
                days += (mask & ((1 << end) - 1)).bit_count()
                if mask >> end & 1:
                    return days * self._per_day + self._count_in_day(second)
            day = start + length
        return days * self._per_day

    def _count_in_day(self, second: int) -> int:
        hour, rest = divmod(second, 3600)
        minute, rest = divmod(rest, 60)
        count = bisect_left(self.hours, hour) * self._per_hour
        if hour in self._hour_set:
            count += bisect_left(self.minutes, minute) * self._per_minute
            if minute in self._minute_set:
                count += bisect_left(self.seconds, rest)
        return count


_LENGTH = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def month_length(year: int, month: int) -> int:
    """Days of a month."""
    return _LENGTH[month] if month != 2 else monthrange(year, 2)[1]
