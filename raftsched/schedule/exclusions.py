"""Calendars: days and hours in which what would be due is not.

They are those of the calendar's own time zone, else of the trigger's. The content is JSON; every list may be missing:

    {"timezone": "Europe/Madrid", "dates": ["2026-12-25"], "ranges": [{"from": "2026-08-01", "to": "2026-08-31"}],
     "yearly": ["01-01"], "weekdays": ["sat", "sun"], "hours": [{"from": "22:00", "to": "06:00"}],
     "only": [{"weekdays": ["mon"], "from": "09:00", "to": "17:00"}],
     "excludes": [{"from": "2026-11-07T22:00:00Z", "to": "2026-11-08T04:00:00Z"}]}

Times are UTC seconds, days are numbers since 1970-01-01. Nothing is looked for beyond fields.LAST_YEAR.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

import msgspec

from raftsched.bounds import OutOfRange
from raftsched.schedule.budget import spend
from raftsched.schedule.errors import CALENDAR_POINTER, TriggerError, shown
from raftsched.schedule.fields import FIRST_YEAR, LAST_YEAR
from raftsched.schedule.local_days import begin_of, day_of
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.windows import Span, Window, Windows, window
from raftsched.schedule.zones import Zone, zone

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_EPOCH = date(1970, 1, 1).toordinal()
_THURSDAY = 3  # 1970-01-01, with Monday as 0
_END_DAY = date(LAST_YEAR + 1, 1, 1).toordinal() - _EPOCH
_DAYS_LOOKED = 16  # days between two words to the budget, a step each
_EXCLUDED_STEPS = 3  # to find the end of excluded days
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_MONTH_DAY = re.compile(r"([0-9]{2})-([0-9]{2})", re.ASCII)


def parse_date(text: str) -> int:
    """The day of a date. ValueError says what would be right."""
    match = _DATE.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day = date(int(match[1]), int(match[2]), int(match[3])).toordinal() - _EPOCH
    except ValueError:
        raise ValueError("must be a date such as 2026-12-25") from None
    if not 0 <= day < _END_DAY:
        raise OutOfRange(f"must be a date from {FIRST_YEAR} to {LAST_YEAR}")
    return day


def day_text(day: int) -> str:
    return date.fromordinal(_EPOCH + day).isoformat()


def parse_month_day(text: str) -> tuple[int, int]:
    """Month and day. ValueError says what would be right."""
    match = _MONTH_DAY.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        date(2000, int(match[1]), int(match[2]))  # a year that has all of them
    except ValueError:
        raise ValueError("must be month and day, such as 12-25") from None
    return int(match[1]), int(match[2])


class _Range(msgspec.Struct):
    from_: str = msgspec.field(name="from")
    to: str


class _Hours(msgspec.Struct):
    from_: str = msgspec.field(name="from")
    to: str
    weekdays: list[str] | None = None


class _Content(msgspec.Struct):
    timezone: str | None = None
    dates: list[str] = []
    ranges: list[_Range] = []
    yearly: list[str] = []
    weekdays: list[str] = []
    hours: list[_Hours] = []
    only: list[_Hours] = []
    excludes: list[_Range] = []


_content: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Content)


@lru_cache(maxsize=256)
def exclusion(content: bytes, timezone: str) -> Exclusion:
    """Returns what a calendar with this content excludes for a trigger in this zone.

    Raises:
        TriggerError: the content cannot be read, or this host knows no such zone.
    """
    try:
        given = _content.decode(content)
        ranges = sorted((parse_date(one.from_), parse_date(one.to)) for one in given.ranges)
        place = zone(given.timezone or timezone)
        return Exclusion(
            place,
            days=frozenset(parse_date(text) for text in given.dates),
            ranges=_merged(ranges),
            yearly=frozenset(parse_month_day(text) for text in given.yearly),
            weekdays=frozenset(WEEKDAYS.index(text) for text in given.weekdays),
            windows=_windows(place, given),
        )
    except ValueError as error:
        raise TriggerError(CALENDAR_POINTER, f"the calendar cannot be read: {error}") from None


def zone_of(content: bytes) -> str | None:
    """Returns the zone that a calendar with this content names; None: it is that of each trigger."""
    try:
        given: _Content = _content.decode(content)
    except ValueError as error:
        raise TriggerError(CALENDAR_POINTER, f"the calendar cannot be read: {error}") from None
    return given.timezone


def _windows(place: Zone, given: _Content) -> Windows | None:
    if not (given.hours or given.only or given.excludes):
        return None
    once = [_once(one) for one in given.excludes]
    return Windows(place, tuple(map(_window, given.hours)), tuple(map(_window, given.only)), once)


def _window(given: _Hours) -> Window:
    days = WEEKDAYS if given.weekdays is None else given.weekdays
    return window(given.from_, given.to, map(WEEKDAYS.index, days))


def _once(given: _Range) -> Span:
    """Whole seconds that hold all of it."""
    begin, end = (datetime.fromisoformat(text).timestamp() for text in (given.from_, given.to))
    return math.floor(begin), math.ceil(end)


def not_given(name: str) -> TriggerError:
    return TriggerError(
        CALENDAR_POINTER,
        f"there is no calendar {shown(name)}; PUT /v1/calendars/{name[:128]} creates it",
        "unknown-reference",
    )


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Returns the spans in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


class Exclusion:
    """Days of a zone, and hours of it."""

    def __init__(
        self,
        place: Zone,
        *,
        days: frozenset[int],
        ranges: tuple[tuple[int, int], ...],
        yearly: frozenset[tuple[int, int]],
        weekdays: frozenset[int],
        windows: Windows | None = None,
    ) -> None:
        self.place = place
        self._days = days
        self._ranges = ranges
        self._starts = [first for first, _ in ranges]
        self._yearly = yearly
        self._weekdays = weekdays
        self.windows = windows
        self._always = (
            len(weekdays) == 7 or len(yearly) == 366 or (windows is not None and windows.cover_week(weekdays))
        )

    def day_of(self, at: int) -> int:
        """The local day of an instant."""
        return day_of(self.place, at)

    def holds(self, at: int) -> bool:
        """Returns whether the instant is excluded."""
        if self._always or self._until(self.day_of(at)) is not None:
            return True
        return self.windows is not None and self.windows.holds(at)

    def held_since(self, at: int) -> int:
        """The first instant of the excluded time that this instant lies in."""
        span = DAY_S
        while True:
            low = max(0, at - span)
            ends = [end for _, end in self.stretches(low, at)]
            if ends or low == 0:
                return ends[-1] if ends else 0
            span *= 4

    def text(self, at: int) -> str:
        """An instant on the wall of its zone: the day, and the time where hours matter."""
        if self.windows is None:
            return day_text(self.day_of(at))
        return datetime.fromtimestamp(at + self.place.stretch(at).offset, UTC).strftime("%Y-%m-%d %H:%M")

    def free_from(self, at: int) -> int | None:
        """The first instant at or after this one that is not excluded."""
        free: int | None = at
        while free is not None and not self._always:
            day_free = self._free_day_from(free)
            if day_free is None or self.windows is None:
                return day_free
            free = self.windows.free_from(day_free, _END_DAY * DAY_S)
            if free == day_free:
                return free
        return None

    def _free_day_from(self, at: int) -> int | None:
        """The same of days alone."""
        while at < _END_DAY * DAY_S:
            day = self.day_of(at)
            last = self._until(day)
            if last is None:
                return at
            looked = 0
            while last is not None:
                day = last + 1
                if day >= _END_DAY:
                    return None
                last = self._until(day)
                looked += 1
                if looked % _DAYS_LOOKED == 0:
                    spend(_DAYS_LOOKED)
            spend(_EXCLUDED_STEPS)
            at = self._set_back(at, begin_of(self.place, at, day))
        return None

    def _set_back(self, at: int, until: int) -> int:
        """The first instant after `at` at which clocks leave a day for the one before; at the latest `until`, at which
        they may, too."""
        end = self.place.stretch(at).end
        while end < until and day_of(self.place, end) >= day_of(self.place, end - 1):
            end = self.place.stretch(end).end
        return min(end, until)

    def stretches(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yields the parts of low <= instant < high that are not excluded, as pairs, in order."""
        at: int | None = low
        while at is not None and at < high:
            at = self.free_from(at)
            if at is None or at >= high:
                return
            end = high if self.windows is None else self.windows.next_held(at, high)
            end = min(self._next_held(at, end), end)
            yield at, end
            at = end

    def _next_held(self, at: int, high: int) -> int:
        """The first excluded instant after this one, which is not; or one that is not before `high`."""
        while at < high:
            stretch = self.place.stretch(at)
            day, last = (at + stretch.offset) // DAY_S, (stretch.end - 1 + stretch.offset) // DAY_S
            if self._until(day) is not None:
                return at
            last = min(last, (high + stretch.offset) // DAY_S)
            for later in range(day + 1, last + 1):
                if self._until(later) is not None:
                    return later * DAY_S - stretch.offset
                if later % _DAYS_LOOKED == 0:
                    spend(_DAYS_LOOKED)
            spend(1)
            at = stretch.end
        return high

    def _until(self, day: int) -> int | None:
        """None: the day is not excluded; else the last day up to which all are, as far as is known at once."""
        if (day + _THURSDAY) % 7 in self._weekdays or day in self._days:
            return day
        at = bisect_right(self._starts, day) - 1
        if at >= 0 and day <= self._ranges[at][1]:
            return self._ranges[at][1]
        if self._yearly:
            when = date.fromordinal(_EPOCH + day)
            if (when.month, when.day) in self._yearly:
                return day
        return None
