"""Describes a recurrence rule in plain words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from raftsched.core.model import Trigger
from raftsched.schedule.rule_text import Freq, Rule, parse_rule
from raftsched.schedule.words import MONTHS, ORDINALS, WEEKDAYS, listed, spans
from raftsched.schedule.zones import zone

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_TIMES_MAX = 6  # more times of day than this are not listed one by one


def describe_rule(trigger: Trigger, anchor_ms: int | None = None) -> str:
    """The rule alone: how often, on which days, at which times, and how long.

    Raises:
        TriggerError: the rule is not valid.
    """
    rule = _filled(trigger, anchor_ms)
    unit = _UNITS[rule.freq]
    parts = [f"every {unit}" if rule.interval == 1 else f"every {rule.interval} {unit}s"]
    parts += _days(rule)
    if rule.months:
        parts.append("in " + spans(sorted(rule.months), lambda month: MONTHS[month - 1]))
    parts += _times(rule)
    text = " ".join(parts)
    if rule.positions:
        text += f", only {_positions(rule.positions)} of these in each {unit}"
    left_open = _left_open(rule)
    if left_open:
        text += f", {left_open} of its creation"
    if rule.count is not None:
        text += f", {rule.count} time{'s' if rule.count != 1 else ''} in all"
    if rule.until is not None:
        shown = datetime.fromtimestamp(rule.until, UTC).strftime("%Y-%m-%d %H:%M:%S")
        text += f", until {shown}{' UTC' if rule.until_utc else ''}"
    return text


def _filled(trigger: Trigger, anchor_ms: int | None) -> Rule:
    """Returns the rule with what it leaves open, as far as that is known."""
    rule = parse_rule(trigger.expr)
    hours, minutes, seconds = rule.hours, rule.minutes, rule.seconds
    start_ms = trigger.starts_at_ms
    if start_ms is None:
        if hours and rule.freq <= Freq.HOURLY and not seconds:
            minutes = minutes or (0,)
        if minutes and rule.freq <= Freq.MINUTELY:
            seconds = seconds or (0,)
        start_ms = anchor_ms
    if start_ms is None:
        return replace(rule, minutes=minutes, seconds=seconds)
    start = start_ms // 1000
    begin = datetime.fromtimestamp(start + zone(trigger.timezone).offset(start), UTC)
    if rule.freq <= Freq.DAILY:
        hours = hours or (begin.hour,)
    if rule.freq <= Freq.HOURLY:
        minutes = minutes or (begin.minute,)
    if rule.freq <= Freq.MINUTELY:
        seconds = seconds or (begin.second,)
    rule = replace(rule, hours=hours, minutes=minutes, seconds=seconds)
    if _says_days(rule):
        return rule
    if rule.freq is Freq.WEEKLY:
        return replace(rule, weekdays=frozenset({begin.weekday()}))
    if rule.freq <= Freq.MONTHLY:
        rule = replace(rule, month_days=frozenset({begin.day}))
    if rule.freq is Freq.YEARLY and not rule.months:
        rule = replace(rule, months=frozenset({begin.month}))
    return rule


def _says_days(rule: Rule) -> bool:
    return bool(rule.month_days or rule.year_days or rule.weeks or rule.weekdays or rule.nth)


def _days(rule: Rule) -> list[str]:
    parts = []
    if rule.weekdays or rule.nth:
        days = [spans(sorted(rule.weekdays), _weekday)] if rule.weekdays else []
        days += [f"the {_ordinal(n)} {_weekday(day)}" for n, day in sorted(rule.nth, key=_order)]
        parts.append(f"on {listed(days)}")
    if rule.month_days:
        front = sorted(day for day in rule.month_days if day > 0)
        back = sorted((day for day in rule.month_days if day < 0), reverse=True)
        days = [f"day{'s' if len(front) > 1 else ''} {spans(front, str)}"] if front else []
        days += ["the last day" if day == -1 else f"the last day but {-day - 1}" for day in back]
        parts.append(f"on {listed(days)}{'' if rule.freq is Freq.MONTHLY else ' of the month'}")
    if rule.year_days:
        numbers = sorted(rule.year_days)
        parts.append(f"on day{'s' if len(numbers) > 1 else ''} {spans(numbers, str)} of the year")
    if rule.weeks:
        numbers = sorted(rule.weeks)
        parts.append(f"in week{'s' if len(numbers) > 1 else ''} {spans(numbers, str)}")
    return parts


def _order(nth: tuple[int, int]) -> tuple[bool, int, int]:
    n, day = nth
    return n < 0, abs(n), day


def _weekday(day: int) -> str:
    return WEEKDAYS[(day + 1) % 7]


def _ordinal(n: int) -> str:
    number = abs(n)
    if n < 0:
        return "last" if number == 1 else f"{_ordinal(number)} last"
    if number <= len(ORDINALS):
        return ORDINALS[number - 1]
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _times(rule: Rule) -> list[str]:
    if rule.freq <= Freq.DAILY and 0 < len(rule.hours) * len(rule.minutes) * len(rule.seconds) <= _TIMES_MAX:
        return ["at " + listed([_clock(h, m, s) for h in rule.hours for m in rule.minutes for s in rule.seconds])]
    parts = []
    if rule.seconds and (rule.seconds != (0,) or rule.freq is Freq.SECONDLY):
        parts.append(f"at second{'s' if len(rule.seconds) > 1 else ''} {spans(rule.seconds, str)}")
    if rule.minutes:
        parts.append(f"at minute{'s' if len(rule.minutes) > 1 else ''} {spans(rule.minutes, str)}")
    if rule.hours:
        if rule.freq <= Freq.DAILY:
            parts.append("of " + spans(rule.hours, lambda hour: f"{hour:02}:00"))
        else:
            parts.append("during " + spans(rule.hours, lambda hour: _hours(hour, hour), merged=_hours))
    return parts


def _hours(first: int, last: int) -> str:
    return f"{first:02}:00-{last:02}:59"


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def _positions(positions: tuple[int, ...]) -> str:
    ordered = sorted(positions, key=lambda n: (n < 0, abs(n)))
    return "the " + listed([_ordinal(n) for n in ordered])


def _left_open(rule: Rule) -> str:
    """Returns in words what the rule takes from its start."""
    found = []
    if not _says_days(rule):
        if rule.freq is Freq.YEARLY:
            found.append("day" if rule.months else "date")
        elif rule.freq in (Freq.MONTHLY, Freq.WEEKLY):
            found.append("day" if rule.freq is Freq.MONTHLY else "weekday")
    if rule.freq <= Freq.DAILY and not rule.hours:
        found.append("time of day" if not rule.minutes else "hour")
    elif rule.freq <= Freq.HOURLY and not rule.minutes:
        found.append("minute")
    elif rule.freq <= Freq.MINUTELY and not rule.seconds:
        found.append("second")
    return f"with the {listed(found)}" if found else ""
