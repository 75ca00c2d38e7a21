"""Parses OnCalendar= of systemd.time(7) into the values that match in each field, and the time zone.

An expression is `[weekdays] [year-month-day] [hour:minute[:second]] [time zone]`, or a shorthand such as weekly. A
field is `*` or a list of values, ranges `a..b` and repetitions `a/n`; `~` before the day counts from the end of the
month. All fields have to match.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from raftsched.importers.foreign import Unmapped
from raftsched.importers.wall_fields import DAYS, HOURS, MONTHS, SIXTY, WEEK, WallFields
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.zones import zone_info

TEXT_MAX = 512  # characters
YEAR_MIN, YEAR_MAX = 1970, 2199
FROM_END_MAX = 28  # a day of each month
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
}
_ITEM = re.compile(r"([0-9]{1,4})(?:\.\.([0-9]{1,4}))?(?:/([0-9]{1,4}))?", re.ASCII)
_SECOND = re.compile(r"[0-9]+(?:\.0+)?(?:\.\.[0-9]+(?:\.0+)?)?(?:/[0-9]+(?:\.0+)?)?", re.ASCII)
_ZERO_FRACTION = re.compile(r"(?<=[0-9])\.0+(?![0-9])(?!\.[0-9])", re.ASCII)
_DATE_AND_TIME = re.compile(r"([0-9*,./~-]+)T([0-9*,./:]+)", re.ASCII)
_UNIX = re.compile(r"@([0-9]{1,11})", re.ASCII)


def read_calendar(text: str) -> tuple[WallFields, str | None]:
    """(what matches, the time zone that it names). Raises Unmapped."""
    if len(text) > TEXT_MAX:
        raise Unmapped(f"OnCalendar= has {len(text)} characters; {TEXT_MAX} is the limit")
    words = text.split()
    if not words:
        raise Unmapped("OnCalendar= is empty")
    zone = _zone(words)
    if zone is not None:
        words.pop()
    unix = _UNIX.fullmatch(words[0])
    if unix and len(words) == 1:
        return _moment(int(unix[1])), "UTC"
    if len(words) == 1 and words[0].lower() in _SHORTHANDS:
        words = _SHORTHANDS[words[0].lower()].split()
    weekdays = WEEK
    if words and words[0][0].isalpha():
        weekdays = _weekdays(words.pop(0), text)
    if len(words) == 1 and (both := _DATE_AND_TIME.fullmatch(words[0])):
        words = [both[1], both[2]]
    date = words.pop(0) if words and ":" not in words[0] else ""
    time = words.pop(0) if words and ":" in words[0] else ""
    if words:
        raise _wrong(text, f"{words[0][:40]!r} stands where nothing more is expected")
    years, months, days, from_end = _date(date, text) if date else (None, MONTHS, DAYS, frozenset[int]())
    hours, minutes, seconds = _time(time, text) if time else (frozenset([0]),) * 3
    return WallFields(seconds, minutes, hours, days, months, weekdays, years, from_end), zone


def _wrong(text: str, why: str) -> Unmapped:
    return Unmapped(f"OnCalendar={text[:80]}: {why}")


def _moment(seconds: int) -> WallFields:
    at = datetime.fromtimestamp(seconds, UTC)
    values = (at.second, at.minute, at.hour, at.day, at.month)
    second, minute, hour, day, month = (frozenset([value]) for value in values)
    return WallFields(second, minute, hour, day, month, WEEK, frozenset([at.year]))


def _zone(words: list[str]) -> str | None:
    """The time zone at the end. It begins with a letter, and so do only weekdays and shorthands."""
    last = words[-1]
    if not last[0].isalpha() or last.lower() in _SHORTHANDS:
        return None
    if len(words) == 1 or re.split(r"[,.-]", last.lower())[0] in {name for day in _DAYS for name in (day, day[:3])}:
        return None
    if last.upper() == "UTC":  # in any case, unlike other names
        return "UTC"
    try:
        zone_info(last)
    except TriggerError as error:
        raise _wrong(" ".join(words), error.detail) from None
    return last


def _weekdays(word: str, text: str) -> frozenset[int]:
    found: set[int] = set()
    for item in word.rstrip(",").split(","):
        first, dots, last = item.partition("..")
        if not dots:
            first, dots, last = item.partition("-")
        low = _weekday(first, text)
        high = _weekday(last, text) if dots else low
        if high < low:
            raise _wrong(text, f"{item} ends before it begins; the week of systemd begins on Monday")
        found |= set(range(low, high + 1))
    return frozenset(found)


def _weekday(name: str, text: str) -> int:
    for number, day in enumerate(_DAYS):
        if name.lower() in (day, day[:3]):
            return number
    raise _wrong(text, f"{name[:40]!r} is neither a weekday nor a shorthand; write Mon or weekly")


def _date(word: str, text: str) -> tuple[frozenset[int] | None, frozenset[int], frozenset[int], frozenset[int]]:
    """(years, months, days, days from the end)."""
    parts = re.split(r"([-~])", word)
    if len(parts) not in (3, 5) or (len(parts) == 5 and parts[1] != "-"):
        raise _wrong(text, f"{word[:40]!r} is no date such as *-*-01, 12-24 or *-02~03")
    years = None
    if len(parts) == 5 and parts[0] != "*":
        years = _values(parts[0], YEAR_MIN, YEAR_MAX, "year", text)
    month, separator, day = parts[-3:]
    months = _values(month, 1, 12, "month", text)
    if separator == "-":
        return years, months, _values(day, 1, 31, "day", text), frozenset()
    if day == "*":
        return years, months, DAYS, frozenset()
    return years, months, frozenset(), _from_end(day, text)


def _from_end(word: str, text: str) -> frozenset[int]:
    """Days counted back, 1 is the last. A repetition goes forward to the end of the month, so that 07/1 is the last
    week; with both ends it counts back from the first of them, so that 1..20/3 is 1, 4, .. 19."""
    found: set[int] = set()
    for start, stop, step in _items(word, 1, FROM_END_MAX, "day from the end", text):
        if stop is not None:
            found |= set(range(start, stop + 1, step or 1))
        else:
            found |= set(range(start, 0, -step)) if step else {start}
    return frozenset(found)


def _time(word: str, text: str) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    parts = word.split(":")
    if len(parts) not in (2, 3):
        raise _wrong(text, f"{word[:40]!r} is no time such as 02:30 or *:0/15")
    hours = _values(parts[0], 0, 23, "hour", text)
    minutes = _values(parts[1], 0, 59, "minute", text)
    if len(parts) == 2:
        return hours, minutes, frozenset([0])
    seconds = parts[2]
    if seconds != "*" and not all(_SECOND.fullmatch(item) for item in seconds.split(",")):
        if re.search(r"\.[0-9]", seconds.replace("..", " ")):
            raise _wrong(text, "fractions of a second cannot be said here; write whole seconds")
        raise _wrong(text, f"the second {seconds[:40]!r} cannot be read")
    return hours, minutes, _values(_ZERO_FRACTION.sub("", seconds), 0, 59, "second", text)


def _values(word: str, low: int, high: int, what: str, text: str) -> frozenset[int]:
    if word == "*":
        return {(0, 59): SIXTY, (0, 23): HOURS, (1, 31): DAYS, (1, 12): MONTHS}.get(
            (low, high), frozenset(range(low, high + 1))
        )
    found: set[int] = set()
    for start, stop, step in _items(word, low, high, what, text):
        if stop is not None:
            found |= set(range(start, stop + 1, step or 1))
        else:
            found |= set(range(start, high + 1, step)) if step else {start}
    return frozenset(found)


def _items(word: str, low: int, high: int, what: str, text: str) -> list[tuple[int, int | None, int | None]]:
    """(start, stop, step) of each item of a list, within their bounds."""
    found = []
    for item in word.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            hint = f"; for a repetition write {low}/{item[2:]}" if re.fullmatch(r"\*/[0-9]+", item) else ""
            raise _wrong(text, f"the {what} {item[:40]!r} is neither a value, a range a..b nor a repetition a/n{hint}")
        start, stop, step = (None if part is None else int(part) for part in match.groups())
        assert start is not None
        if what == "year":
            start, stop = _full_year(start), None if stop is None else _full_year(stop)
        for value in (start, stop):
            if value is not None and not low <= value <= high:
                raise _wrong(text, f"the {what} {value} is out of range; allowed are {low} to {high}")
        if step == 0:
            raise _wrong(text, f"the {what} {item} repeats after nothing")
        if stop is not None and stop < start:
            raise _wrong(text, f"the {what} {start}..{stop} ends before it begins")
        if step is not None and stop is None and what != "year" and not low <= _second(start, step, what) <= high:
            raise _wrong(
                text, f"the {what} {item} does not repeat: it goes from {low} to {high}, and systemd refuses it"
            )
        found.append((start, stop, step))
    return found


def _second(start: int, step: int, what: str) -> int:
    """The value with which a repetition goes on."""
    return start - step if what == "day from the end" else start + step


def _full_year(year: int) -> int:
    """Two digits mean 1970 to 2069."""
    return year + 2000 if year < 70 else year + 1900 if year < 100 else year
