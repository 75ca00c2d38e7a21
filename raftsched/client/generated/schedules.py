"""Made from surface/schedules.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """`trigger`: the id of the one of several triggers; None where there is one."""

    at: datetime
    note: str | None = None
    trigger: str | None = None


class DueDay(msgspec.Struct, frozen=True, kw_only=True):
    """A day of the time zone that was asked for. `left_out`: times that the trigger's calendar excludes."""

    date: str
    due: int
    left_out: int


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The trigger in plain words, and nominal times, before jitter. `more`: there are more than these, up to `to` if
    that was given. `days`: with `by_day`, those that have any times."""

    description: str
    next: list[Occurrence]
    more: bool = False
    days: list[DueDay] | None = None


class CrontabLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a crontab. `job`: the body of a create; `description`: its trigger in words; `reason`: why the line
    becomes no job; `notes`: what works differently from cron."""

    line: int
    text: str
    result: str
    job: dict[str, Any] | None = None
    description: str | None = None
    reason: str | None = None
    notes: list[str] = []


class Crontab(msgspec.Struct, frozen=True, kw_only=True):
    """A crontab, read: its lines but blanks and comments. `user_column`: a user stands before each command."""

    user_column: bool
    lines: list[CrontabLine]
