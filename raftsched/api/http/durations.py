"""Points in time, between their text form and integer milliseconds, without rounding surprises.

RFC 3339 with an offset, from 1970 up to the year 9999. Durations are those of `quantities`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from raftsched.bounds import TIME_MAX_MS, OutOfRange
from raftsched.quantities import format_duration, parse_duration

__all__ = [
    "format_duration",
    "format_time",
    "format_time_or_none",
    "parse_duration",
    "parse_time",
]


_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_TIME_HELP = 'write RFC 3339 with an offset, such as "2030-01-31T02:00:00Z" or "2030-01-31T02:00:00+02:00"'
_PLAIN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:", re.ASCII)  # as most begin
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_SECOND = [f"{i:02d}." for i in range(60)]
_MILLISECOND = [f"{i:03d}Z" for i in range(1000)]
_SECONDS = {f"{i:02d}": i * 1000 for i in range(60)}
_MILLISECONDS = {"Z": 0, **{f".{i:03d}Z": i for i in range(1000)}}


def parse_time(text: str) -> int:
    """Milliseconds since the epoch; finer digits are cut off. ValueError says what is wrong and what would be right."""
    minute_ms, second_ms, ms = _minute_of(text[:17]), _SECONDS.get(text[17:19]), _MILLISECONDS.get(text[19:])
    if minute_ms is not None and second_ms is not None and ms is not None:
        return minute_ms + second_ms + ms
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
        raise OutOfRange("is out of range; times go from 1970 to the year 9999")
    return at_ms


@lru_cache(maxsize=4_096)
def _minute_of(text: str) -> int | None:
    """`2030-01-31T02:00:` in milliseconds; None: it is written in another way, or is none since 1970."""
    if not _PLAIN.fullmatch(text):
        return None
    try:
        since = datetime.fromisoformat(text[:-1]) - _NAIVE_EPOCH
    except ValueError:
        return None
    return (since.days * 86_400 + since.seconds) * 1000 if since.days >= 0 else None


def format_time(at_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds: `2030-01-31T02:00:00.000Z`.

    What lies beyond the year 9999 is shown as its end."""
    at_ms = at_ms if at_ms < TIME_MAX_MS else TIME_MAX_MS
    seconds = at_ms // 1000
    return _minute(seconds // 60) + _SECOND[seconds % 60] + _MILLISECOND[at_ms % 1000]


@lru_cache(maxsize=4_096)
def _minute(since: int) -> str:
    """Returns the text of a minute since the epoch. Most answers show few different ones."""
    return (_NAIVE_EPOCH + timedelta(minutes=since)).isoformat("T", "minutes") + ":"


def format_time_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_time(at_ms)
