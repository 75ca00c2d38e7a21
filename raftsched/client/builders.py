"""Makes triggers, with types: raftsched.cron, every, at, in_, rrule, after and manual.

Each returns the trigger as the API has it, a dictionary. What is wrong at first sight is said here, as a ValueError
with what would be right; the cluster checks the rest, such as whether there is such a time zone.

This imports next to nothing: whoever declares a job pays for no more.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypedDict, cast

from raftsched.quantities import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, Unpack

    from raftsched.client.generated.content import Trigger
    from raftsched.client.generated.enums import AfterEnd, CalendarAction
    from raftsched.client.moments import Duration, Moment


class Repeats(TypedDict, total=False):
    """Fields of any trigger with several times. `calendar`: of days without runs; `calendar_action`: of
    what falls into them. `max_runs`: so many times, and no more."""

    jitter: Duration
    starts_at: Moment
    ends_at: Moment
    max_runs: int
    calendar: str
    calendar_action: CalendarAction


class Dates(Repeats, total=False):
    """Fields of a trigger by the calendar. `timezone`: UTC, or that of the namespace, unless given."""

    timezone: str


def cron(expression: str, *, dialect: Literal["vixie", "quartz"] | None = None, **more: Unpack[Dates]) -> Trigger:
    """Returns a trigger by a cron expression: five fields, six with seconds first, or "@daily" and the like.
    `dialect`: "quartz" for its syntax of six or seven fields."""
    fields = _text("cron", expression, '"0 2 * * *"').split()
    most = 7 if dialect == "quartz" else 6
    if not (fields[0].startswith("@") or 5 <= len(fields) <= most):
        raise ValueError(
            f"cron {expression!r} has {len(fields)} fields; write five, such as "
            '"0 2 * * *" (minute, hour, day, month, weekday), six with seconds first, or "@daily"'
        )
    return _trigger("cron", expression, {**more, **({"dialect": dialect} if dialect else {})})


def every(
    interval: Duration, *, mode: Literal["fixed_rate", "fixed_delay"] | None = None, **more: Unpack[Repeats]
) -> Trigger:
    """Returns a trigger that is due again and again: "10m", or a timedelta. `mode` "fixed_delay": counted from the end
    of each run."""
    return _trigger("every", duration("every", interval), {**more, **({"mode": mode} if mode else {})})


def rrule(rule: str, **more: Unpack[Dates]) -> Trigger:
    """Returns a trigger by a recurrence rule of RFC 5545, such as "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9"."""
    if "FREQ=" not in _text("rrule", rule, '"FREQ=DAILY;BYHOUR=9"').upper():
        raise ValueError(f'rrule {rule[:80]!r} has no FREQ; write a rule of RFC 5545, such as "FREQ=DAILY;BYHOUR=9"')
    return _trigger("rrule", rule, more)


def at(time: Moment) -> Trigger:
    """Returns a trigger that is due once, at a datetime with a time zone, or at a time as RFC 3339 has it."""
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise ValueError(f"at {time}: a datetime needs a time zone; write datetime(..., tzinfo=UTC)")
    else:
        _text("at", time, '"2027-01-01T08:00:00Z"')
    return {"at": time}


def in_(delay: Duration) -> Trigger:
    """Returns a trigger that is due once, so long after the job is created."""
    return {"in": duration("in", delay)}


def after(
    job: str | None = None,
    *,
    all_of: Sequence[str] | None = None,
    any_of: Sequence[str] | None = None,
    on: AfterEnd = "succeeded",
    pass_result: bool = False,
) -> Trigger:
    """Returns a trigger that is due when a run of another job has ended: of `job` (a name, or "namespace/name"), of
    each of `all_of`, or of one of `any_of`. `on`: "succeeded", "failed" or "ended". `pass_result`: the results of those
    runs are among the params, under "upstream"."""
    given = {name: value for name, value in (("job", job), ("all_of", all_of), ("any_of", any_of)) if value}
    if len(given) != 1:
        raise ValueError(f"after takes one of a job, all_of and any_of, not {' and '.join(given) or 'none of them'}")
    if any(isinstance(names, str) for names in (all_of, any_of)):
        raise ValueError('all_of and any_of are lists of jobs; of one job, give its name alone: after("import")')
    if on not in ("succeeded", "failed", "ended"):
        raise ValueError(f"after: on is {on!r}; it is one of succeeded, failed, ended")
    return {"after": {**given, "on": on, **({"pass": "result"} if pass_result else {})}}  # type: ignore[typeddict-item]  # nosec B105


def manual() -> Trigger:
    """Returns the trigger of a job that runs when somebody asks for it, and at no time of its own."""
    return {"manual": True}


def _trigger(kind: str, value: object, more: Mapping[str, object]) -> Trigger:
    return cast("Trigger", {kind: value, **more})


def _text(name: str, value: object, example: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is {value!r}; write a text such as {example}")
    return value


def duration(name: str, value: object) -> Duration:
    """Returns it as it is. Raises ValueError for what is none, or negative."""
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError(f"{name} is {value}, which is negative")
        return value
    try:
        parse_duration(_text(name, value, '"10m"'))
    except ValueError as error:
        told = str(error)
        raise ValueError(told if told.startswith(f"{name} is") else f"{name} {value!r} {told}") from None
    assert isinstance(value, str)
    return value
