"""Short ways to write triggers and times in tests of the schedule room."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import next_nominal


def cron(expr: str, zone: str = "UTC", dialect: str = "", **more: Any) -> Trigger:
    return Trigger(kind=TriggerKind.CRON, expr=expr, timezone=zone, dialect=dialect, **more)


def rrule(rule: str, zone: str = "UTC", **more: Any) -> Trigger:
    return Trigger(kind=TriggerKind.RRULE, expr=rule, timezone=zone, **more)


def ms(text: str) -> int:
    """RFC 3339 with an offset, or Z, to UTC milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def local(at_ms: int, zone: str) -> str:
    """UTC milliseconds to local time with its offset."""
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).isoformat()


def following(trigger: Trigger, after_ms: int, count: int, **more: Any) -> list[int]:
    """The next `count` nominal times, or fewer when they end."""
    found: list[int] = []
    at: int | None = after_ms
    while len(found) < count:
        at = next_nominal(trigger, after_ms if at is None else at, **more)
        if at is None:
            break
        found.append(at)
    return found


def within(trigger: Trigger, low_ms: int, high_ms: int, **more: Any) -> list[int]:
    """All nominal times in low_ms <= time < high_ms."""
    found: list[int] = []
    at = next_nominal(trigger, low_ms - 1, **more)
    while at is not None and at < high_ms:
        found.append(at)
        at = next_nominal(trigger, at, **more)
    return found
