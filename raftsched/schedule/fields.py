"""One field of a cron expression: its text to the numbers it stands for.

The grammar is that of crontab(5) (lists, ranges, steps, names) plus what other schedulers added to it: `a/n` (from a to
the field's end), `H` (a value hashed from the job, from Jenkins), and for days `L`, `W`, `#` (from Quartz).

Two readings are this project's own and hold for numbers and names alike:

- A range that ends before it begins wraps around in the fields that are cycles (second, minute, hour, month, weekday):
  `22-4` is 22, 23, 0 .. 4 and `FRI-MON` is Friday to Monday. Days of the month and years are not cycles: refused.
- `n-n` is n, with or without a step.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from raftsched.schedule.errors import TriggerError, shown
from raftsched.schedule.misread import why_no_value

POINTER = "/trigger/cron"
FIRST_YEAR = 1970
LAST_YEAR = 2099

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True)
class Kind:
    """The values and the syntax that one field allows."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # the first one stands for `low`
    cycle: bool = True
    hash_high: int | None = None  # `H` alone stays at or below this, so that it exists in every month

    def wrong(self, text: str, why: str) -> TriggerError:
        return TriggerError(POINTER, f"{self.name} field {shown(text)}: {why}")

    @property
    def span(self) -> int:
        return self.high - self.low + 1


SECOND = Kind("second", 0, 59)
MINUTE = Kind("minute", 0, 59)
HOUR = Kind("hour", 0, 23)
DAY = Kind("day-of-month", 1, 31, cycle=False, hash_high=28)
MONTH = Kind("month", 1, 12, MONTHS)
WEEKDAY = Kind("weekday", 0, 7, WEEKDAYS, hash_high=6)  # 0 and 7 are both Sunday
QUARTZ_WEEKDAY = Kind("weekday", 1, 7, WEEKDAYS)  # 1 is Sunday
YEAR = Kind("year", FIRST_YEAR, LAST_YEAR, cycle=False)


@dataclass
class Parsed:
    """The values of a parsed field. Weekdays count from 0 = Sunday here, whatever the dialect."""

    values: set[int] = field(default_factory=set)
    star: bool = False  # starts with `*`, or is `?`: unrestricted in the sense of the day rule
    hashed: bool = False  # has an `H`
    numeric: bool = False  # has a value written as a number (weekdays: which numbering?)
    from_end: set[int] = field(default_factory=set)  # days of month, back from the last: L is 0, L-3 is 3
    near: set[int] = field(default_factory=set)  # 15W: the weekday (Monday to Friday) nearest to this day
    near_end: set[int] = field(default_factory=set)  # LW is 0, L-3W is 3
    nth: set[tuple[int, int]] = field(default_factory=set)  # (weekday, n): MON#2
    last: set[int] = field(default_factory=set)  # weekdays: 5L


def number(text: str) -> int | None:
    """Plain ASCII digits only: int() would also read other scripts' digits, signs and underscores."""
    return int(text) if len(text) <= 4 and text.isascii() and text.isdigit() else None


def parse_field(kind: Kind, text: str, hash_id: int) -> Parsed:
    """Reads one upper-case field.

    Raises:
        TriggerError: with the field, the text and what is allowed.
    """
    out = Parsed(star=text.startswith("*"))
    if text == "?":
        if kind.name not in ("day-of-month", "weekday"):
            raise kind.wrong(text, "? may stand only for the day of the month or the weekday; write *")
        out.star = True
        out.values = _all(kind)
        return out
    for item in text.split(","):
        if not item:
            raise kind.wrong(text, "a list has an empty item; write values with single commas, like 1,15")
        _item(kind, item, hash_id, out)
    return out


def _all(kind: Kind) -> set[int]:
    return {_place(kind, value) for value in range(kind.low, kind.high + 1)}


def _place(kind: Kind, value: int) -> int:
    """The number a written value stands for inside: weekdays 0..6 from Sunday."""
    if kind is QUARTZ_WEEKDAY:
        return value - 1
    return value % 7 if kind is WEEKDAY else value


def _item(kind: Kind, item: str, hash_id: int, out: Parsed) -> None:
    base, slash, rest = item.partition("/")
    step = 1
    if slash:
        parsed = number(rest)
        if not parsed:
            raise kind.wrong(item, f"the step after / must be a whole number from 1, like */5, not {shown(rest)}")
        step = parsed
    if base.startswith("R") and (len(base) == 1 or base[1] == "("):
        raise kind.wrong(item, "R (random) is not supported: write H, which spreads jobs and stays the same for a job")
    if base.startswith("H") and (len(base) == 1 or base[1] == "("):
        _hashed(kind, item, base, step if slash else None, hash_id, out)
    elif base == "*":
        out.values |= {_place(kind, value) for value in range(kind.low, kind.high + 1, step)}
    elif _special(kind, base, out):
        if slash:
            raise kind.wrong(item, "a step does not go with L, W or #; leave out the /")
    elif "-" in base:
        out.values |= _range(kind, base, step, out)
    else:
        start = _value(kind, base, out)
        stop = kind.high if slash else start
        out.values |= {_place(kind, value) for value in range(start, stop + 1, step)}


def _value(kind: Kind, text: str, out: Parsed) -> int:
    if text in kind.names:
        return kind.names.index(text) + kind.low
    value = number(text)
    if value is None:
        raise kind.wrong(text, why_no_value(kind.name, text) or f"not a value; {_allowed(kind)}")
    if not kind.low <= value <= kind.high:
        raise kind.wrong(text, f"out of range; {_allowed(kind)}")
    out.numeric = True
    return value


def _allowed(kind: Kind) -> str:
    if kind is WEEKDAY:
        return "allowed are 0-7 (0 and 7 are Sunday) and SUN-SAT"
    if kind is QUARTZ_WEEKDAY:
        return "allowed in the quartz dialect are 1-7 (1 is Sunday) and SUN-SAT"
    names = f" and {kind.names[0]}-{kind.names[-1]}" if kind.names else ""
    return f"allowed are {kind.low}-{kind.high}{names}"


def _range(kind: Kind, base: str, step: int, out: Parsed) -> set[int]:
    left, _, right = base.partition("-")
    if not left or not right or "-" in right:
        raise kind.wrong(base, f"a range has two ends, like {kind.low}-{kind.high}; numbers have no sign")
    start, stop = _value(kind, left, out), _value(kind, right, out)
    cycle = 7 if kind is WEEKDAY else kind.span  # that field has Sunday twice
    if start > stop:
        if not kind.cycle:
            raise kind.wrong(
                base,
                f"the range ends before it begins; write two, like {start}-{kind.high},{kind.low}-{stop}",
            )
        stop += cycle
    return {_place(kind, (value - kind.low) % cycle + kind.low) for value in range(start, stop + 1, step)}


def _hashed(kind: Kind, item: str, base: str, step: int | None, hash_id: int, out: Parsed) -> None:
    """`H`, `H/n`, `H(a-b)`, `H(a-b)/n`. A number of the job and the field, the same on every node, forever."""
    if kind is YEAR:
        raise kind.wrong(item, "H has no meaning for years; write the years")
    low, high = kind.low, kind.high if kind.hash_high is None else kind.hash_high
    if len(base) > 1:
        left, dash, right = base[2:-1].partition("-")
        if not base.endswith(")") or not dash:
            raise kind.wrong(item, "H takes a range in parentheses, like H(0-29)")
        low, high = _value(kind, left, out), _value(kind, right, out)
        if low > high:
            raise kind.wrong(item, "the range of H ends before it begins")
    seed = (hash_id % 2**64).to_bytes(8, "big") + kind.name.encode()
    digest = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest(), "big")
    out.hashed = True
    span = high - low + 1
    if step is None:
        out.values.add(_place(kind, low + digest % span))
    else:
        start = low + digest % min(step, span)
        out.values |= {_place(kind, value) for value in range(start, high + 1, step)}


def _special(kind: Kind, base: str, out: Parsed) -> bool:
    """The Quartz forms of the two day fields. False when `base` is none of them."""
    if kind is DAY:
        return _special_day(kind, base, out)
    if kind is WEEKDAY or kind is QUARTZ_WEEKDAY:
        return _special_weekday(kind, base, out)
    return False


def _special_day(kind: Kind, base: str, out: Parsed) -> bool:
    weekday = base.endswith("W")
    body = base[:-1] if weekday else base
    if body == "L" or body.startswith("L-"):
        back = 0 if body == "L" else number(body[2:])
        if back is None or back > 30:
            raise kind.wrong(base, "L-n counts back from the last day, n is 0-30; like L-3")
        (out.near_end if weekday else out.from_end).add(back)
        return True
    if base == "WL":
        out.near_end.add(0)
        return True
    if weekday:
        day = number(body)
        if day is None or not 1 <= day <= 31:
            raise kind.wrong(base, "W follows one day of the month, like 15W, or L, like LW")
        out.near.add(day)
        return True
    return False


def _special_weekday(kind: Kind, base: str, out: Parsed) -> bool:
    if "#" in base:
        left, _, right = base.partition("#")
        nth = number(right)
        if "-" in left:
            raise kind.wrong(base, "# goes with one weekday, not with a range; write a list like MON#1,TUE#1")
        if right == "L":
            raise kind.wrong(base, f"the last one of the month is said without #; write {left}L")
        if nth is None or not 1 <= nth <= 5:
            raise kind.wrong(base, "the number after # says which one in the month, 1-5; like MON#2")
        out.nth.add((_place(kind, _value(kind, left, out)), nth))
        return True
    if base == "L":
        if kind is QUARTZ_WEEKDAY:  # Quartz: alone it is the last day of the week
            out.values.add(6)
            return True
        raise kind.wrong(base, "L needs a weekday here: 5L or FRIL is the last Friday of the month")
    if base.endswith("L") or (base.startswith("L") and "-" not in base):
        rest = base[:-1] if base.endswith("L") else base[1:]
        if "-" in rest:
            raise kind.wrong(base, "L goes with one weekday, not with a range; write a list like MONL,FRIL")
        out.last.add(_place(kind, _value(kind, rest, out)))
        return True
    return False
