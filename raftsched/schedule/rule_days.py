"""Computes which days the parts about days of a recurrence rule allow.

Days are numbers since 1970-01-01. The days of a year are the bits of a number, bit 0 is 1 January: there are few kinds
of years, and each part of a rule costs one operation for all days of one.
"""

from __future__ import annotations

from calendar import isleap
from collections.abc import Iterable
from datetime import date
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

from raftsched.schedule.budget import spend
from raftsched.schedule.fields import LAST_YEAR
from raftsched.schedule.rule_text import Freq, Rule
from raftsched.schedule.wall import month_length

EPOCH = date(1970, 1, 1).toordinal()
_THURSDAY = 3  # 1970-01-01, with Monday as 0
YEAR_MAX = 366  # days


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

    @property
    def all_days(self) -> bool:
        return not (self.months or self.month_days or self.year_days or self.weeks or self.weekdays or self.nth)


class RuleDays:
    """The days of a rule that starts on the day `start`, what its INTERVAL leaves out aside where that counts units
    shorter than a day."""

    def __init__(self, rule: Rule, start: int) -> None:
        begin = date.fromordinal(EPOCH + start)
        self.parts = _day_parts(rule, begin)
        self._freq, self._interval = rule.freq, rule.interval
        self._day, self._year, self._month = start, begin.year, begin.year * 12 + begin.month
        self.week = start - (weekday_of(start) - rule.week_start) % 7
        self.in_week = len(self.parts.weekdays) or 7  # matching days at most
        self.all_days = self.parts.all_days and (rule.freq > Freq.DAILY or rule.interval == 1)
        self._kinds: dict[_Kind, int] = {}
        self._years: dict[int, int] = {}

    def of_year(self, year: int) -> int:
        """The days of the year that match."""
        spend(1)
        found = self._years.get(year)
        if found is None:
            found = self._years[year] = self._of_year(year)
        return found

    def next_from(self, day: int) -> int | None:
        """The first matching day at or after this one; None when there is none up to the end of LAST_YEAR."""
        year = year_of(day)
        while year <= LAST_YEAR:
            first = first_of(year)
            rest = self.of_year(year) >> max(0, day - first)
            if rest:
                return max(day, first) + (rest & -rest).bit_length() - 1
            year += 1
        return None

    def has(self, day: int) -> bool:
        year = year_of(day)
        return year <= LAST_YEAR and bool(self.of_year(year) >> (day - first_of(year)) & 1)

    def between(self, low: int, high: int) -> int:
        """The matching days of low <= day < high: bit 0 is `low`. For spans of a year or less."""
        found = 0
        for year in range(year_of(low), min(year_of(high - 1), LAST_YEAR) + 1):
            first = first_of(year)
            days = self.of_year(year)
            found |= days << first - low if first > low else days >> low - first
        return found & ((1 << high - low) - 1)

    def _of_year(self, year: int) -> int:
        freq, interval = self._freq, self._interval
        if freq is Freq.YEARLY and (year - self._year) % interval:
            return 0
        kind = _kind_of(year, self.parts.week_start)
        days = self._kinds.get(kind)
        if days is None:
            days = self._kinds[kind] = _days_of_kind(self.parts, kind)
        if interval == 1 or not days:
            return days
        first = first_of(year)
        if freq is Freq.DAILY:
            return days & _shifted(interval, 1, (self._day - first) % interval)
        if freq is Freq.WEEKLY:
            period = 7 * interval
            ahead = (self.week - first) % period  # when the next week begins that counts; the last may go on
            return days & (_shifted(period, 7, ahead) | 0b1111111 >> min(7, period - ahead))
        if freq is Freq.MONTHLY:
            months = [month for month in range(1, 13) if (year * 12 + month - self._month) % interval == 0]
            return days & _any(_tables(isleap(year)).months[month] for month in months)
        return days


def weekday_of(day: int) -> int:
    """Monday is 0."""
    return (day + _THURSDAY) % 7


def year_of(day: int) -> int:
    return date.fromordinal(EPOCH + day).year


@lru_cache(maxsize=1024)
def first_of(year: int) -> int:
    """1 January."""
    return date(year, 1, 1).toordinal() - EPOCH


@lru_cache(maxsize=2)
def months_of(length: int) -> tuple[tuple[int, int], ...]:
    """The days from which and before which months last, of a year of so many days."""
    found, begin = [], 0
    for month in range(1, 13):
        end = begin + month_length(2000 if length == YEAR_MAX else 2001, month)
        found.append((begin, end))
        begin = end
    return tuple(found)


def bits(days: int) -> list[int]:
    """The bits that are set, ascending."""
    found = []
    while days:
        lowest = days & -days
        found.append(lowest.bit_length() - 1)
        days ^= lowest
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


class _Kind(NamedTuple):
    """The things that the days of a year depend on."""

    leap: bool
    first: int  # weekday of 1 January
    weeks: int
    weeks_before: int  # of the year before
    weeks_after: int


@lru_cache(maxsize=1024)
def _kind_of(year: int, week_start: int) -> _Kind:
    fourth = (week_start + 3) % 7
    weeks = (_weeks(one, fourth) for one in (year, year - 1, year + 1))
    return _Kind(isleap(year), weekday_of(first_of(year)), *weeks)


def _weeks(year: int, weekday: int) -> int:
    """Returns how often the weekday comes in the year."""
    first = weekday_of(first_of(year))
    return 53 if (weekday - first) % 7 < (2 if isleap(year) else 1) else 52


class _Tables(NamedTuple):
    """The days of a year by their places in months."""

    months: dict[int, int]
    month_days: dict[int, int]  # 1 to 31, and -31 to -1
    sevens: dict[int, int]  # 1: the first seven days of each month; -1: the last


@lru_cache(maxsize=2)
def _tables(leap: bool) -> _Tables:
    months: dict[int, int] = {}
    month_days = dict.fromkeys([*range(-31, 0), *range(1, 32)], 0)
    start = 0
    for month in range(1, 13):
        size = month_length(2000 if leap else 2001, month)
        months[month] = ((1 << size) - 1) << start
        for number in range(1, size + 1):
            month_days[number] |= 1 << start + number - 1
            month_days[number - size - 1] |= 1 << start + number - 1
        start += size
    sevens = {}
    for n in range(1, 6):
        numbers = range(7 * n - 6, min(7 * n, 31) + 1)
        sevens[n] = _any(month_days[number] for number in numbers)
        sevens[-n] = _any(month_days[-number] for number in numbers)
    return _Tables(months, month_days, sevens)


def _any(days: Iterable[int]) -> int:
    return reduce(or_, days, 0)


@lru_cache(maxsize=64)
def _every(period: int, width: int) -> int:
    """The first `width` of each so many days, for a year at least."""
    if period > YEAR_MAX:
        return (1 << width) - 1
    count = -(-YEAR_MAX // period)
    return ((1 << period * count) - 1) // ((1 << period) - 1) * ((1 << width) - 1)


def _shifted(period: int, width: int, ahead: int) -> int:
    return _every(period, width) << ahead if ahead < YEAR_MAX else 0


def _days_of_kind(parts: DayParts, kind: _Kind) -> int:
    tables = _tables(kind.leap)
    length = 366 if kind.leap else 365
    days = (1 << length) - 1
    if parts.months:
        days &= _any(tables.months[month] for month in parts.months)
    if parts.month_days:
        days &= _any(tables.month_days[number] for number in parts.month_days)
    if parts.year_days:
        days &= _any(1 << (n - 1 if n > 0 else length + n) for n in parts.year_days if abs(n) <= length)
    if parts.weekdays or parts.nth:
        fits = _any(_weekday(kind, weekday) for weekday in parts.weekdays)
        for n, weekday in parts.nth:
            if parts.nth_of_year:
                first = (weekday - kind.first) % 7
                last = length - 1 - (length - 1 - first) % 7
                day = first + 7 * (n - 1) if n > 0 else last + 7 * (n + 1)
                fits |= 1 << day if 0 <= day < length else 0
            else:
                fits |= _weekday(kind, weekday) & tables.sevens[n]
        days &= fits
    if parts.weeks:
        days &= _of_weeks(parts, kind)
    return days


def _weekday(kind: _Kind, weekday: int) -> int:
    return _every(7, 1) << (weekday - kind.first) % 7


def _of_weeks(parts: DayParts, kind: _Kind) -> int:
    """A week belongs to the year that has four of its days or more (as ISO 8601 has it, from any first weekday)."""
    begin = (parts.week_start - kind.first + 3) % 7 - 3  # of the first week, which may be in the year before
    found = 0
    for number in range(kind.weeks + 2):
        if number == 0:
            wanted = kind.weeks_before in parts.weeks or -1 in parts.weeks
        elif number > kind.weeks:
            wanted = 1 in parts.weeks or -kind.weeks_after in parts.weeks
        else:
            wanted = number in parts.weeks or number - kind.weeks - 1 in parts.weeks
        if wanted:
            day = begin + 7 * (number - 1)
            found |= 0b1111111 << day if day >= 0 else 0b1111111 >> -day
    return found
