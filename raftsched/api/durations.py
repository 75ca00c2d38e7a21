"""Durations and points in time, between their text forms and integer milliseconds, without rounding surprises.

Durations: `30s`, `5m`, `1h30m`, `1d`, `250ms`, `1.5h`, or ISO 8601 (`PT5M`, `P1DT12H`, `P2W`). ISO years and months are
refused, for they have no fixed length. Points in time: RFC 3339 with an offset, from 1970 up to the year 9999.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache

DURATION_MAX_MS = 36_525 * 86_400_000  # 100 years
TIME_MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

_UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_NUMBER = r"[0-9]{1,15}(?:[.,][0-9]{1,9})?"
_SHORT = re.compile(rf"(?:{_NUMBER}(?:ms|[wdhms]))+", re.ASCII)
_PART = re.compile(rf"({_NUMBER})(ms|[wdhms])", re.ASCII)
_ISO = re.compile(
    rf"P(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?",
    re.ASCII,
)
_VARYING = re.compile(rf"P(?:{_NUMBER}[YMWD])*{_NUMBER}[YM](?:{_NUMBER}[YMWD])*(?:T[0-9HMS.,]*)?", re.ASCII)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_DURATION_HELP = 'write 30s, 5m, 1h30m or 1d, or ISO 8601 such as "PT5M"'
_TIME_HELP = 'write RFC 3339 with an offset, such as "2030-01-31T02:00:00Z" or "2030-01-31T02:00:00+02:00"'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def parse_duration(text: str) -> int:
    """Milliseconds, 0 up to 100 years. ValueError says what is wrong and what would be right."""
    if len(text) > 64:
        raise ValueError(f"is too long for a duration; {_DURATION_HELP}")
    if text.startswith("-"):
        raise ValueError(f"is negative; a duration cannot be: {_DURATION_HELP}")
    total = Fraction(0)
    if _SHORT.fullmatch(text):
        seen: list[str] = []
        for number, unit in _PART.findall(text):
            if unit in seen:
                raise ValueError(f'is "{text}", which has the unit {unit} twice; {_DURATION_HELP}')
            seen.append(unit)
            total += Fraction(number.replace(",", ".")) * _UNIT_MS[unit]
    else:
        match = _ISO.fullmatch(text)
        if match is None or text.endswith(("P", "T")):
            if _VARYING.fullmatch(text):
                raise ValueError(f"has years or months, whose length varies; {_DURATION_HELP}")
            raise ValueError(f"is not a duration; {_DURATION_HELP}")
        for unit, number in match.groupdict().items():
            if number is not None:
                total += Fraction(number.replace(",", ".")) * _UNIT_MS[unit]
    if total.denominator != 1:
        raise ValueError("is finer than a millisecond; use whole milliseconds")
    if total > DURATION_MAX_MS:
        raise ValueError("is longer than 100 years; that is the limit")
    return int(total)


def format_duration(ms: int) -> str:
    """The shortest exact form in days, hours, minutes, seconds and milliseconds: 90000 is `1m30s`."""
    parts = []
    rest = ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_time(text: str) -> int:
    """Milliseconds since the epoch; finer digits are cut off. ValueError says what is wrong and what would be right."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"is not a point in time; {_TIME_HELP}")
    year, month, day, hour, minute, second, fraction, _, sign, off_hour, off_minute = match.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"is no date and time of the calendar ({error}); {_TIME_HELP}") from None
    at_ms = (moment - _EPOCH) // timedelta(seconds=1) * 1000
    if fraction:
        at_ms += int(fraction.ljust(9, "0")[:3])
    if sign:
        if int(off_hour) > 23 or int(off_minute) > 59:
            raise ValueError(f"has an offset beyond 23:59; {_TIME_HELP}")
        offset_ms = (int(off_hour) * 60 + int(off_minute)) * 60_000
        at_ms += -offset_ms if sign == "+" else offset_ms
    if not 0 <= at_ms <= TIME_MAX_MS:
        raise ValueError("is out of range; times go from 1970 to the year 9999")
    return at_ms


@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).strftime("%Y-%m-%d")


def format_time(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds: `2030-01-31T02:00:00.000Z`.

    What lies beyond the year 9999 is shown as its end."""
    days, of_day = divmod(min(at_ms, TIME_MAX_MS), 86_400_000)
    minutes, of_minute = divmod(of_day, 60_000)
    return f"{_day(days)}T{minutes // 60:02d}:{minutes % 60:02d}:{of_minute // 1000:02d}.{of_minute % 1000:03d}Z"


def format_time_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_time(at_ms)
