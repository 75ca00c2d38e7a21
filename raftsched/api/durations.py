"""Points in time, between their text form and integer milliseconds, without rounding surprises.

RFC 3339 with an offset, from 1970 up to the year 9999. Durations are those of `quantities`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from raftsched.quantities import DURATION_MAX_MS, format_duration, parse_duration

__all__ = [
    "DURATION_MAX_MS",
    "TIME_MAX_MS",
    "format_duration",
    "format_time",
    "format_time_or_none",
    "parse_duration",
    "parse_time",
]

TIME_MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_TIME_HELP = 'write RFC 3339 with an offset, such as "2030-01-31T02:00:00Z" or "2030-01-31T02:00:00+02:00"'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
