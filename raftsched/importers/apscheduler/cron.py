"""Makes triggers of the cron triggers of APScheduler, in which all fields have to match, also day and weekday."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from raftsched.importers.foreign import Notes, Unmapped
from raftsched.importers.wall_fields import DAYS, HOURS, MONTHS, SIXTY, WEEK, WallFields, wall_trigger
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.fields import FIRST_YEAR, LAST_YEAR
from raftsched.schedule.rule_text import parse_rule

FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")  # the order of its arguments
_DEFAULTS = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}  # below the last that is given
_BOUNDS = {"year": (FIRST_YEAR, LAST_YEAR), "month": (1, 12), "day": (1, 31), "week": (1, 53), "day_of_week": (0, 6),
           "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}  # fmt: skip
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day_of_week": ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
}
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "last")
_PART = re.compile(r"(?:(\*)|([0-9]{1,4}|[a-z]{3})(?:-([0-9]{1,4}|[a-z]{3}))?)(?:/([0-9]{1,4}))?", re.ASCII)
_POSITION = re.compile(r"(1st|2nd|3rd|4th|5th|last) +([a-z]{3})", re.ASCII)
_LAST = frozenset(range(1, 8))  # days from the end: the last week of a month has each weekday once


class Never(Unmapped):
    """A schedule that is not due any more, or never was: one of several may be left out for it."""


@dataclass(frozen=True)
class Days:
    """Days that match: those of the month (`from_end`: counted back, the last is 1) that are of these weekdays."""

    days: frozenset[int] = DAYS
    from_end: frozenset[int] = frozenset()
    weekdays: frozenset[int] = WEEK
    shown: str = ""  # in a field of cron, where that has a word for it: FRI#2


@dataclass(frozen=True)
class Cron:
    """The values that match in each field; `days`: one of them has to match. None: all years, all weeks."""

    seconds: frozenset[int] = SIXTY
    minutes: frozenset[int] = SIXTY
    hours: frozenset[int] = HOURS
    months: frozenset[int] = MONTHS
    days: tuple[Days, ...] = (Days(),)
    years: frozenset[int] | None = None
    weeks: frozenset[int] | None = None


def read_cron(fields: Mapping[str, Any]) -> Cron:
    """The values of the fields as texts. A field that is not given is `*`, or its first value where a longer unit is
    the last that is given. Raises Unmapped."""
    texts = {name: str(fields[name]).strip().lower() for name in FIELDS if fields.get(name) is not None}
    if not texts:
        raise Unmapped("its cron trigger has no fields")
    last = max(FIELDS.index(name) for name in texts)
    for name in FIELDS:
        texts.setdefault(name, _DEFAULTS.get(name, "*") if FIELDS.index(name) > last else "*")
    values = {name: _values(texts[name], name) for name in FIELDS if name != "day"}
    return Cron(
        seconds=values["second"],
        minutes=values["minute"],
        hours=values["hour"],
        months=values["month"],
        days=tuple(_days(texts["day"], values["day_of_week"])),
        years=None if texts["year"] == "*" else values["year"],
        weeks=None if len(values["week"]) == 53 else values["week"],
    )


def both(one: Cron, other: Cron) -> Cron:
    """Returns what matches in both. Raises Unmapped."""
    days = [_both_days(mine, theirs) for mine in one.days for theirs in other.days]
    return Cron(
        seconds=one.seconds & other.seconds,
        minutes=one.minutes & other.minutes,
        hours=one.hours & other.hours,
        months=one.months & other.months,
        days=tuple(day for day in days if day.weekdays and (day.days or day.from_end)),
        years=_met(one.years, other.years),
        weeks=_met(one.weeks, other.weeks),
    )


def cron_triggers(cron: Cron, zone: str, now_ms: int, notes: Notes) -> list[dict[str, Any]]:
    """The triggers that are due at these times, one for each kind of days. Raises Unmapped."""
    if cron.years is not None and not cron.years:
        raise Unmapped(f"its years are not among {FIRST_YEAR} to {LAST_YEAR}")
    fields = (cron.seconds, cron.minutes, cron.hours, cron.months, cron.days)
    if not all(fields) or (cron.weeks is not None and not cron.weeks):
        raise Never("its schedule matches no time")
    return [_trigger(cron, days, zone, now_ms, notes) for days in cron.days]


def _trigger(cron: Cron, days: Days, zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    fields = WallFields(
        seconds=cron.seconds,
        minutes=cron.minutes,
        hours=cron.hours,
        days=days.days,
        months=cron.months,
        weekdays=days.weekdays,
        years=cron.years,
        from_end=days.from_end,
    )
    if cron.weeks is not None:
        return _weekly(cron, cron.weeks, days, zone)
    if days.shown:
        plain = wall_trigger(replace(fields, days=DAYS, from_end=frozenset(), weekdays=WEEK), zone, now_ms, notes)
        if "cron" in plain:
            parts = plain["cron"].split()
            parts[4 if len(parts) == 5 else 5] = days.shown
            return {**plain, "cron": " ".join(parts)}
    return wall_trigger(fields, zone, now_ms, notes)


def _weekly(cron: Cron, weeks: frozenset[int], days: Days, zone: str) -> dict[str, Any]:
    """A rule of weeks by their number (ISO 8601), which cron has no field for."""
    if days.days != DAYS or days.from_end or cron.years is not None or len(cron.months) < 12:
        raise Unmapped("it has a week of the year beside a day, a month or a year; write it as a rule by hand (rrule)")
    weekday = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
    parts: dict[str, list[Any]] = {
        "BYWEEKNO": sorted(weeks),
        "BYDAY": [weekday[day] for day in sorted(days.weekdays)],
        "BYHOUR": sorted(cron.hours),
        "BYMINUTE": sorted(cron.minutes),
        "BYSECOND": sorted(cron.seconds),
    }
    rule = ";".join(["FREQ=YEARLY", *(f"{name}={','.join(map(str, values))}" for name, values in parts.items())])
    try:
        parse_rule(rule)
    except TriggerError as error:
        raise Unmapped(f"its schedule cannot be said here: {error.detail}") from None
    return {"rrule": rule, "timezone": zone}


def _days(text: str, weekdays: frozenset[int]) -> Iterator[Days]:
    """Yields what the field `day` lists: numbers and `last` together, and each `2nd fri` by itself."""
    items = _items(text)
    positions = [match for item in items if (match := _POSITION.fullmatch(item))]
    from_end = frozenset([1]) if "last" in items else frozenset()
    numbers = [item for item in items if item != "last" and not _POSITION.fullmatch(item)]
    days = _values(",".join(numbers), "day") if numbers else frozenset()
    if days or from_end:
        yield Days(days, frozenset() if days == DAYS else from_end, weekdays)
    for match in positions:
        place, weekday = _ORDINALS.index(match[1]), _number(match[2], "day_of_week")
        if weekday in weekdays:
            name = match[2].upper()
            if place == 5:
                yield Days(frozenset(), _LAST, frozenset([weekday]), f"{name}L")
            else:
                of = frozenset(range(7 * place + 1, min(7 * place + 7, 31) + 1))
                yield Days(of, frozenset(), frozenset([weekday]), f"{name}#{place + 1}")


def _both_days(one: Days, other: Days) -> Days:
    weekdays = one.weekdays & other.weekdays
    for mine, theirs in ((one, other), (other, one)):
        if theirs.days == DAYS:
            kept = mine.shown if mine.weekdays == weekdays else ""
            return Days(mine.days, mine.from_end, weekdays, kept)
    if one.from_end or other.from_end:
        if (one.days, one.from_end) == (other.days, other.from_end):
            return replace(one, weekdays=weekdays)
        raise Unmapped("two of its triggers name days from the end of the month; write it as a rule by hand (rrule)")
    return Days(one.days & other.days, frozenset(), weekdays)


def _met(one: frozenset[int] | None, other: frozenset[int] | None) -> frozenset[int] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _values(text: str, name: str) -> frozenset[int]:
    low, high = _BOUNDS[name]
    found: set[int] = set()
    for item in _items(text):
        match = _PART.fullmatch(item)
        if match is None or match[4] == "0":
            raise Unmapped(f"its {name} {text[:40]!r} cannot be read; write values, a-b, */n or a-b/n")
        step = int(match[4] or 1)
        if match[1]:
            first, last = low, high
        else:
            first = _number(match[2], name)
            last = _number(match[3], name) if match[3] else high if match[4] else first
        if name != "year" and not low <= first <= last <= high:
            raise Unmapped(f"its {name} has {item[:40]!r}; allowed are {low} to {high}, the smaller one first")
        found |= {value for value in range(first, min(last, high) + 1, step) if value >= low}
    return frozenset(found)


def _number(text: str, name: str) -> int:
    if text.isdigit():
        return int(text)
    known = _NAMES.get(name, ())
    if text in known:
        return known.index(text) + (1 if name == "month" else 0)
    raise Unmapped(f"its {name} has {text[:40]!r}, which is no value of it")
