"""Triggers as they are previewed, and crontabs as they are read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from raftsched.surface.content import TriggerIn, Triggers
from raftsched.surface.operation import BODIES, JOB, READ, Operation
from raftsched.surface.scalars import Count, Name, Namespace, Text, Time, Zone
from raftsched.surface.sdk import Arg, Sdk, record

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


@record("Occurrence", since={"note": None, "trigger": None})
class Moment(msgspec.Struct):
    """`trigger`: the id of the one of several triggers; null where there is one."""

    at: Time
    note: str | None
    trigger: str | None


@record("DueDay")
class DueDayOut(msgspec.Struct):
    """A day of the time zone that was asked for. `left_out`: times that the trigger's calendar excludes."""

    date: str
    due: int
    left_out: int


@record("Preview", since={"more": False, "days": None})
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


@record("CrontabLine", since={"job": None, "description": None, "reason": None, "notes": []})
class CrontabLineOut(msgspec.Struct):
    """A line of a crontab. `job`: the body of a create; `description`: its trigger in words; `reason`: why the line
    becomes no job; `notes`: what works differently from cron."""

    line: int
    text: str
    result: Literal["job", "setting", "refused"]
    job: dict[str, Any] | None
    description: str | None
    reason: str | None
    notes: list[str]


@record("Crontab")
class CrontabOut(msgspec.Struct):
    """A crontab, read: its lines but blanks and comments. `user_column`: a user stands before each command."""

    user_column: bool
    lines: list[CrontabLineOut]


NEXT = Operation(
    "schedules_next_of_job",
    "GET",
    f"{JOB}/next",
    "Read when a job runs next",
    {200: Moments},
    by_name=True,
    query=("by_day", "count", "from", "to", *READ),
    codes=("invalid-trigger",),
    role="viewer",
    scope="checked",
    says="Nominal times, before jitter. None while the job is not scheduled, and none that went by. `by_day`: also how "
    "many each day of a time zone has, up to `to`, or for 31 days.",
    sdk=Sdk(
        "Jobs.next",
        (
            Arg("ref", "JobRef", sent_as="id"),
            Arg("count", "int", 10),
            "*",
            Arg("start", "Moment | None", None, "from"),
            Arg("end", "Moment | None", None, "to"),
            Arg("by_day", "str | None", None),
        ),
        "Its trigger in words and its next `count` times, from `start` (None: now) to before `end`. `by_day`: as for "
        "`Client.preview`.",
    ),
)
PREVIEW = Operation(
    "schedules_preview",
    "POST",
    "/v1/schedules/preview",
    "Preview a trigger",
    {200: Moments},
    body=PreviewIn,
    body_max=16 * 1024,
    codes=(*BODIES, "invalid-trigger"),
    changes_nothing=True,
    role="viewer",
    scope="shared",
    says="Nothing is saved. `from` is now unless given; a trigger that counts from creation counts from there, and so "
    "does `max_runs`. `name` and `namespace`: what `H` in a cron expression means for a job that is made under them. "
    "`by_day`: also how many times each day of that time zone has, up to `to`, or for 31 days.",
    sdk=Sdk(
        "AsyncClient.preview",
        (
            Arg("trigger", "Trigger"),
            "*",
            Arg("start", sent_as="from"),
            Arg("end", sent_as="to"),
            "count",
            "by_day",
            "name",
            "namespace",
        ),
        "Returns a trigger in words and its next times, from `start` (None: now) to before `end`. `by_day`: a time "
        "zone; how many each of its days has is counted, too, up to `end`. `name`, `namespace`: of the job that is to "
        "be made with it, for `H` in a cron expression. Nothing is saved.",
    ),
)
CONVERT_CRONTAB = Operation(
    "crontabs_convert",
    "POST",
    "/v1/schedules/crontab",
    "Convert a crontab",
    {200: CrontabOut},
    body=CrontabIn,
    body_max=512 * 1024,  # what is escaped takes more room than the text
    codes=BODIES,
    changes_nothing=True,
    role="editor",
    scope="checked",
    says="Each line is a job, ready for POST /v1/jobs:batch and checked as far as that can be before, a setting for "
    "the lines below it, or refused with the reason.",
    sdk=Sdk(
        "Jobs.from_crontab",
        (
            Arg("text", "str"),
            "*",
            "timezone",
            Arg("namespace", "str", "default"),
            "user_column",
            "seconds",
            "prefix",
            "file",
        ),
        "Returns the jobs that the lines of a crontab would become, and why others would not. Nothing is stored: "
        "`create` takes the jobs. `user_column`, `seconds`: whether a user, or seconds, stand before each command; "
        "None: found out from the text. The same text, `file` and `prefix` give the same names.",
    ),
)
