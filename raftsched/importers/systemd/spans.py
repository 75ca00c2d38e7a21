"""Lengths of time as systemd.time(7) has them: `5min 20s`, `1h`, a plain number of seconds."""

from __future__ import annotations

import re
from fractions import Fraction

from raftsched.bounds import DURATION_MAX_MS
from raftsched.importers.foreign import Unmapped

_PART = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-zµμ]*)", re.ASCII)
_SECOND = Fraction(1000)
_UNITS: dict[str, Fraction] = {}  # milliseconds
for _names, _length in (
    ("usec us µs μs", Fraction(1, 1000)), ("msec ms", Fraction(1)),
    ("seconds second sec s", _SECOND), ("minutes minute min m", 60 * _SECOND),
    ("hours hour hr h", 3600 * _SECOND), ("days day d", 86_400 * _SECOND), ("weeks week w", 604_800 * _SECOND),
    ("months month M", 2_629_800 * _SECOND), ("years year y", 31_557_600 * _SECOND),
):  # fmt: skip
    _UNITS.update(dict.fromkeys(_names.split(), _length))


def span_ms(text: str, at: str) -> int | None:
    """Milliseconds, rounded up; None: for ever (`infinity`). Raises Unmapped."""
    text = text.strip()
    if text == "infinity":
        return None
    total = Fraction(0)
    end = 0
    while end < len(text):
        part = _PART.match(text, end)
        unit = _UNITS.get(part[2] or "s") if part else None
        if part is None or unit is None:
            raise Unmapped(f"{at}={text[:40]!r} is no length of time such as 5min 20s")
        total += Fraction(part[1]) * unit
        end = part.end()
    if not text or total > DURATION_MAX_MS:
        raise Unmapped(f"{at}={text[:40]!r} is no length of time up to a hundred years")
    return -int(-total // 1)
