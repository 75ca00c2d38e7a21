"""Which days of a year a recurrence rule's parts about days allow. Days are numbers since 1970-01-01."""

from __future__ import annotations

from calendar import isleap
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from raftsched.schedule.wall import month_length

EPOCH = date(1970, 1, 1).toordinal()
_THURSDAY = 3  # 1970-01-01, with Monday as 0


class DayParts(NamedTuple):
    """Each is empty when it allows all days."""

    months: frozenset[int]
    month_days: frozenset[int]  # negative: from the end
    year_days: frozenset[int]
    weeks: frozenset[int]
    week_start: int
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]]  # (n, weekday); together with `weekdays`, either will do
    nth_of_year: bool  # n counts in the year, else in the month


def weekday_of(day: int) -> int:
    """Monday is 0."""
    return (day + _THURSDAY) % 7


@lru_cache(maxsize=4096)
def days_of(parts: DayParts, year: int) -> tuple[int, ...]:
    """The days of the year that match, ascending."""
    first = date(year, 1, 1).toordinal() - EPOCH
    length = 366 if isleap(year) else 365
    found = []
    start = first
    for month in range(1, 13):
        size = month_length(year, month)
        if not parts.months or month in parts.months:
            for number in range(1, size + 1):
                day = start + number - 1
                of_year = day - first + 1
                if (
                    _among(parts.month_days, number, size)
                    and _among(parts.year_days, of_year, length)
                    and _weekday_fits(parts, day, number, size, of_year, length)
                    and (not parts.weeks or _week_fits(parts, day))
                ):
                    found.append(day)
        start += size
    return tuple(found)


def _among(wanted: frozenset[int], number: int, size: int) -> bool:
    return not wanted or number in wanted or number - size - 1 in wanted


def _weekday_fits(parts: DayParts, day: int, number: int, size: int, of_year: int, length: int) -> bool:
    if not parts.weekdays and not parts.nth:
        return True
    weekday = weekday_of(day)
    if weekday in parts.weekdays:
        return True
    if not parts.nth:
        return False
    if parts.nth_of_year:
        number, size = of_year, length
    return ((number - 1) // 7 + 1, weekday) in parts.nth or (-((size - number) // 7 + 1), weekday) in parts.nth


def _week_fits(parts: DayParts, day: int) -> bool:
    """A week belongs to the year that has four of its days or more (as ISO 8601 has it, from any first weekday)."""
    fourth = day - (weekday_of(day) - parts.week_start) % 7 + 3
    when = date.fromordinal(EPOCH + fourth)
    number = (when.timetuple().tm_yday - 1) // 7 + 1
    return _among(parts.weeks, number, _weeks(when.year, (parts.week_start + 3) % 7))


def _weeks(year: int, weekday: int) -> int:
    """Returns how often the weekday comes in the year."""
    first = weekday_of(date(year, 1, 1).toordinal() - EPOCH)
    return 53 if (weekday - first) % 7 < (2 if isleap(year) else 1) else 52
