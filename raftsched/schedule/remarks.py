"""Cron expressions that are valid and hardly ever meant: steps that do not come round evenly."""

from __future__ import annotations

from raftsched.schedule import fields
from raftsched.schedule.errors import TriggerError
from raftsched.schedule.expression import fields_of
from raftsched.schedule.fields import Kind, number, parse_field
from raftsched.schedule.words import listed

_PERIODS = {  # field -> what it begins anew with, the unit of its step and that of `every`
    "second": ("minute", "second", "s"), "minute": ("hour", "minute", "m"), "hour": ("day", "hour", "h"),
    "day-of-month": ("month", "day", "d"), "month": ("year", "month", ""), "weekday": ("week", "day", "d"),
}  # fmt: skip


def remarks(expr: str, dialect: str = "") -> list[str]:
    """Returns what is to be said of an expression that can be read: nothing, most often.

    Raises:
        TriggerError: it cannot be read.
    """
    if expr.strip().startswith("@"):
        return []
    return [said for kind, text in fields_of(expr, dialect) if (said := _of_field(kind, text)) is not None]


def _of_field(kind: Kind, text: str) -> str | None:
    base, slash, rest = text.partition("/")
    step = number(rest) if slash else None
    if step is None or kind.name not in _PERIODS:
        return None
    span = 7 if kind.name == "weekday" else kind.span
    try:
        values = sorted(parse_field(kind, text, 0).values)
    except TriggerError:
        return None  # a list, or what the whole expression is refused for
    whole = base == "*" or base.startswith("H")
    if step == span or len(values) > (2 if whole and span % step else 1):
        return None
    return _said(kind, text, step, values, hashed=base.startswith("H"))


def _said(kind: Kind, text: str, step: int, values: list[int], *, hashed: bool) -> str:
    period, unit, short = _PERIODS[kind.name]
    if hashed:
        means = f"it comes {'once' if step > kind.span else 'unevenly'} in each"
    elif kind.name == "weekday":
        means = f"it means {listed([fields.WEEKDAYS[value] for value in values])} of each"
    else:
        means = f"it means {unit}{'s' if len(values) > 1 else ''} {listed([str(value) for value in values])} of each"
    remedy = f'; for every {step} {unit}s say "every": "{step}{short}"' if short else ""
    return f"{text} begins anew with each {period}, so {means}{remedy}"
