"""Makes a trigger of times that match in each of their fields, as schedules of systemd and Celery do.

There a day has to match the day of the month and the weekday. Cron takes either of the two when both are restricted, so
such times become a recurrence rule (RFC 5545), which means both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from raftsched.importers.foreign import Notes, Unmapped, instant
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.expression import parse
from raftsched.schedule.fields import FIRST_YEAR, LAST_YEAR
from raftsched.schedule.local_days import is_shown, local_ms
from raftsched.schedule.rule_text import parse_rule
from raftsched.schedule.zones import zone_info

SIXTY = frozenset(range(60))
HOURS = frozenset(range(24))
DAYS = frozenset(range(1, 32))
MONTHS = frozenset(range(1, 13))
WEEK = frozenset(range(7))
_NAMES = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_LISTED_MAX = 2  # values that are written one by one even where a step says the same


@dataclass(frozen=True)
class WallFields:
    """The values that match in each field. Monday is 0; `from_end`: days counted back, the last is 1, which match
    besides `days`; `years` None: all of them."""

    seconds: Collection[int] = frozenset([0])
    minutes: Collection[int] = SIXTY
    hours: Collection[int] = HOURS
    days: Collection[int] = DAYS
    months: Collection[int] = MONTHS
    weekdays: Collection[int] = WEEK
    years: Collection[int] | None = None
    from_end: Collection[int] = field(default=frozenset())


def wall_trigger(fields: WallFields, zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    """The trigger that is due at exactly these times. Raises Unmapped."""
    if any(
        not values for values in (fields.seconds, fields.minutes, fields.hours, fields.months, fields.weekdays)
    ) or not (fields.days or fields.from_end):
        raise Unmapped("its schedule matches no time")
    try:
        zone_info(zone)
        once = _single(fields)
        if once is not None:
            return _at(once, fields, zone, now_ms, notes)
        if fields.years and max(fields.years) < datetime.fromtimestamp(now_ms / 1000, zone_info(zone)).year:
            raise Unmapped(f"its last year is {max(fields.years)}, which is past")
        if fields.from_end or (len(fields.weekdays) < 7 and len(fields.days) < 31):
            return _rule(fields, zone)
        return {"cron": _cron(fields), "timezone": zone}
    except TriggerError as error:
        raise Unmapped(f"its schedule cannot be said here: {error.detail}") from None


def _single(fields: WallFields) -> datetime | None:
    """The one local time that matches; None: there are several."""
    parts = [fields.years or (), fields.months, fields.days, fields.hours, fields.minutes, fields.seconds]
    if fields.from_end or any(len(part) != 1 for part in parts):
        return None
    year, month, day, hour, minute, second = (next(iter(part)) for part in parts)
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        raise Unmapped(f"there is no day {year}-{month:02}-{day:02}") from None


def _at(once: datetime, fields: WallFields, zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    if once.weekday() not in fields.weekdays:
        raise Unmapped(f"{once:%Y-%m-%d} is none of its weekdays, so it is never due")
    at_ms = local_ms(once, zone)
    if at_ms <= now_ms:
        raise Unmapped(f"it was due once, at {instant(at_ms)}, which is past: here it would run at once")
    if not is_shown(once, zone):
        notes.say(
            f"clocks in {zone} go forward over {once:%Y-%m-%d %H:%M:%S}: it is due right after, at {instant(at_ms)},"
            " where it may never have been due before"
        )
    return {"at": instant(at_ms)}


def _cron(fields: WallFields) -> str:
    parts = [
        _written(fields.minutes, 0, 59),
        _written(fields.hours, 0, 23),
        _written(fields.days, 1, 31),
        _written(fields.months, 1, 12),
        _week(fields.weekdays),
    ]
    if set(fields.seconds) != {0} or fields.years is not None:
        parts.insert(0, _written(fields.seconds, 0, 59))
    if fields.years is not None:
        parts.append(_written(_known_years(fields.years), FIRST_YEAR, LAST_YEAR))
    expression = " ".join(parts)
    parse(expression, "", 0)
    return expression


def _known_years(years: Collection[int]) -> list[int]:
    known = sorted(year for year in years if FIRST_YEAR <= year <= LAST_YEAR)
    if not known:
        raise Unmapped(f"its years are not among {FIRST_YEAR} to {LAST_YEAR}")
    return known


def _written(values: Collection[int], low: int, high: int) -> str:
    """A field of cron: `*`, or a step over the whole of it, or values and ranges."""
    ordered = sorted(values)
    if len(ordered) == high - low + 1:
        return "*"
    if len(ordered) > _LISTED_MAX:
        steps = {later - earlier for earlier, later in pairwise(ordered)}
        if len(steps) == 1:
            step = steps.pop()
            to_the_end = ordered[-1] + step > high
            base = "*" if ordered[0] == low and to_the_end else f"{ordered[0]}-{ordered[-1]}"
            return base if step == 1 else f"{base}/{step}"
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in _runs(ordered))


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of what follows one another; two alone are no run."""
    start = 0
    for i in range(1, len(ordered) + 1):
        if i == len(ordered) or ordered[i] != ordered[i - 1] + 1:
            if i - start > _LISTED_MAX:
                yield ordered[start], ordered[i - 1]
            else:
                yield from ((value, value) for value in ordered[start:i])
            start = i


def _week(weekdays: Collection[int]) -> str:
    if len(weekdays) == 7:
        return "*"
    return ",".join(
        f"{_NAMES[first]}-{_NAMES[last]}" if first < last else _NAMES[first] for first, last in _runs(sorted(weekdays))
    )


def _rule(fields: WallFields, zone: str) -> dict[str, Any]:
    by: dict[str, Collection[int]] = {}
    if len(fields.seconds) == 60:
        frequency = "SECONDLY"
    elif len(fields.minutes) == 60:
        frequency = "MINUTELY"
    elif len(fields.hours) == 24:
        frequency = "HOURLY"
    else:
        frequency = "DAILY"
    months = sorted(fields.months)
    if len(months) < 12:
        by["BYMONTH"] = months
    if len(fields.days) < 31 or fields.from_end:
        by["BYMONTHDAY"] = [*sorted(fields.days), *sorted(-day for day in fields.from_end)]
    if len(fields.hours) < 24:
        by["BYHOUR"] = sorted(fields.hours)
    if len(fields.minutes) < 60:
        by["BYMINUTE"] = sorted(fields.minutes)
    if len(fields.seconds) < 60:
        by["BYSECOND"] = sorted(fields.seconds)
    parts = [f"FREQ={frequency}", *(f"{name}={','.join(map(str, values))}" for name, values in by.items())]
    if len(fields.weekdays) < 7:
        parts.append(f"BYDAY={','.join(_NAMES[day][:2] for day in sorted(fields.weekdays))}")
    rule = ";".join(parts)
    parse_rule(rule)
    trigger: dict[str, Any] = {"rrule": rule, "timezone": zone}
    if fields.years is not None:
        trigger |= _span(_known_years(fields.years), zone)
    return trigger


def _span(years: list[int], zone: str) -> dict[str, Any]:
    """starts_at and ends_at of years that follow one another."""
    if years != list(range(years[0], years[-1] + 1)):
        raise Unmapped("its years have gaps, which does not go together with its days; write it as several jobs")
    found = {"starts_at": instant(local_ms(datetime(years[0], 1, 1), zone))}
    if years[-1] < LAST_YEAR:
        found["ends_at"] = instant(local_ms(datetime(years[-1] + 1, 1, 1), zone) - 1000)
    return found
