"""Checks that a trigger is usable: says what is wrong, where, and what would be right."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from raftsched.bounds import DAY_MS, DURATION_MAX_MS, EVERY_MIN_MS
from raftsched.core.limits import RECURRING
from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule.budget import search
from raftsched.schedule.describe import duration_text
from raftsched.schedule.errors import CALENDAR_POINTER, RULE_POINTER, TriggerError
from raftsched.schedule.expression import compiled
from raftsched.schedule.fields import LAST_YEAR
from raftsched.schedule.fields import POINTER as CRON_POINTER
from raftsched.schedule.rule import recurrence
from raftsched.schedule.triggers import LATEST_MS, next_nominal
from raftsched.schedule.zones import zone

JITTER_MAX_MS = DAY_MS


def validate(trigger: Trigger, *, now_ms: int) -> None:
    """Checks a built trigger; its calendar, which may exclude all times and be changed later, is not looked at.

    A time `at` that is past is fine (it runs now); a trigger that will never be due after `now_ms` otherwise is not.
    So do not ask about a trigger that was accepted before and is left alone: it may have run out meanwhile.

    Raises:
        TriggerError: with the JSON pointer of the field.
    """
    _check_instant("/trigger/starts_at", trigger.starts_at_ms)
    _check_instant("/trigger/ends_at", trigger.ends_at_ms)
    starts, ends = trigger.starts_at_ms, trigger.ends_at_ms
    if starts is not None and ends is not None and ends < starts:
        raise TriggerError(
            "/trigger/ends_at",
            f"{instant_text(ends)} is before starts_at, {instant_text(starts)}; it must not be",
            "inconsistent",
        )
    if trigger.jitter_ms < 0:
        raise TriggerError("/trigger/jitter", f"a jitter of {trigger.jitter_ms} ms is negative; use 0 or more")
    if trigger.jitter_ms > JITTER_MAX_MS:
        raise TriggerError(
            "/trigger/jitter", f"longer than a day; at most {duration_text(JITTER_MAX_MS)}", "out-of-range"
        )
    if trigger.max_runs is not None and trigger.max_runs < 1:
        raise TriggerError("/trigger/max_runs", f"{trigger.max_runs} runs; use 1 or more, or leave it out")
    if trigger.calendar is not None and trigger.mode is EveryMode.FIXED_DELAY:
        raise TriggerError(
            CALENDAR_POINTER, 'has no meaning with "fixed_delay", which has no times of its own; use fixed_rate'
        )
    if trigger.calendar is not None and trigger.kind not in RECURRING:
        raise TriggerError(CALENDAR_POINTER, "has no meaning here; it goes with every, cron and rrule")
    zone(trigger.timezone)
    trigger = replace(trigger, calendar=None, calendar_moves=False)
    with search(trigger):
        _check_times(trigger, now_ms)
    if trigger.kind in RECURRING and ends is not None and ends <= now_ms:
        raise TriggerError(
            "/trigger/ends_at",
            f"{instant_text(ends)} is past, so this would never run; use a later time, or null",
            "past",
        )


def _check_times(trigger: Trigger, now_ms: int) -> None:
    match trigger.kind:
        case TriggerKind.CRON:
            _check_cron(trigger, now_ms)
        case TriggerKind.EVERY:
            _check_period("/trigger/every", trigger.period_ms, EVERY_MIN_MS)
            _check_first(trigger, now_ms)
        case TriggerKind.IN:
            _check_period("/trigger/in", trigger.period_ms, 0)
            _check_once("/trigger/in", now_ms + trigger.period_ms, trigger)
        case TriggerKind.AT:
            _check_instant("/trigger/at", trigger.at_ms)
            _check_once("/trigger/at", trigger.at_ms, trigger)
        case TriggerKind.RRULE:
            _check_rule(trigger, now_ms)
        case TriggerKind.MANUAL | TriggerKind.AFTER:
            pass


def _check_first(trigger: Trigger, now_ms: int) -> None:
    """A grid whose first time comes after its end."""
    anchor = now_ms if trigger.starts_at_ms is None else trigger.starts_at_ms
    ends = trigger.ends_at_ms
    if ends is None or ends <= now_ms or next_nominal(trigger, now_ms, anchor_ms=anchor) is not None:
        return
    raise TriggerError(
        "/trigger/ends_at",
        f"the first time, {duration_text(trigger.period_ms)} after the start, is after ends_at, {instant_text(ends)};"
        " this would never run",
        "never-due",
    )


def instant_text(at_ms: int) -> str:
    """RFC 3339 in UTC, milliseconds only where there are some."""
    text = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{at_ms % 1000:03}Z" if at_ms % 1000 else f"{text}Z"


def _check_instant(pointer: str, at_ms: int | None) -> None:
    if at_ms is not None and not 0 <= at_ms <= LATEST_MS:
        raise TriggerError(pointer, "out of range; use a time from 1970 to 9999", "out-of-range")


def _check_period(pointer: str, period_ms: int, least_ms: int) -> None:
    if period_ms < 0:
        raise TriggerError(
            pointer, f"{period_ms} ms is negative; use {duration_text(least_ms)} or more", "out-of-range"
        )
    if period_ms < least_ms:
        raise TriggerError(
            pointer, f"{period_ms} ms is too short; the shortest is {duration_text(least_ms)}", "out-of-range"
        )
    if period_ms > DURATION_MAX_MS:
        raise TriggerError(pointer, "longer than a hundred years; use a shorter one", "out-of-range")


def _check_once(pointer: str, at_ms: int, trigger: Trigger) -> None:
    starts, ends = trigger.starts_at_ms, trigger.ends_at_ms
    if (starts is not None and at_ms < starts) or (ends is not None and at_ms > ends):
        raise TriggerError(
            pointer,
            f"{instant_text(at_ms)} is not within starts_at and ends_at, so it would never run; leave them out",
            "never-due",
        )


def _check_cron(trigger: Trigger, now_ms: int) -> None:
    compiled(trigger.expr, trigger.dialect)  # the text itself, first
    if next_nominal(trigger, now_ms) is not None:
        return
    ends = trigger.ends_at_ms
    if ends is not None and ends <= now_ms:
        return  # said about ends_at
    unbounded = Trigger(kind=TriggerKind.CRON, expr=trigger.expr, dialect=trigger.dialect, timezone=trigger.timezone)
    begin = max(now_ms, (trigger.starts_at_ms or 0) - 1)
    following = next_nominal(unbounded, begin)
    if following is not None and ends is not None:
        raise TriggerError(
            "/trigger/ends_at",
            f"the next time after the start is {instant_text(following)}, after ends_at, {instant_text(ends)};"
            " this would never run",
            "never-due",
        )
    if next_nominal(unbounded, -1) is None:
        raise TriggerError(
            CRON_POINTER,
            f"this never comes on the clocks of {trigger.timezone}; change the time or the date",
            "never-due",
        )
    raise TriggerError(
        CRON_POINTER,
        f"no time left after {instant_text(max(begin, 0))} (years up to {LAST_YEAR} count); use a later year or none",
        "never-due",
    )


def _check_rule(trigger: Trigger, now_ms: int) -> None:
    """The rule starts at starts_at, else now."""
    found = recurrence(trigger, now_ms)
    if next_nominal(trigger, now_ms, anchor_ms=now_ms) is not None:
        return
    rule, ends = found.rule, trigger.ends_at_ms
    if ends is not None and ends <= now_ms:
        return  # said about ends_at
    begin = max(now_ms, (trigger.starts_at_ms or 0) - 1)
    following = next_nominal(replace(trigger, ends_at_ms=None), begin, anchor_ms=now_ms)
    if following is not None and ends is not None:
        raise TriggerError(
            "/trigger/ends_at",
            f"the next time after the start is {instant_text(following)}, after ends_at, {instant_text(ends)};"
            " this would never run",
            "never-due",
        )
    if rule.until is not None or rule.count is not None:
        endless = replace(trigger, expr=_without_end(trigger.expr), ends_at_ms=None)
        if next_nominal(endless, begin, anchor_ms=now_ms) is not None:
            what = (
                f"UNTIL comes before the first time after {instant_text(begin)}"
                if rule.count is None
                else f"all of COUNT={rule.count}, counted from the start, lie before {instant_text(begin)}"
            )
            raise TriggerError(
                RULE_POINTER, f"this never fires: {what}; change or leave out the end of the rule", "never-due"
            )
    raise TriggerError(
        RULE_POINTER,
        f"this never fires: no time from {instant_text(begin)} on has all that it asks for (years up to {LAST_YEAR}"
        " count); the parts contradict each other, or INTERVAL steps over them",
        "never-due",
    )


def _without_end(text: str) -> str:
    return ";".join(part for part in text.upper().strip().split(";") if not part.startswith(("COUNT=", "UNTIL=")))
