"""Parses a whole cron expression: five fields, six (seconds first) or seven (year last), or a nickname such as @daily.

croniter reads what is cron everywhere (`standard`), `fields` what is not.
"""

from __future__ import annotations

from functools import lru_cache

from raftsched.schedule import fields
from raftsched.schedule.days import DayRule
from raftsched.schedule.errors import TriggerError, shown
from raftsched.schedule.fields import POINTER, Kind, Parsed, parse_field
from raftsched.schedule.wall import WallTimes

EXPR_MAX = 256  # characters
DIALECTS = ("", "quartz")

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Expression:
    """A parsed expression: `times` says which wall-clock seconds match, the rest is for DST and for people."""

    def __init__(self, times: WallTimes, *, fixed: bool, hashed: bool, has_seconds: bool) -> None:
        self.times = times
        self.fixed = fixed  # neither minute nor hour starts with *: DST moves it instead of dropping or doubling it
        self.hashed = hashed
        self.has_seconds = has_seconds


def compiled(expr: str, dialect: str = "", hash_id: int = 0) -> Expression:
    """The parsed expression, from a cache. `hash_id` matters only where the expression has an `H`.

    Raises:
        TriggerError: what is wrong with the text and what would be right.
    """
    found = _plain(expr, dialect)
    return _hashed(expr, dialect, hash_id) if found.hashed and hash_id else found


@lru_cache(maxsize=8192)
def _plain(expr: str, dialect: str) -> Expression:
    return parse(expr, dialect, 0)


@lru_cache(maxsize=8192)
def _hashed(expr: str, dialect: str, hash_id: int) -> Expression:
    return parse(expr, dialect, hash_id)


def parse(expr: str, dialect: str, hash_id: int) -> Expression:
    """Reads an expression without the cache. Errors as `compiled`."""
    parts, dialect = _split(expr, dialect)
    count = len(parts)
    kinds, texts = zip(*_named(parts, dialect), strict=True)
    _, minutes, hours, day, month, weekday, year = texts
    if day == "?" and weekday == "?":
        raise TriggerError(POINTER, "? stands for both days; one of them must say when, or be *")
    if count == 7 or dialect or "?" in texts:  # as Quartz writes them
        read = [parse_field(kind, text, hash_id) for kind, text in zip(kinds, texts, strict=True)]
    else:
        read = [_read(kind, text, hash_id) for kind, text in zip(kinds, texts, strict=True)]
    if read[5].numeric and not dialect and (count == 7 or day == "?"):
        where = "in an expression with a year" if count == 7 else "beside ?"
        raise TriggerError(
            POINTER,
            f"weekday field {shown(weekday)}: {where} a weekday number may mean two different days; write names"
            ' (MON-FRI), or add "dialect": "quartz" where 1 is Sunday',
            "inconsistent",
        )
    days = DayRule(read[3], read[5])
    if not days.possible(read[4].values):
        raise TriggerError(
            POINTER,
            f"no such date: day-of-month {shown(day)} never comes in month {shown(month)}"
            + ("" if weekday in ("*", "?") else f" on weekday {shown(weekday)}")
            + "; change the day or the month",
            "never-due",
        )
    times = WallTimes(
        seconds=read[0].values,
        minutes=read[1].values,
        hours=read[2].values,
        days=days,
        months=read[4].values,
        years=None if year.startswith("*") and len(read[6].values) == fields.YEAR.span else read[6].values,
    )
    if times.years is not None and times.first_date() is None:
        raise TriggerError(
            POINTER,
            f"no such date: the day and month do not occur in year {shown(year)}; change one of them",
            "never-due",
        )
    return Expression(
        times,
        fixed=not minutes.startswith("*") and not hours.startswith("*"),
        hashed=any(field.hashed for field in read),
        has_seconds=count > 5,
    )


def fields_of(expr: str, dialect: str = "") -> list[tuple[Kind, str]]:
    """The fields of an expression, seconds first and the year last, each in upper case. Errors as `compiled`."""
    return _named(*_split(expr, dialect))


def _named(parts: list[str], dialect: str) -> list[tuple[Kind, str]]:
    count = len(parts)
    weekday = fields.QUARTZ_WEEKDAY if dialect == "quartz" else fields.WEEKDAY
    kinds = (fields.SECOND, fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, weekday, fields.YEAR)
    texts = [*(() if count > 5 else ("0",)), *parts, *(() if count == 7 else ("*",))]
    return list(zip(kinds, texts, strict=True))


def _read(kind: Kind, text: str, hash_id: int) -> Parsed:
    """Reads a field: standard cron with croniter, the dialects' own syntax and the error texts with `fields`."""
    from raftsched.schedule import standard  # croniter: late, because of the command line

    if not standard.understands(kind, text):
        return parse_field(kind, text, hash_id)
    try:
        return Parsed(values=set(standard.numbers(kind, text)), star=text.startswith("*"))
    except standard.NotCron:
        parse_field(kind, text, hash_id)
        raise kind.wrong(text, "not a cron field; write values, ranges and steps, like 1-5, */10 or 0,30") from None


def _split(expr: str, dialect: str) -> tuple[list[str], str]:
    """The upper-case fields, five to seven of them, and the dialect to read them in."""
    if len(expr) > EXPR_MAX:
        raise TriggerError(POINTER, f"the expression has {len(expr)} characters; at most {EXPR_MAX} are allowed")
    if dialect not in DIALECTS:
        raise TriggerError(
            "/trigger/dialect",
            f'{shown(dialect)} is not a dialect; leave it out (Vixie cron) or say "quartz"',
        )
    if not expr.strip():
        raise TriggerError(POINTER, 'the expression is empty; write five fields like "0 2 * * *", or @daily')
    if not expr.isascii():
        bad = next(c for c in expr if not c.isascii())
        raise TriggerError(POINTER, f"{shown(expr)} has the character {shown(bad)}; use plain ASCII only")
    text = expr.strip()
    if text.startswith("@"):
        return _nickname(text).split(), ""  # nicknames mean the same in every dialect
    if "=" in text.split(None, 1)[0]:
        raise TriggerError(
            POINTER,
            f"{shown(text)} begins with a setting; give the zone as trigger.timezone, the fields alone here",
        )
    parts = text.upper().split()
    if not 5 <= len(parts) <= 7:
        raise TriggerError(
            POINTER,
            f"{shown(text)} has {len(parts)} field{'s' if len(parts) != 1 else ''}; 5 are needed (minute hour"
            " day-of-month month weekday), 6 with seconds first, 7 with the year last",
        )
    return parts, dialect


def _nickname(text: str) -> str:
    name = text.lower()
    if name in NICKNAMES:
        return NICKNAMES[name]
    if name == "@reboot":
        raise TriggerError(
            POINTER, "@reboot has no meaning here: a cluster does not reboot; use a time, or a manual trigger"
        )
    if name.split(None, 1)[0] == "@every":
        raise TriggerError(POINTER, 'an interval is its own trigger: {"every": "90s"} instead of @every 90s')
    raise TriggerError(POINTER, f"{shown(text)} is not a nickname; known are {', '.join(NICKNAMES)}")
