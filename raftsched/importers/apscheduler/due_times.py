"""Makes triggers of those of APScheduler: date, interval, cron, calendarinterval, and those that combine others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from functools import reduce
from typing import Any

from raftsched.bounds import DURATION_MAX_MS, TRIGGERS_MAX
from raftsched.importers.apscheduler.cron import FIELDS, Never, both, cron_triggers, read_cron
from raftsched.importers.foreign import Notes, Unmapped, every, instant
from raftsched.quantities import format_duration, parse_duration
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.local_days import local_ms
from raftsched.schedule.rule_text import parse_rule
from raftsched.schedule.zones import fixed_offset, is_zone

_SPAN = ("type", "start_date", "end_date", "timezone", "jitter")
_UNITS = ("years", "months", "weeks", "days")
_CLOCK = ("hour", "minute", "second")


def triggers_of(given: Any, zone: str, now_ms: int, notes: Notes) -> list[dict[str, Any]]:
    """The triggers that together have the times of one of APScheduler. `zone`: where it names none. Raises Unmapped."""
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        raise Unmapped("its trigger is no object with a type")
    kind = given["type"]
    if kind == "or":
        return _or(given, zone, now_ms, notes)
    if kind == "and":
        return _and(given, zone, now_ms, notes)
    if kind == "date":
        notes.leave(given, ("type", "run_date", "timezone"), "trigger.")
        return [{"at": _future(given.get("run_date"), _zone(given, zone), now_ms)}]
    if kind == "interval":
        return [_interval(given, zone, notes)]
    if kind == "calendarinterval":
        return [_calendar_interval(given, zone, notes)]
    if kind == "cron":
        return _cron([given], zone, now_ms, notes)
    raise Unmapped(
        f"its trigger is {kind[:80]}, whose times only its code knows; known are date, interval, cron,"
        " calendarinterval, and, or"
    )


def _or(given: Mapping[str, Any], zone: str, now_ms: int, notes: Notes) -> list[dict[str, Any]]:
    notes.leave(given, ("type", "triggers", "jitter"), "trigger.")
    parts = _parts(given)
    if len(parts) > 1 and any(isinstance(part, Mapping) and part.get("type") == "interval" for part in parts):
        notes.say("its interval counts from each run there, also from those of its other triggers; here from its start")
    found: list[dict[str, Any]] = []
    over: list[str] = []
    for part in parts:
        try:
            found += triggers_of(part, zone, now_ms, notes)
        except Never as never:
            over.append(str(never))
    if not found:
        raise Unmapped(over[0])
    for text in over:
        notes.say(f"one of its triggers is left out: {text}")
    if len(found) > TRIGGERS_MAX:
        raise Unmapped(f"it would have {len(found)} triggers here; at most {TRIGGERS_MAX} are allowed: make two jobs")
    return [one | _jitter(given, one) for one in found]


def _and(given: Mapping[str, Any], zone: str, now_ms: int, notes: Notes) -> list[dict[str, Any]]:
    """All triggers have to agree: of cron triggers in one time zone these are the values that match in each."""
    notes.leave(given, ("type", "triggers", "jitter"), "trigger.")
    parts = _parts(given)
    if len(parts) == 1:
        return [one | _jitter(given, one) for one in triggers_of(parts[0], zone, now_ms, notes)]
    crons: list[Mapping[str, Any]] = [
        part for part in parts if isinstance(part, Mapping) and part.get("type") == "cron"
    ]
    if len(crons) < len(parts):
        raise Unmapped("it is due when several triggers agree, and not all of them are cron; write it as one of cron")
    if any(part.get("jitter") for part in crons):
        raise Unmapped("it is due when several triggers agree, and one of them has a jitter: they hardly ever do")
    if len({_zone(part, zone) for part in crons}) > 1:
        raise Unmapped("it is due when several triggers agree, and they are of different time zones; write it as one")
    return [one | _jitter(given, one) for one in _cron(crons, zone, now_ms, notes)]


def _cron(given: list[Mapping[str, Any]], zone: str, now_ms: int, notes: Notes) -> list[dict[str, Any]]:
    """The times that all of these cron triggers have. They are of one time zone."""
    zone = _zone(given[0], zone)
    read = []
    for part in given:
        notes.leave(part, (*_SPAN, "fields"), "trigger.")
        fields = part.get("fields")
        if not isinstance(fields, Mapping):
            raise Unmapped("its cron trigger has no fields")
        notes.leave(fields, FIELDS, "trigger.fields.")
        read.append(read_cron(fields))
    found = cron_triggers(reduce(both, read), zone, now_ms, notes)
    starts = [_ms(part["start_date"], zone, "start_date") for part in given if part.get("start_date")]
    ends = [_ms(part["end_date"], zone, "end_date") for part in given if part.get("end_date")]
    for trigger in found:
        _bound(trigger, max(starts, default=None), min(ends, default=None), now_ms, notes)
        trigger.update(_jitter(given[0], trigger))
    return found


def _interval(given: Mapping[str, Any], zone: str, notes: Notes) -> dict[str, Any]:
    notes.leave(given, (*_SPAN, "seconds"), "trigger.")
    seconds = given.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= DURATION_MAX_MS / 1000:
        raise Unmapped(f"its interval is {str(seconds)[:40]} seconds; use more than zero, up to a hundred years")
    found: dict[str, Any] = {"every": every(-int(-seconds * 1000 // 1), notes)}
    zone = _zone(given, zone)
    if given.get("start_date"):
        found["starts_at"] = instant(_ms(given["start_date"], zone, "start_date"))
    else:
        notes.say("its times count from the import, for it says no start")
    if given.get("end_date"):
        found["ends_at"] = instant(_ms(given["end_date"], zone, "end_date"))
    if given.get("jitter"):
        notes.say("its interval counts from the delayed run there, so that times drift; here they stay on their grid")
    return found | _jitter(given, found)


def _calendar_interval(given: Mapping[str, Any], zone: str, notes: Notes) -> dict[str, Any]:
    """Every so many years and months, or weeks and days, at a time of day."""
    notes.leave(given, (*_SPAN, *_UNITS, *_CLOCK), "trigger.")
    years, months, weeks, days = (_whole(given, name) for name in _UNITS)
    months, days = 12 * years + months, 7 * weeks + days
    if (months > 0) == (days > 0):
        raise Unmapped(
            "it counts months and days together; write it as a rule by hand (rrule)" if months else "it has no interval"
        )
    zone = _zone(given, zone)
    hour, minute, second = clock = [_whole(given, name) for name in _CLOCK]
    try:
        first = date.fromisoformat(str(given.get("start_date")))
        start = datetime(first.year, first.month, first.day, hour, minute, second)
        last = None if given.get("end_date") is None else date.fromisoformat(str(given["end_date"]))
        rule = f"FREQ=DAILY;INTERVAL={days}"
        if months:
            rule = f"FREQ=MONTHLY;INTERVAL={months};BYMONTHDAY={first.day}"
        rule += "".join(f";BY{name.upper()}={value}" for name, value in zip(_CLOCK, clock, strict=True))
        parse_rule(rule)
        found = {"rrule": rule, "timezone": zone, "starts_at": instant(local_ms(start, zone))}
        if last is not None:
            found["ends_at"] = instant(local_ms(datetime(last.year, last.month, last.day, 23, 59, 59), zone, last=True))
    except TriggerError as error:
        raise Unmapped(f"its schedule cannot be said here: {error.detail}") from None
    except (ValueError, OverflowError) as error:
        raise Unmapped(f"its dates cannot be read ({error}); write 2027-01-31") from None
    return found | _jitter(given, found)


def _future(value: Any, zone: str, now_ms: int) -> str:
    at_ms = _ms(value, zone, "run_date")
    if at_ms <= now_ms:
        raise Never(f"it was due once, at {instant(at_ms)}, which is past: here it would run at once")
    return instant(at_ms)


def _bound(trigger: dict[str, Any], starts: int | None, ends: int | None, now_ms: int, notes: Notes) -> None:
    """Narrows a trigger to what start_date and end_date say; it may have bounds by its years."""
    if ends is not None and ends <= now_ms:
        raise Never(f"it ended at {instant(ends)}")
    if "at" in trigger:
        at_ms = _ms(trigger["at"], "UTC", "its time")
        if (starts is not None and at_ms < starts) or (ends is not None and at_ms > ends):
            raise Unmapped("its only time is not within start_date and end_date")
        return
    if starts is not None and starts > now_ms:
        before = _ms(trigger["starts_at"], "UTC", "its start") if "starts_at" in trigger else starts
        trigger["starts_at"] = instant(max(starts, before))
    if ends is not None:
        after = _ms(trigger["ends_at"], "UTC", "its end") if "ends_at" in trigger else ends
        trigger["ends_at"] = instant(min(ends, after))


def _jitter(given: Mapping[str, Any], trigger: Mapping[str, Any]) -> dict[str, Any]:
    """The jitter of a trigger, beside one that it has already: a combining trigger's comes on top of its parts'."""
    seconds = given.get("jitter") or 0
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= DURATION_MAX_MS / 1000:
        raise Unmapped(f"its jitter is {str(seconds)[:40]} seconds; use zero or more")
    whole_ms = int(seconds * 1000) + parse_duration(trigger.get("jitter", "0s"))
    return {"jitter": format_duration(whole_ms)} if whole_ms else {}


def _zone(given: Mapping[str, Any], zone: str) -> str:
    """The name of its time zone; of a fixed offset that of a zone that has it."""
    name = given.get("timezone")
    if name is None:
        return zone
    text = str(name)
    if is_zone(text):
        return text
    fixed = fixed_offset(text)
    if fixed is None or fixed.zone is None:
        raise Unmapped(f"its time zone {text[:60]!r} is none of the IANA; give it one such as Europe/Madrid")
    return fixed.zone


def _ms(value: Any, zone: str, at: str) -> int:
    """UTC milliseconds, rounded up as APScheduler does for seconds; a time without zone is of `zone`."""
    try:
        time = datetime.fromisoformat(str(value))
        return local_ms(time, zone) if time.tzinfo is None else -int(-time.timestamp() * 1000 // 1)
    except (ValueError, OverflowError, TriggerError):
        raise Unmapped(f"its {at} {str(value)[:40]!r} is no time such as 2027-01-31T09:00:00+01:00") from None


def _parts(given: Mapping[str, Any]) -> list[Any]:
    parts = given.get("triggers")
    if not isinstance(parts, list) or not parts:
        raise Unmapped("its trigger combines no others")
    return parts


def _whole(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**6:
        raise Unmapped(f"its {name} is {str(value)[:40]!r}, no whole number")
    return value
