"""Parses schedules as people write them on one line: `@every 90s`, `CRON_TZ=Europe/Madrid 0 2 * * *`, plain cron."""

from __future__ import annotations

import re
from fractions import Fraction

from msgspec.structs import replace

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule.errors import TriggerError, shown
from raftsched.schedule.expression import EXPR_MAX, compiled
from raftsched.schedule.fields import POINTER
from raftsched.schedule.zones import POINTER as ZONE_POINTER
from raftsched.schedule.zones import zone

DEFAULT_ZONE = "UTC"

_ZONE_SETTING = re.compile(r"(?:CRON_TZ|TZ)=(?P<quote>[\"']?)(?P<name>[^\s\"']*)(?P=quote)(?=\s|$)\s*")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_cron_text(text: str, timezone: str | None = None, dialect: str = "") -> Trigger:
    """The trigger that one line of text means; it is readable and its zone exists, its bounds are not looked at.

    A `CRON_TZ=` or `TZ=` prefix names the zone. When `timezone` names another one (UTC is nobody's choice and gives
    way), that is refused rather than decided. `@every 1h30m` becomes an EVERY trigger, everything else a CRON trigger;
    nicknames such as `@daily` are kept as they are written.

    Raises:
        TriggerError: what is wrong with the text and what would be right.
    """
    if len(text) > EXPR_MAX + 80:  # room for the prefix; the expression itself is measured again without it
        raise TriggerError(POINTER, f"the expression has {len(text)} characters; at most {EXPR_MAX} are allowed")
    rest = text.strip()
    name = timezone or DEFAULT_ZONE
    prefix = _ZONE_SETTING.match(rest)
    if prefix:
        named = prefix["name"]
        if not named:
            raise TriggerError(POINTER, f"{shown(text)} names no zone after the =; write CRON_TZ=Europe/Madrid")
        if name not in (DEFAULT_ZONE, named):
            raise TriggerError(
                ZONE_POINTER,
                f"the expression says {shown(named)}, the trigger {shown(name)}; name the zone once",
                "inconsistent",
            )
        name = named
        rest = rest[prefix.end() :]
    zone(name)
    words = rest.split()
    if words and words[0].lower() == "@every":
        if len(words) != 2:
            raise TriggerError(POINTER, f"{shown(rest)}: @every takes one interval, like @every 90s or @every 1h30m")
        return Trigger(kind=TriggerKind.EVERY, period_ms=_interval_ms(words[1]), timezone=name)
    compiled(rest, dialect)
    return Trigger(kind=TriggerKind.CRON, expr=rest, dialect=dialect, timezone=name)


def recurring(
    *,
    cron: str | None = None,
    rrule: str | None = None,
    every_ms: int = 0,
    timezone: str | None = None,
    dialect: str = "",
    jitter_ms: int = 0,
    max_runs: int | None = None,
    starts_at_ms: int | None = None,
    ends_at_ms: int | None = None,
) -> Trigger:
    """The trigger of a cron text, a rule or a period, with what belongs to all of them; `validate` looks at the rest.

    Raises:
        TriggerError: the cron text is not valid, or there is no such zone.
    """
    if cron is not None:
        found = parse_cron_text(cron, timezone, dialect)
    elif rrule is not None:
        found = Trigger(kind=TriggerKind.RRULE, expr=rrule, timezone=timezone or DEFAULT_ZONE)
    else:
        found = Trigger(kind=TriggerKind.EVERY, period_ms=every_ms)
    more = {"jitter_ms": jitter_ms, "max_runs": max_runs, "starts_at_ms": starts_at_ms, "ends_at_ms": ends_at_ms}
    return replace(found, **more)


def _interval_ms(text: str) -> int:
    """The interval of @every, in the notation of Go's durations (`1h30m`, `90s`, `1.5h`), days added."""
    if not text.isascii() or not _DURATION.fullmatch(text):
        raise TriggerError(POINTER, f"{shown(text)} is not an interval; write one like 90s, 15m or 1h30m")
    total = sum((Fraction(amount) * _UNIT_MS[unit] for amount, unit in _PART.findall(text)), Fraction(0))
    if total < 1000:
        raise TriggerError(POINTER, f"@every {text} is too short; the shortest interval is 1s", "out-of-range")
    return int(total)
