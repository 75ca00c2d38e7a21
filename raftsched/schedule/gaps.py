"""The least time between two times of a trigger, as far as it can be told without a search. A jitter ends before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raftsched.bounds import DAY_MS
from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.expression import compiled, fields_of
from raftsched.schedule.fields import parse_field

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
_SHORTEST_DAY_MS = DAY_MS - HOUR_MS  # clocks go forward
_FREQUENCIES = {"SECONDLY": SECOND_MS, "MINUTELY": MINUTE_MS, "HOURLY": HOUR_MS}
_CYCLES = {"day-of-month": 28, "weekday": 7}  # days after which a value comes again at the earliest
_EXPANDS = (("BYHOUR", HOUR_MS), ("BYMINUTE", MINUTE_MS), ("BYSECOND", SECOND_MS))


def least_gap_ms(trigger: Trigger) -> int | None:
    """Returns a time that two times of the trigger are apart at least, its calendar aside; None: it has no two, or the
    next one depends on the end of a run.

    Raises:
        TriggerError: the cron expression is not valid.
    """
    match trigger.kind:
        case TriggerKind.EVERY if trigger.mode is EveryMode.FIXED_RATE:
            return trigger.period_ms
        case TriggerKind.CRON:
            return _of_cron(trigger)
        case TriggerKind.RRULE:
            return _of_rule(trigger.expr)
    return None


def least_gap_of(given: Mapping[str, Any]) -> int | None:
    """Returns the same of a `cron` or `rrule` trigger that is written as the API takes it; None: it is another, or not
    valid, which is said elsewhere."""
    try:
        if "cron" in given:
            return _of_cron(Trigger(kind=TriggerKind.CRON, expr=given["cron"], dialect=given.get("dialect", "")))
    except TriggerError:
        return None
    return _of_rule(given["rrule"]) if "rrule" in given else None


def _of_cron(trigger: Trigger) -> int:
    times = compiled(trigger.expr, trigger.dialect).times
    for values, cycle, unit_ms in ((times.seconds, 60, SECOND_MS), (times.minutes, 60, MINUTE_MS)):
        if len(values) > 1:
            return _least(values, cycle) * unit_ms
    return _least(times.hours, 24) * HOUR_MS if len(times.hours) > 1 else _of_days(trigger)


def _of_days(trigger: Trigger) -> int:
    """Returns the same of one time a day: where days are numbered in one of the two fields, by these."""
    named = [(kind, text) for kind, text in fields_of(trigger.expr, trigger.dialect) if kind.name in _CYCLES]
    restricted = [(kind.name, found) for kind, text in named if not (found := parse_field(kind, text, 0)).star]
    if len(restricted) != 1:
        return _SHORTEST_DAY_MS
    name, days = restricted[0]
    if not days.values or days.from_end or days.near or days.near_end or days.nth or days.last:
        return _SHORTEST_DAY_MS
    return _least(sorted(days.values), _CYCLES[name]) * DAY_MS - HOUR_MS


def _least(values: Sequence[int], cycle: int) -> int:
    """Returns the least distance from a value to the next, from the last to the first of the next round too."""
    return min(after - before for before, after in zip(values, [*values[1:], values[0] + cycle], strict=True))


def _of_rule(text: str) -> int:
    parts = dict(part.partition("=")[::2] for part in text.upper().strip().split(";"))
    frequency, interval = parts.get("FREQ", ""), parts.get("INTERVAL", "1")
    least = _FREQUENCIES.get(frequency, _SHORTEST_DAY_MS)
    if least < _SHORTEST_DAY_MS and interval.isdecimal():
        least *= int(interval)
    elif frequency == "WEEKLY" and "," not in parts.get("BYDAY", ""):
        least = 7 * DAY_MS - HOUR_MS
    elif frequency == "MONTHLY" and "BYDAY" not in parts and "," not in parts.get("BYMONTHDAY", ""):
        least = 28 * DAY_MS - HOUR_MS
    expanded = [unit_ms for name, unit_ms in _EXPANDS if "," in parts.get(name, "")]
    return min([least, *expanded])
