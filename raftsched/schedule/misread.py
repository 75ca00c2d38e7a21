"""Why a text is no value of a field of cron, where it is known what was meant."""

from __future__ import annotations

import re

from raftsched.schedule.words import MONTHS, WEEKDAYS

_DAYS = ("day-of-month", "weekday")
_NUMBER = re.compile(r"[0-9]{1,2}", re.ASCII)


def why_no_value(field: str, text: str) -> str | None:
    """Returns what is wrong with an upper-case text, and what would be right; None: all that is known is that it is no
    value."""
    if not text:
        return "a value is missing"
    names = {"month": MONTHS, "weekday": WEEKDAYS}.get(field, ())
    if len(text) > 3 and any(name.upper().startswith(text) for name in names):
        return f"names have three letters; write {text[:3]}"
    if field not in _DAYS:
        found = re.fullmatch(r"[0-9]*([LW#])[0-9]*", text, re.ASCII)
        return None if found is None else f"{found[1]} has a meaning in the two day fields only"
    if text.startswith("+"):
        return "a day that both fields have to match is not said by +; use a recurrence rule (rrule)"
    return _of_day(text) if field == "day-of-month" else _of_weekday(text)


def _of_day(text: str) -> str | None:
    number = _NUMBER.search(text)
    if "#" in text:
        return "# belongs to the weekday field, like MON#2"
    if number and text == f"W{number[0]}":
        return f"W follows the day; write {number[0]}W"
    if number and text == f"{number[0]}L":
        return "L stands alone here, or as L-3 or LW; 5L, the last Friday, belongs to the weekday field"
    if number and text == f"L{number[0]}":
        return f"days before the last are counted with a dash; write L-{number[0]}"
    if text == "LW":
        return "LW is no end of a range; L-3W is the working day nearest to the third day before the last"
    if "W" in text:
        return "W goes with one day, like 15W or LW, and is no end of a range"
    return "L is no end of a range; write 29-31, or a list like 15-20,L" if "L" in text else None


def _of_weekday(text: str) -> str | None:
    if text in ("W", "LW") or re.fullmatch(r"[0-9]W", text, re.ASCII):
        return "W belongs to the day-of-month field, like 15W"
    if re.fullmatch(r"L|\w+L", text, re.ASCII):
        return "L is no end of a range; write one weekday with it, like FRIL"
    return None
