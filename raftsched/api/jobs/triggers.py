"""Triggers as given -> core.model.Trigger, with every error and its JSON pointer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from raftsched import names, schedule
from raftsched.api.http.durations import parse_duration, parse_time
from raftsched.api.http.problems import Combination, FieldError, unread
from raftsched.api.jobs.following import after_of
from raftsched.bounds import TRIGGERS_MAX
from raftsched.core.model import EveryMode, Policy, Trigger, TriggerKind
from raftsched.core.rules.selection import DEFAULT_NAMESPACE
from raftsched.schedule import TriggerError, parse_cron_text
from raftsched.surface.content import AfterIn, TriggerIn, TriggerItemIn
from raftsched.surface.schedules import PreviewIn

if TYPE_CHECKING:
    from raftsched.surface.jobs_generated import JobIn

SEVERAL_STEPS_MAX = 48_000  # of the searches of all triggers of one job (schedule/budget.py): a whole one for each
_KINDS = {
    "at": TriggerKind.AT,
    "in": TriggerKind.IN,
    "every": TriggerKind.EVERY,
    "cron": TriggerKind.CRON,
    "rrule": TriggerKind.RRULE,
    "manual": TriggerKind.MANUAL,
    "after": TriggerKind.AFTER,
}
_RECURRING = ("every", "cron", "rrule")
BELONGS = {  # field -> the kinds that know it
    "mode": ("every",),
    "dialect": ("cron",),
    "timezone": ("cron", "rrule"),
    "jitter": ("at", "in", *_RECURRING),
    "starts_at": _RECURRING,
    "ends_at": _RECURRING,
    "max_runs": (*_RECURRING, "after"),
    "calendar": _RECURRING,
    "calendar_action": _RECURRING,
}
KINDS_OF_TRIGGER = tuple(_KINDS)
_ONE_OF = "exactly one of at, in, every, cron, rrule, manual, after"
_ONE_OF_SEVERAL = "exactly one of at, in, every, cron, rrule"
_GIVE = f"Give {_ONE_OF_SEVERAL}, or leave it out"
_AT, _IN = TriggerKind.AT, TriggerKind.IN  # looked up in their enum they take as long as the rest of a Trigger
_MANUAL = Trigger(kind=TriggerKind.MANUAL)


def trigger_of(
    given: TriggerIn | None,
    now_ms: int,
    errors: list[FieldError],
    kept: Policy | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> Trigger:
    """Errors are added to the list; the result is of use only when none were. `kept`: of the job as it is; a trigger
    that is left so is not asked whether it will ever be due again. `namespace`: the job's."""
    at = "/trigger"
    if given is None:
        errors.append(Combination(at, f'is missing; give {_ONE_OF}, for example {{"in": "30m"}}'))
        return _MANUAL
    if given.at is not None and given == TriggerIn(at=given.at):  # most jobs
        return Trigger(kind=_AT, at_ms=time_of(given.at, "/trigger/at", errors) or 0)
    if given.in_ is not None and given == TriggerIn(in_=given.in_):
        return Trigger(kind=_IN, period_ms=duration_of(given.in_, "/trigger/in", errors) or 0)
    kind = _kind_of(given, at, _ONE_OF, errors)
    if kind is None:
        return _MANUAL
    if given.after is not None:
        return _following(given, given.after, errors, kept, namespace)
    return _full(given, kind, at, "", now_ms, errors, kept)


def _following(
    given: TriggerIn, after: AfterIn, errors: list[FieldError], kept: Policy | None, namespace: str
) -> Trigger:
    """It has no times of its own, and nothing of what belongs to them."""
    _refuse_others(given, "after", "/trigger", errors)
    return Trigger(kind=TriggerKind.AFTER, after=after_of(after, namespace, errors, kept), max_runs=given.max_runs)


def triggers_of(
    given: list[TriggerItemIn], now_ms: int, errors: list[FieldError], kept: Policy | None = None
) -> tuple[Trigger, ...]:
    """The same for several triggers of one job."""
    return tuple(each_of(given, now_ms, errors, kept))


def each_of(
    given: list[TriggerItemIn], now_ms: int, errors: list[FieldError], kept: Policy | None = None
) -> Iterator[Trigger]:
    """Yields one after the other, for whoever lets others have their turn in between: whether a rule is ever due can
    take long to say."""
    if len(given) > TRIGGERS_MAX:
        errors.append(FieldError("/triggers", f"has {len(given)} triggers; at most {TRIGGERS_MAX} are allowed"))
        return
    before = len(errors)
    kinds = [_kind_of_item(place, item, given[:place], errors) for place, item in enumerate(given)]
    search = len(errors) == before
    spent = 0
    for place, (item, kind) in enumerate(zip(given, kinds, strict=True)):
        if kind is None:
            continue
        at = f"/triggers/{place}"
        with schedule.Steps() as steps:
            trigger = _full(item, kind, at, item.id or "", now_ms, errors, kept, search=search)
        spent += steps.total
        if spent > SEVERAL_STEPS_MAX:
            detail = (
                "takes too long to search, with the triggers before it; use fewer that are as hard to find times of"
            )
            errors.append(FieldError(at, detail, "out-of-range"))
            return
        yield trigger


def _kind_of_item(place: int, item: TriggerItemIn, before: list[TriggerItemIn], errors: list[FieldError]) -> str | None:
    """Returns the kind of one of several triggers; None: it cannot be one. This is looked at in all of them before it
    is asked of any whether it is ever due."""
    at = f"/triggers/{place}"
    if item.id is None:
        errors.append(FieldError(f"{at}/id", "is missing; give each trigger a name of its own, such as nightly"))
    elif not names.TRIGGER.allows(item.id):
        errors.append(FieldError(f"{at}/id", f"breaks the rule for ids; use {names.TRIGGER.rule}"))
    elif any(item.id == other.id for other in before):
        errors.append(
            FieldError(f"{at}/id", f'is that of an earlier trigger, "{item.id}"; each has its own', "repeated")
        )
    if item.max_runs is not None:
        detail = "belongs to the job; give it beside triggers, and it counts the runs of all of them"
        errors.append(FieldError(f"{at}/max_runs", detail))
    elif item.manual:
        errors.append(FieldError(f"{at}/manual", f"has no times; a job is run by hand whatever else it has. {_GIVE}"))
    elif item.after is not None:
        detail = f"goes alone: a job that follows others has no other trigger yet. {_GIVE}"
        errors.append(FieldError(f"{at}/after", detail))
    else:
        return _kind_of(item, at, _ONE_OF_SEVERAL, errors)
    return None


def trigger_of_job(job: JobIn, now_ms: int, errors: list[FieldError], kept: Policy | None, namespace: str) -> Trigger:
    """Returns the trigger of a job, or what stands for its several ones."""
    if job.triggers:
        return several_of(job, errors)
    return trigger_of(job.trigger, now_ms, errors, kept, namespace)


def several_of(given: JobIn | PreviewIn, errors: list[FieldError]) -> Trigger:
    """Returns what stands for several triggers where a job has one."""
    if given.trigger is not None and _kind_of(given.trigger, "/trigger", _ONE_OF, errors) is not None:
        errors.append(Combination("/trigger", "is given beside triggers; give one of them"))
    return Trigger(kind=TriggerKind.SEVERAL, max_runs=given.max_runs)


def check_max_runs(triggers: list[TriggerItemIn], errors: list[FieldError]) -> None:
    if not triggers:
        errors.append(Combination("/max_runs", "goes with triggers; of a single trigger it is /trigger/max_runs"))


def _kind_of(given: TriggerIn, at: str, one_of: str, errors: list[FieldError]) -> str | None:
    kinds = _kinds_of(given)
    if len(kinds) == 1:
        return kinds[0]
    detail = f"has {' and '.join(kinds)}; give {one_of}" if kinds else f"says no time; give {one_of}"
    errors.append(FieldError(at, detail))
    return None


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
    if given.after is not None:
        kinds.append("after")
    return kinds


def _full(
    given: TriggerIn,
    kind: str,
    at: str,
    name: str,
    now_ms: int,
    errors: list[FieldError],
    kept: Policy | None,
    *,
    search: bool = True,
) -> Trigger:
    """`search`: whether it is ever due is asked, too, which can take long."""
    before = len(errors)
    _refuse_others(given, kind, at, errors)
    if given.calendar is not None and not names.CALENDAR.allows(given.calendar):
        detail = f"is no name of a calendar; it has {names.CALENDAR.rule}"
        errors.append(FieldError(f"{at}/calendar", detail))
    if given.calendar_action is not None and given.calendar is None:
        errors.append(FieldError(f"{at}/calendar_action", "goes with a calendar; name one, or leave this out"))
    if given.timezone == "":
        detail = 'is empty; give an IANA time zone such as "Europe/Madrid"'
        errors.append(FieldError(f"{at}/timezone", detail, "unknown-reference"))
    mode = EveryMode.FIXED_DELAY if given.mode == "fixed_delay" else EveryMode.FIXED_RATE
    jitter = duration_of(given.jitter, f"{at}/jitter", errors) or 0
    starts = time_of(given.starts_at, f"{at}/starts_at", errors)
    ends = time_of(given.ends_at, f"{at}/ends_at", errors)
    try:
        core = _core(given, kind, at, errors)
        trigger = msgspec.structs.replace(
            core,
            mode=mode,
            jitter_ms=jitter,
            starts_at_ms=starts,
            ends_at_ms=ends,
            max_runs=given.max_runs,
            calendar=given.calendar,
            id=name,
            calendar_moves=given.calendar_action == "move",
        )
        if search and len(errors) == before and (kept is None or trigger not in kept.all_triggers):
            schedule.validate(trigger, now_ms=now_ms)
        return trigger
    except TriggerError as error:
        errors.append(FieldError(at + error.pointer.removeprefix("/trigger"), error.detail, error.meaning))
        return _MANUAL


def _refuse_others(given: TriggerIn, kind: str, at: str, errors: list[FieldError]) -> None:
    """Refuses fields that have no meaning with this kind."""
    for field, kinds in BELONGS.items():
        if getattr(given, field) is not None and kind not in kinds:
            errors.append(FieldError(f"{at}/{field}", f'has no meaning with "{kind}"; it goes with {_or(kinds)}'))


def _core(given: TriggerIn, kind: str, at: str, errors: list[FieldError]) -> Trigger:
    """The kind and what belongs to it alone."""
    if given.cron is not None:
        return parse_cron_text(given.cron, given.timezone, "quartz" if given.dialect == "quartz" else "")
    period = given.in_ if kind == "in" else given.every
    return Trigger(
        kind=_KINDS[kind],
        at_ms=time_of(given.at, f"{at}/at", errors) or 0,
        period_ms=duration_of(period, f"{at}/{kind}", errors) or 0,
        expr=given.rrule or "",
        timezone=given.timezone or "UTC",
    )


def _or(kinds: tuple[str, ...]) -> str:
    return kinds[0] if len(kinds) == 1 else ", ".join(kinds[:-1]) + " and " + kinds[-1]


def duration_of(text: str | None, at: str, errors: list[FieldError]) -> int | None:
    return None if text is None else _parsed(parse_duration, text, at, errors)


def until_of(until: str | None, for_: str | None, now_ms: int, errors: list[FieldError]) -> int | None:
    """Returns until when a pause lasts, which is said by a time or a duration. None: neither is given."""
    if until is not None and for_ is not None:
        errors.append(FieldError("/for", "is given beside until; give one of them"))
        return None
    at_ms = time_of(until, "/until", errors)
    length_ms = duration_of(for_, "/for", errors)
    if at_ms is not None and at_ms <= now_ms:
        errors.append(FieldError("/until", "is past; give a time ahead, or resume the job", "past"))
    if length_ms == 0:
        errors.append(FieldError("/for", "must be more than zero, such as 2h", "out-of-range"))
    return at_ms if length_ms is None else now_ms + length_ms


def time_of(text: str | None, at: str, errors: list[FieldError]) -> int | None:
    return None if text is None else _parsed(parse_time, text, at, errors)


def _parsed(parse: Callable[[str], int], text: str, at: str, errors: list[FieldError]) -> int | None:
    try:
        return parse(text)
    except ValueError as error:
        errors.append(unread(at, error))
        return None
