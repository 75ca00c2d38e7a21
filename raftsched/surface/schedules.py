"""Triggers as they are previewed, and crontabs as they are read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from raftsched.surface.content import TriggerIn, Triggers
from raftsched.surface.scalars import Count, Name, Namespace, Text, Time, Zone

CRONTAB_PREFIX = "[a-z0-9._-]{0,30}"
CRONTAB_PREFIX_RULE = "at most 30 of a-z, 0-9, '.', '_' and '-'"
CRONTAB_FILE_MAX = 200  # characters
Prefix = Annotated[str, Meta(description=CRONTAB_PREFIX_RULE, extra_json_schema={"pattern": f"^{CRONTAB_PREFIX}$"})]
FileName = Annotated[
    str, Meta(description="a string", extra_json_schema={"minLength": 1, "maxLength": CRONTAB_FILE_MAX})
]


class PreviewIn(msgspec.Struct, forbid_unknown_fields=True):
    """One trigger, or several as those of a job. `to`: no times from then on. `by_day`: a time zone of whose days the
    times are counted, up to `to`. `name`, `namespace`: of the job that is to be made with it, which say what `H` in a
    cron expression means."""

    trigger: TriggerIn | None = None
    triggers: Triggers = []
    max_runs: Count | None = None
    from_: Time | None = field(default=None, name="from")
    to: Time | None = None
    count: Annotated[int, Meta(ge=1, le=1_000, description="an integer from 1 to 1,000")] = 10
    by_day: Zone | None = None
    name: Name | None = None
    namespace: Namespace | None = None


class Moment(msgspec.Struct):
    """`trigger`: the id of the one of several triggers; null where there is one."""

    at: Time
    note: str | None
    trigger: str | None


class DueDayOut(msgspec.Struct):
    """A day of the time zone that was asked for. `left_out`: times that the trigger's calendar excludes."""

    date: str
    due: int
    left_out: int


class Moments(msgspec.Struct):
    """The trigger in plain words, and nominal times, before jitter. `more`: there are more than these, up to `to` if
    that was given. `days`: with `by_day`, those that have any times."""

    description: str
    next: list[Moment]
    more: bool
    days: list[DueDayOut] | None


class CrontabIn(msgspec.Struct, forbid_unknown_fields=True):
    """`timezone`: where the text says none. `user_column`: whether a user stands before each command, `seconds`:
    whether seconds come first; both only where that is clear, unless given. `prefix`: of the jobs' names. `file`: goes
    into their names and labels; the same text gives the same names again."""

    text: Text | None = None
    timezone: Zone = "UTC"
    namespace: Namespace | None = None
    user_column: bool | None = None
    seconds: bool | None = None
    prefix: Prefix = ""
    file: FileName = "crontab"


class CrontabLineOut(msgspec.Struct):
    """`job`: the body of a create; `description`: its trigger in words; `reason`: why the line becomes no job; `notes`:
    what works differently from cron."""

    line: int
    text: str
    result: Literal["job", "setting", "refused"]
    job: dict[str, Any] | None
    description: str | None
    reason: str | None
    notes: list[str]


class CrontabOut(msgspec.Struct):
    """Lines that are neither blank nor comments. `user_column`: how they were read."""

    user_column: bool
    lines: list[CrontabLineOut]
