"""The text of a recurrence rule (RFC 5545, section 3.3.10) -> Rule, with what is wrong in it and what would be right.

What the standard forbids is refused rather than given a meaning; so is what no two libraries read alike (BYWEEKNO
without BYDAY) and what a scheduler cannot have (a leap second).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import IntEnum
from functools import lru_cache

from raftsched.schedule.errors import RULE_POINTER, TriggerError, shown

RULE_MAX = 512  # characters
INTERVAL_MAX = 1_000_000
COUNT_MAX = 1_000_000_000
TIMES_MAX = 1_440  # of one day, or of one hour
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_PREFIX = "RRULE:"
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_BYDAY = re.compile(rf"([+-]?[0-9]{{1,2}})?({'|'.join(WEEKDAYS)})", re.ASCII)
_UNTIL = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z?))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = "write one like FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0"


class Freq(IntEnum):
    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5
    SECONDLY = 6


@dataclass(frozen=True, slots=True)
class Rule:
    """Holds a rule as written: what is empty was not given. Monday is 0."""

    freq: Freq
    interval: int
    count: int | None
    until: int | None  # seconds since 1970, inclusive
    until_utc: bool  # `until` is an instant; else what the clocks of the zone show
    week_start: int
    months: frozenset[int]
    month_days: frozenset[int]
    year_days: frozenset[int]
    weeks: frozenset[int]
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]]  # (n, weekday)
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    positions: tuple[int, ...]  # BYSETPOS


@lru_cache(maxsize=2048)
def parse_rule(text: str) -> Rule:
    """Raises:
    TriggerError: what is wrong with the text and what would be right.
    """
    parts = _parts(text)
    freq = _freq(parts.pop("FREQ", None))
    until, until_utc = _until(parts.pop("UNTIL", None))
    count = _single(parts, "COUNT", 1, COUNT_MAX)
    if count is not None and until is not None:
        raise _wrong("has COUNT and UNTIL; give one of them")
    weekdays, nth = _days(parts.pop("BYDAY", None))
    week_start = parts.pop("WKST", "MO")
    if week_start not in WEEKDAYS:
        raise _wrong(f"WKST={shown(week_start)} is not a day; use one of {', '.join(WEEKDAYS)}")
    rule = Rule(
        freq=freq,
        interval=_single(parts, "INTERVAL", 1, INTERVAL_MAX) or 1,
        count=count,
        until=until,
        until_utc=until_utc,
        week_start=WEEKDAYS.index(week_start),
        months=frozenset(_numbers(parts, "BYMONTH", 1, 12)),
        month_days=frozenset(_numbers(parts, "BYMONTHDAY", 1, 31, signed=True)),
        year_days=frozenset(_numbers(parts, "BYYEARDAY", 1, 366, signed=True)),
        weeks=frozenset(_numbers(parts, "BYWEEKNO", 1, 53, signed=True)),
        weekdays=weekdays,
        nth=nth,
        hours=_numbers(parts, "BYHOUR", 0, 23),
        minutes=_numbers(parts, "BYMINUTE", 0, 59),
        seconds=_numbers(parts, "BYSECOND", 0, 59),
        positions=_numbers(parts, "BYSETPOS", 1, 366, signed=True),
    )
    _check(rule)
    return rule


def _wrong(detail: str) -> TriggerError:
    return TriggerError(RULE_POINTER, detail)


def _parts(text: str) -> dict[str, str]:
    if len(text) > RULE_MAX:
        raise _wrong(f"the rule has {len(text)} characters; at most {RULE_MAX} are allowed")
    rest = text.strip().upper()
    if not rest:
        raise _wrong(f"the rule is empty; {_EXAMPLE}")
    if not rest.isascii():
        raise _wrong(f"{shown(text)} has characters that no rule has; use plain ASCII only")
    if rest.startswith(("DTSTART", "EXDATE", "RDATE", "EXRULE")) or "\n" in rest:
        raise _wrong(
            f"{shown(text)} is more than a rule: give DTSTART as starts_at and timezone, excluded dates as a calendar,"
            " and the RRULE alone here"
        )
    found: dict[str, str] = {}
    for part in rest.removeprefix(_PREFIX).rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise _wrong(f"{shown(part)} is not NAME=VALUE; {_EXAMPLE}")
        if name in ("RSCALE", "SKIP"):
            raise _wrong(f"{name} (RFC 7529) is not supported; the calendar is the Gregorian one")
        if name not in _KNOWN:
            raise _wrong(f"{shown(name)} is not a part of a rule; known are {', '.join(_KNOWN)}")
        if name in found:
            raise _wrong(f"{name} is given twice; give it once, its values separated by commas")
        found[name] = value
    return found


_KNOWN = (
    "FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYDAY", "BYHOUR",
    "BYMINUTE", "BYSECOND", "BYSETPOS",
)  # fmt: skip


def _freq(text: str | None) -> Freq:
    names = ", ".join(freq.name for freq in Freq)
    if text is None:
        raise _wrong(f"FREQ is missing; begin with FREQ= and one of {names}")
    try:
        return Freq[text]
    except KeyError:
        raise _wrong(f"FREQ={shown(text)} is none; use one of {names}") from None


def _single(parts: dict[str, str], name: str, least: int, most: int) -> int | None:
    text = parts.pop(name, None)
    if text is None:
        return None
    if not (text.isdigit() and len(text) <= 10 and least <= int(text) <= most):
        raise _wrong(f"{name}={shown(text)} is out of range; use a number from {least:,} to {most:,}")
    return int(text)


def _numbers(parts: dict[str, str], name: str, least: int, most: int, *, signed: bool = False) -> tuple[int, ...]:
    """Sorted, each once."""
    text = parts.pop(name, None)
    if text is None:
        return ()
    found = set()
    for item in text.split(","):
        number = int(item) if _NUMBER.fullmatch(item) else None
        if number is None or not least <= (abs(number) if signed else number) <= most:
            back = f" or -{most} to -{least}" if signed else ""
            leap = " (there are no leap seconds here)" if name == "BYSECOND" and item == "60" else ""
            raise _wrong(f"{name}={shown(item)} is out of range; use {least} to {most}{back}{leap}")
        found.add(number)
    return tuple(sorted(found))


def _days(text: str | None) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    plain, nth = set(), set()
    for item in () if text is None else text.split(","):
        match = _BYDAY.fullmatch(item)
        number = 0 if match is None or match[1] is None else int(match[1])
        if match is None or (match[1] is not None and not 1 <= abs(number) <= 53):
            raise _wrong(f"BYDAY={shown(item)} is not a day; use one like FR, 2MO (the second) or -1FR (the last)")
        weekday = WEEKDAYS.index(match[2])
        if number:
            nth.add((number, weekday))
        else:
            plain.add(weekday)
    return frozenset(plain), frozenset(nth)


def _until(text: str | None) -> tuple[int | None, bool]:
    """A date means up to the end of that day."""
    if text is None:
        return None, False
    match = _UNTIL.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        year, month, day = int(match[1]), int(match[2]), int(match[3])
        if match[4] is None:
            return (date(year, month, day).toordinal() - date(1970, 1, 1).toordinal() + 1) * 86_400 - 1, False
        at = datetime(year, month, day, int(match[4]), int(match[5]), int(match[6]), tzinfo=UTC)
    except ValueError:
        raise _wrong(
            f"UNTIL={shown(text)} is not a time; write 20301231T235959Z (UTC), 20301231T235959 (in the trigger's zone)"
            " or 20301231 (that day too)"
        ) from None
    return (at - _EPOCH) // (at.resolution * 1_000_000), bool(match[7])


def _check(rule: Rule) -> None:
    """Checks which parts may stand together, by section 3.3.10."""
    freq = rule.freq
    if rule.nth and freq > Freq.MONTHLY:
        raise _wrong(f"BYDAY with a number has no meaning with FREQ={freq.name}; it goes with MONTHLY and YEARLY")
    if rule.nth and rule.weeks:
        raise _wrong("BYDAY with a number has no meaning beside BYWEEKNO; leave the number out")
    if rule.nth and (freq is Freq.MONTHLY or rule.months) and max(abs(n) for n, _ in rule.nth) > 5:
        raise _wrong("a month has at most five of each weekday; use BYDAY with 1 to 5 or -5 to -1")
    if rule.weeks and freq is not Freq.YEARLY:
        raise _wrong(f"BYWEEKNO has no meaning with FREQ={freq.name}; it goes with YEARLY")
    if rule.weeks and not rule.weekdays:
        raise _wrong("BYWEEKNO names weeks; say with BYDAY which days of them")
    if rule.year_days and freq in (Freq.MONTHLY, Freq.WEEKLY, Freq.DAILY):
        raise _wrong(f"BYYEARDAY has no meaning with FREQ={freq.name}; use YEARLY")
    if rule.month_days and freq is Freq.WEEKLY:
        raise _wrong("BYMONTHDAY has no meaning with FREQ=WEEKLY; use MONTHLY, or DAILY with BYDAY")
    if rule.positions and not _has_by(rule):
        raise _wrong("BYSETPOS chooses among what other parts list; give one of them, such as BYDAY")
    if freq <= Freq.HOURLY:
        hours = len(rule.hours) or 1 if freq <= Freq.DAILY else 1
        times = hours * (len(rule.minutes) or 1) * (len(rule.seconds) or 1)
        if times > TIMES_MAX:
            raise _wrong(
                f"lists {times:,} times in each day or hour; at most {TIMES_MAX:,}: use FREQ=MINUTELY or SECONDLY"
            )


def _has_by(rule: Rule) -> bool:
    lists = (rule.months, rule.month_days, rule.year_days, rule.weeks, rule.weekdays, rule.nth)
    return any(lists) or bool(rule.hours or rule.minutes or rule.seconds)
