"""A trigger as given -> core.model.Trigger, with every error and its JSON pointer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from raftsched import names, schedule
from raftsched.api.http.durations import parse_duration, parse_time
from raftsched.api.http.problems import FieldError
from raftsched.api.jobs.schema import TriggerIn
from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule import TriggerError, parse_cron_text

_KINDS = {
    "at": TriggerKind.AT,
    "in": TriggerKind.IN,
    "every": TriggerKind.EVERY,
    "cron": TriggerKind.CRON,
    "rrule": TriggerKind.RRULE,
    "manual": TriggerKind.MANUAL,
}
_RECURRING = ("every", "cron", "rrule")
BELONGS = {  # field -> the kinds that know it
    "mode": ("every",),
    "dialect": ("cron",),
    "timezone": ("cron", "rrule"),
    "jitter": ("at", "in", *_RECURRING),
    "starts_at": _RECURRING,
    "ends_at": _RECURRING,
    "max_runs": _RECURRING,
    "calendar": _RECURRING,
}
KINDS_OF_TRIGGER = tuple(_KINDS)
_ONE_OF = "exactly one of at, in, every, cron, rrule, manual"
_AT, _IN = TriggerKind.AT, TriggerKind.IN  # looked up in their enum they take as long as the rest of a Trigger
_MANUAL = Trigger(kind=TriggerKind.MANUAL)


def trigger_of(given: TriggerIn | None, now_ms: int, errors: list[FieldError], kept: Trigger | None = None) -> Trigger:
    """Errors are added to the list; the result is of use only when none were. `kept`: the trigger that the job has
    already; left as it is, it is not asked whether it will ever be due again."""
    at = "/trigger"
    if given is None:
        errors.append(FieldError(at, f'is missing; give {_ONE_OF}, for example {{"in": "30m"}}'))
        return _MANUAL
    kinds = _kinds_of(given)
    if len(kinds) != 1:
        if kinds:
            detail = f"has {' and '.join(kinds)}; give {_ONE_OF}"
        else:
            detail = f"says no time; give {_ONE_OF}"
        errors.append(FieldError(at, detail))
        return _MANUAL
    kind = kinds[0]
    if kind == "at" and given.jitter is None and _plain(given):
        return Trigger(kind=_AT, at_ms=time_of(given.at, "/trigger/at", errors) or 0)
    if kind == "in" and given.jitter is None and _plain(given):
        return Trigger(kind=_IN, period_ms=duration_of(given.in_, "/trigger/in", errors) or 0)
    return _full(given, kind, now_ms, errors, kept)


def _kinds_of(given: TriggerIn) -> list[str]:
    kinds = []
    if given.at is not None:
        kinds.append("at")
    if given.in_ is not None:
        kinds.append("in")
    if given.every is not None:
        kinds.append("every")
    if given.cron is not None:
        kinds.append("cron")
    if given.rrule is not None:
        kinds.append("rrule")
    if given.manual:
        kinds.append("manual")
    return kinds


def _plain(given: TriggerIn) -> bool:
    return (
        given.mode is None
        and given.dialect is None
        and given.timezone is None
        and given.starts_at is None
        and given.ends_at is None
        and given.max_runs is None
        and given.calendar is None
    )


def _full(given: TriggerIn, kind: str, now_ms: int, errors: list[FieldError], kept: Trigger | None) -> Trigger:
    at = "/trigger"
    before = len(errors)
    for field, kinds in BELONGS.items():
        if getattr(given, field) is not None and kind not in kinds:
            errors.append(FieldError(f"{at}/{field}", f'has no meaning with "{kind}"; it goes with {_or(kinds)}'))
    if given.calendar is not None and not names.CALENDAR.allows(given.calendar):
        detail = f"is no name of a calendar; it has {names.CALENDAR.rule}"
        errors.append(FieldError(f"{at}/calendar", detail))
    if given.timezone == "":
        errors.append(FieldError(f"{at}/timezone", 'is empty; give an IANA time zone such as "Europe/Madrid"'))
    mode = EveryMode.FIXED_DELAY if given.mode == "fixed_delay" else EveryMode.FIXED_RATE
    jitter = duration_of(given.jitter, f"{at}/jitter", errors) or 0
    starts = time_of(given.starts_at, f"{at}/starts_at", errors)
    ends = time_of(given.ends_at, f"{at}/ends_at", errors)
    try:
        core = _core(given, kind, errors)
        trigger = msgspec.structs.replace(
            core,
            mode=mode,
            jitter_ms=jitter,
            starts_at_ms=starts,
            ends_at_ms=ends,
            max_runs=given.max_runs,
            calendar=given.calendar,
        )
        if len(errors) == before and trigger != kept:
            schedule.validate(trigger, now_ms=now_ms)
        return trigger
    except TriggerError as error:
        errors.append(FieldError(error.pointer, error.detail))
        return _MANUAL


def _core(given: TriggerIn, kind: str, errors: list[FieldError]) -> Trigger:
    """The kind and what belongs to it alone."""
    if given.cron is not None:
        return parse_cron_text(given.cron, given.timezone, "quartz" if given.dialect == "quartz" else "")
    period = given.in_ if kind == "in" else given.every
    return Trigger(
        kind=_KINDS[kind],
        at_ms=time_of(given.at, "/trigger/at", errors) or 0,
        period_ms=duration_of(period, f"/trigger/{kind}", errors) or 0,
        expr=given.rrule or "",
        timezone=given.timezone or "UTC",
    )


def _or(kinds: tuple[str, ...]) -> str:
    return kinds[0] if len(kinds) == 1 else ", ".join(kinds[:-1]) + " and " + kinds[-1]


def duration_of(text: str | None, at: str, errors: list[FieldError]) -> int | None:
    return None if text is None else _parsed(parse_duration, text, at, errors)


def time_of(text: str | None, at: str, errors: list[FieldError]) -> int | None:
    return None if text is None else _parsed(parse_time, text, at, errors)


def _parsed(parse: Callable[[str], int], text: str, at: str, errors: list[FieldError]) -> int | None:
    try:
        return parse(text)
    except ValueError as error:
        errors.append(FieldError(at, str(error)))
        return None
