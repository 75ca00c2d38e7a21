"""Computes which days of a month a cron expression means.

All day rules depend on two things only: the weekday the month begins with and its length. So there are at most 28
different months, and a month's matching days are one bit mask that is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftsched.schedule.fields import Parsed

SATURDAY = 6
SUNDAY = 0


class DayRule:
    """The day-of-month and the weekday field together.

    When either field starts with `*` (or is `?`), both must match; else one of them is enough (crontab(5) as Vixie cron
    implements it).
    """

    def __init__(self, day: Parsed, weekday: Parsed) -> None:
        self.day = day
        self.weekday = weekday
        self.both = day.star or weekday.star
        self._masks: dict[int, int] = {}

    def mask(self, first: int, length: int) -> int:
        """Bit d is set when day d matches, in a month of `length` days whose day 1 is weekday `first` (0 = Sunday)."""
        key = first << 5 | length
        mask = self._masks.get(key)
        if mask is None:
            left = _bits(_month_days(self.day, first, length))
            right = _bits(_weekdays(self.weekday, first, length))
            mask = left & right if self.both else left | right
            self._masks[key] = mask
        return mask

    def possible(self, months: Iterable[int]) -> bool:
        """Returns whether one of these months has a matching day in some year."""
        lengths = {length for month in months for length in _LENGTHS[month]}
        return any(self.mask(first, length) for first in range(7) for length in lengths)


_LENGTHS = {month: (28, 29) if month == 2 else (30,) if month in (4, 6, 9, 11) else (31,) for month in range(1, 13)}


def _bits(days: Iterable[int]) -> int:
    mask = 0
    for day in days:
        mask |= 1 << day
    return mask


def _month_days(field: Parsed, first: int, length: int) -> set[int]:
    days = {day for day in field.values if day <= length}
    days |= {length - back for back in field.from_end if back < length}
    days |= {_nearest(day, first, length) for day in field.near if day <= length}
    days |= {_nearest(length - back, first, length) for back in field.near_end if back < length}
    return days


def _nearest(day: int, first: int, length: int) -> int:
    """The working day (Monday to Friday) nearest to `day` without leaving the month."""
    weekday = (first + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _weekdays(field: Parsed, first: int, length: int) -> set[int]:
    days = {day for day in range(1, length + 1) if (first + day - 1) % 7 in field.values}
    for weekday, nth in field.nth:
        day = 1 + (weekday - first) % 7 + 7 * (nth - 1)
        if day <= length:
            days.add(day)
    for weekday in field.last:
        begin = length - 6  # the last seven days hold each weekday once
        days.add(begin + (weekday - (first + begin - 1)) % 7)
    return days
