"""Schedules of Celery -> triggers: periods, crontab(...), and those that cannot be said here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from raftsched.bounds import DURATION_MAX_MS
from raftsched.importers.celery.literals import Call
from raftsched.importers.foreign import Notes, Unmapped, every, instant
from raftsched.importers.wall_fields import WallFields, wall_trigger
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.local_days import local_ms

CRONTAB = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")  # the order of its arguments
_BOUNDS = {"minute": (0, 59), "hour": (0, 23), "day_of_week": (0, 6), "day_of_month": (1, 31), "month_of_year": (1, 12)}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PERIODS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_PART = re.compile(r"(?:(\*)|(\w{1,10})(?:-(\w{1,10}))?)(?:/([0-9]{1,3}))?", re.ASCII)
_KEYWORDS = {"clocked": ("clocked_time", "nowfun", "app"), "schedule": ("run_every", "relative", "nowfun", "app")}
SOLAR = "it is due by the sun (solar), which is not computed here; give it a time of day"


def trigger_of(schedule: Any, zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    """The trigger of a schedule as Python, or its JSON, has it. Raises Unmapped."""
    if isinstance(schedule, timedelta):
        return _every(schedule.total_seconds(), notes)
    if isinstance(schedule, int | float) and not isinstance(schedule, bool):
        return _every(schedule, notes)
    if isinstance(schedule, Call):
        return _of_call(schedule, zone, now_ms, notes)
    if isinstance(schedule, Mapping):
        return _of_object(schedule, zone, now_ms, notes)
    if isinstance(schedule, str):
        return crontab(dict(zip(CRONTAB, _five(schedule), strict=True)), zone, now_ms, notes)
    raise Unmapped("its schedule is neither a period nor a crontab")


def _five(text: str) -> list[str]:
    """Fields of a cron expression in the order of crontab()."""
    fields = text.split()
    if len(fields) != 5:
        raise Unmapped(f"its schedule {text[:60]!r} has {len(fields)} fields; 5 are expected")
    minute, hour, day, month, weekday = fields
    return [minute, hour, weekday, day, month]


def _every(seconds: float, notes: Notes) -> dict[str, Any]:
    if not 0 < seconds <= DURATION_MAX_MS / 1000:
        raise Unmapped(f"its period of {seconds} seconds is none; use more than zero, up to a hundred years")
    return {"every": every(-int(-seconds * 1000 // 1), notes)}


def _of_call(call: Call, zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    if call.name == "solar":
        raise Unmapped(SOLAR)
    if call.name == "crontab":
        given = dict(zip(CRONTAB, call.args, strict=False)) | call.kwargs
        unknown = [name for name in given if name not in (*CRONTAB, "nowfun", "app")]
        if unknown or len(call.args) > len(CRONTAB):
            raise Unmapped(f"crontab() does not know {', '.join(unknown) or 'so many arguments'}")
        return crontab(given, zone, now_ms, notes)
    notes.leave(call.kwargs, _KEYWORDS[call.name], f"{call.name}() ")
    if call.name == "clocked":
        return clocked(call.args[0] if call.args else call.kwargs.get("clocked_time"), zone, now_ms)
    period = call.args[0] if call.args else call.kwargs.get("run_every")
    if call.kwargs.get("relative") or (len(call.args) > 1 and call.args[1]):
        notes.say("relative is left out: times are not rounded to the unit of the period")
    if isinstance(period, Call):
        raise Unmapped("its schedule() has no period")
    return trigger_of(period, zone, now_ms, notes)


def _of_object(given: Mapping[str, Any], zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    """JSON of RedBeat and of hand-made dumps."""
    kind = str(given.get("__type__") or "")
    if kind == "solar" or "solar" in given or "latitude" in given:
        raise Unmapped(SOLAR)
    for name in ("crontab", "interval", "schedule", "timedelta", "run_every"):
        if name in given:
            if given.get("relative"):
                notes.say("relative is left out: times are not rounded to the unit of the period")
            notes.leave(given, (name, "__type__", "relative"), "schedule.")
            return trigger_of(given[name], zone, now_ms, notes)
    if "every" in given:
        return interval(given, notes)
    if "clocked_time" in given:
        notes.leave(given, ("clocked_time", "__type__"), "schedule.")
        return clocked(given["clocked_time"], zone, now_ms)
    if kind == "crontab" or any(name in CRONTAB for name in given):
        notes.leave(given, (*CRONTAB, "timezone", "__type__"), "schedule.")
        own = str(given.get("timezone") or "")
        return crontab({name: given[name] for name in CRONTAB if name in given}, own or zone, now_ms, notes)
    spans = {name: value for name, value in given.items() if name in _PERIODS_MS or name == "weeks"}
    if spans:
        notes.leave(given, (*spans, "__type__"), "schedule.")
        try:
            return _every(timedelta(**{name: float(value) for name, value in spans.items()}).total_seconds(), notes)
        except (TypeError, ValueError, OverflowError):
            raise Unmapped("its schedule is no period") from None
    raise Unmapped(f"its schedule {str(dict(given))[:80]} is neither a period nor a crontab")


def interval(given: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """`every` and `period`, as django-celery-beat has them."""
    notes.leave(given, ("every", "period", "__type__"), "schedule.")
    period = str(given.get("period") or "seconds")
    number = given.get("every")
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 10**12:
        raise Unmapped(f"its interval {number!r} is no number above zero")
    if period == "microseconds":
        return _every(number / 1_000_000, notes)
    if period not in _PERIODS_MS:
        raise Unmapped(f"its period is {period[:40]!r}; {', '.join(_PERIODS_MS)} are known")
    return _every(number * _PERIODS_MS[period] / 1000, notes)


def clocked(value: Any, zone: str, now_ms: int) -> dict[str, Any]:
    """A time that is due once."""
    at_ms = time_ms(value, zone, "its time")
    if at_ms <= now_ms:
        raise Unmapped(f"it was due once, at {instant(at_ms)}, which is past: here it would run at once")
    return {"at": instant(at_ms)}


def time_ms(value: Any, zone: str, at: str) -> int:
    """UTC milliseconds; a time without zone is of `zone`. Raises Unmapped."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return local_ms(time, zone) if time.tzinfo is None else round(time.timestamp() * 1000)
    except (ValueError, OverflowError, TriggerError):
        raise Unmapped(f"{at} {str(value)[:40]!r} is no time such as 2027-01-31T09:00:00Z") from None


def crontab(given: Mapping[str, Any], zone: str, now_ms: int, notes: Notes) -> dict[str, Any]:
    """All fields have to match, the day of the month and the weekday among them. Raises Unmapped."""
    values = {name: _values(given.get(name, "*"), name) for name in CRONTAB}
    fields = WallFields(
        minutes=values["minute"],
        hours=values["hour"],
        days=values["day_of_month"],
        months=values["month_of_year"],
        weekdays=frozenset((day - 1) % 7 for day in values["day_of_week"]),
    )
    return wall_trigger(fields, zone, now_ms, notes)


def _values(given: Any, name: str) -> frozenset[int]:
    low, high = _BOUNDS[name]
    if isinstance(given, list | tuple | set | frozenset):
        return frozenset(value for item in given for value in _values(item, name))
    if isinstance(given, int) and not isinstance(given, bool):
        return frozenset([_checked(given, name)])
    if not isinstance(given, str):
        raise Unmapped(f"its {name} {str(given)[:40]!r} is neither a number, a text nor a list of these")
    found: set[int] = set()
    for item in re.sub(r"\s", "", given).split(","):
        match = _PART.fullmatch(item)
        if match is None or match[4] == "0" or (match[4] and not match[1] and match[3] is None):
            raise Unmapped(f"its {name} {given[:40]!r} cannot be read; write values, a-b, */n or a-b/n")
        step = int(match[4] or 1)
        if match[1]:
            ordered = list(range(low, high + 1))
        else:
            first = _checked(_number(match[2], name), name)
            last = _checked(_number(match[3], name), name) if match[3] else first
            wraps = [*range(first, high + 1), *range(low, last + 1)]
            ordered = wraps if last < first else list(range(first, last + 1))
        found |= set(ordered[::step])
    return frozenset(found)


def _number(text: str, name: str) -> int:
    if text.isdigit():
        return int(text)
    if name == "day_of_week" and text[:3].lower() in _DAYS:
        return _DAYS.index(text[:3].lower())
    raise Unmapped(f"its {name} has {text[:40]!r}, which is no value of it")


def _checked(value: int, name: str) -> int:
    low, high = _BOUNDS[name]
    if not low <= value <= high:
        raise Unmapped(f"its {name} has {value}; allowed are {low} to {high}")
    return value
