"""Durations and sizes, between their text forms and whole milliseconds and bytes, without rounding surprises.

Durations: `30s`, `5m`, `1h30m`, `1d`, `250ms`, `1.5h`, or ISO 8601 (`PT5M`, `P1DT12H`, `P2W`). ISO years and months are
refused, for they have no fixed length. Sizes: bytes, or with a unit, `64MiB` (2^20) as well as `64MB` (10^6).
"""

from __future__ import annotations

import re
from functools import lru_cache

from raftsched.bounds import DURATION_MAX_MS, OutOfRange

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
_DURATION_HELP = 'write 30s, 5m, 1h30m or 1d, or ISO 8601 such as "PT5M"'
_SIZE = re.compile(r"([0-9]{1,15})\s*(|[KMGT]i?B|B)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS.update({"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40})


@lru_cache(maxsize=4096)
def parse_duration(text: str) -> int:
    """Returns milliseconds, 0 up to 100 years. Raises ValueError with what is wrong and what would be right."""
    if len(text) > 64:
        raise ValueError(f"is too long for a duration; {_DURATION_HELP}")
    if text.startswith("-"):
        raise ValueError(f"is negative; a duration cannot be: {_DURATION_HELP}")
    from fractions import Fraction  # not for the command line, which reads sizes only and starts fast

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
        raise OutOfRange("is longer than 100 years; that is the limit")
    return int(total)


@lru_cache(maxsize=4096)
def format_duration(ms: int) -> str:
    """Returns the shortest exact form in days, hours, minutes, seconds and milliseconds: 90000 is `1m30s`."""
    parts = []
    rest = ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def is_duration(field: str) -> bool:
    """Returns whether a field of a row holds milliseconds; its public value is a text then."""
    return field.endswith("_ms")


def public_name(field: str) -> str:
    """Returns the name that the API has for a field of a row: output_keep_ms is `output_keep`."""
    return field.removesuffix("_ms")


def public_value(field: str, value: int) -> int | str:
    """Returns the value of a field of a row as the API shows it."""
    return format_duration(value) if is_duration(field) else value


def parse_size(text: str) -> int:
    """Returns bytes. Raises ValueError with what is wrong and what would be right."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("is not a size; write bytes or a unit, such as 64MiB or 1GiB")
    return int(match[1]) * _UNITS[match[2].lower()]


def size_text(size: float) -> str:
    """Returns a size in units of 1000, such as 12.3 MB."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{size:.0f} {units[0]}" if units[0] == "bytes" else f"{size:.1f} {units[0]}"


def duration_text(ms: float) -> str:
    """Returns a duration as people say it, in two units at most, such as 350 ms, 2.4 s, 1 min 7 s or 3 d 4 h."""
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for unit, size, part, least in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // least
            return f"{seconds // size} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{seconds} s"
