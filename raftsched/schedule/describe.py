"""Describes a trigger in plain words, for people who check what they wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from raftsched.core.model import After, AfterOn, EveryMode, Trigger, TriggerKind
from raftsched.schedule.describe_rule import describe_rule
from raftsched.schedule.expression import Expression, compiled
from raftsched.schedule.fields import Parsed
from raftsched.schedule.gaps import least_gap_ms
from raftsched.schedule.remarks import remarks
from raftsched.schedule.words import MONTHS, ORDINALS, WEEKDAYS, listed, spans

_JOBS_MAX = 4  # more jobs than this that one follows are not listed one by one
_TIMES_MAX = 6  # more times of day than this are not listed one by one


def describe(trigger: Trigger, *, hash_id: int = 0, anchor_ms: int | None = None) -> str:
    """One line of English, without a full stop. `hash_id` feeds `H`; without a job the text says it is an example.
    `anchor_ms` is the start of a rule without starts_at, when there is a job.

    Raises:
        TriggerError: the cron expression or the rule is not valid.
    """
    match trigger.kind:
        case TriggerKind.AT:
            text = f"once, at {_instant(trigger.at_ms)}"
        case TriggerKind.IN:
            text = f"once, {duration_text(trigger.period_ms)} after it is accepted"
        case TriggerKind.EVERY if trigger.mode is EveryMode.FIXED_DELAY:
            text = f"{duration_text(trigger.period_ms)} after the end of each run"
        case TriggerKind.EVERY:
            text = f"every {duration_text(trigger.period_ms)}"
        case TriggerKind.CRON:
            text = f"{describe_cron(trigger.expr, trigger.dialect, hash_id)}, {trigger.timezone} time"
        case TriggerKind.RRULE:
            text = f"{describe_rule(trigger, anchor_ms)}, {trigger.timezone} time"
        case TriggerKind.AFTER if trigger.after is not None:
            text = describe_after(trigger.after)
        case _:
            return "only when asked to run"
    if trigger.calendar is not None:
        text += f", but not in the time that the calendar {trigger.calendar} excludes"
        if trigger.calendar_moves:
            text += " (what falls into it comes at its end, once)"
    if trigger.jitter_ms:
        text += f", each delayed by up to {duration_text(trigger.jitter_ms)}"
        least_ms = least_gap_ms(trigger)
        if least_ms is not None and trigger.jitter_ms >= least_ms:
            text += ", but to before the next time"
    if trigger.starts_at_ms is not None:
        text += f", from {_instant(trigger.starts_at_ms)}"
    if trigger.ends_at_ms is not None:
        text += f", until {_instant(trigger.ends_at_ms)}"
    if trigger.max_runs is not None:
        text += f", {trigger.max_runs} time{'s' if trigger.max_runs != 1 else ''} at most"
    return text


def describe_several(
    triggers: Sequence[Trigger], *, max_runs: int | None = None, hash_id: int = 0, anchors_ms: Sequence[int | None] = ()
) -> str:
    """The same of several triggers of a job, each with its id. `max_runs`: of all of them. Errors as `describe`."""
    anchors = anchors_ms or [None] * len(triggers)
    texts = [
        f"{trigger.id}: {describe(trigger, hash_id=hash_id, anchor_ms=anchor_ms)}"
        for trigger, anchor_ms in zip(triggers, anchors, strict=True)
    ]
    if max_runs is not None:
        texts.append(f"{max_runs} time{'s' if max_runs != 1 else ''} at most in all")
    return "; ".join(texts)


def describe_after(after: After) -> str:
    """The jobs that one follows, some of them by name."""
    shown = list(after.jobs[:_JOBS_MAX])
    if len(after.jobs) > len(shown):
        shown.append(f"{len(after.jobs) - len(shown)} others")
    one = len(after.jobs) == 1
    end = {AfterOn.SUCCEEDED: "succeeded", AfterOn.FAILED: "failed", AfterOn.ENDED: "ended"}[after.on]
    if one:
        return f"when a run of {shown[0]} has {end}"
    which = "the first run of" if after.any_of else "the runs of all of"
    return f"when {which} {listed(shown)} {'has' if after.any_of else 'have'} {end}"


def duration_text(duration_ms: int) -> str:
    """`1h30m`, `90s` as `1m30s`, `250ms`."""
    if duration_ms == 0:
        return "0s"
    parts = []
    rest = abs(duration_ms)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        amount, rest = divmod(rest, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return ("-" if duration_ms < 0 else "") + "".join(parts)


def describe_cron(expr: str, dialect: str = "", hash_id: int = 0) -> str:
    """The expression alone: times, then days, months and years."""
    expression = compiled(expr, dialect, hash_id)
    times = expression.times
    parts = [_times(expression)]
    days = _days(expression)
    if days:
        parts.append(days)
    elif "every" not in parts[0]:
        parts.append("every day")
    if len(times.months) < 12:
        parts.append("in " + spans(times.months, lambda month: MONTHS[month - 1]))
    if times.years is not None:
        parts.append("in " + spans(times.years, str))
    text = " ".join(parts)
    if expression.hashed and not hash_id:
        text += " (an example: H depends on the job's namespace and name)"
    return text + "".join(f" ({remark})" for remark in remarks(expr, dialect))


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _times(expression: Expression) -> str:
    times = expression.times
    seconds, minutes, hours = times.seconds, times.minutes, times.hours
    whole = seconds == (0,)
    if len(hours) * len(minutes) * len(seconds) <= _TIMES_MAX:
        show = "{:02}:{:02}" if whole else "{:02}:{:02}:{:02}"
        return "at " + listed([show.format(h, m, s) for h in hours for m in minutes for s in seconds])
    if whole and minutes == (0,):
        return _within(hours, 24, "hour")
    parts = [] if whole else [_within(seconds, 60, "second")]
    if whole or len(minutes) < 60:
        parts.append(_within(minutes, 60, "minute"))
    elif parts[0].startswith("at"):
        parts.append("of every minute")
    if len(hours) < 24:
        parts.append("during " + spans(hours, lambda hour: f"{hour:02}:00-{hour:02}:59", merged=_hour_span))
    elif parts[-1].startswith("at"):
        parts.append("of every hour")
    return " ".join(parts)


def _hour_span(first: int, last: int) -> str:
    return f"{first:02}:00-{last:02}:59"


def _within(values: Sequence[int], span: int, unit: str) -> str:
    """Seconds of a minute, minutes of an hour, or whole hours of a day."""
    if len(values) == span:
        return f"every {unit}"
    step = _step(values, span)
    if step:
        start = f" from {unit} {values[0]}" if values[0] else ""
        return f"every {step} {unit}s{start}"
    if unit == "hour":
        text = spans(values, lambda hour: f"{hour:02}:00", merged=_hours_hourly)
        return text if text.startswith("every") else f"at {text}"
    return f"at {unit}{'s' if len(values) > 1 else ''} " + spans(values, str)


def _hours_hourly(first: int, last: int) -> str:
    return f"every hour from {first:02}:00 to {last:02}:00"


def _step(values: Sequence[int], span: int) -> int:
    """n when these are every n-th of the whole span, evenly also from the last to the next first; else 0."""
    if len(values) < 3:
        return 0
    step = values[1] - values[0]
    even = all(b - a == step for a, b in pairwise(values))
    return step if even and span % step == 0 and len(values) == span // step else 0


def _days(expression: Expression) -> str:
    rule = expression.times.days
    day = _day_words(rule.day)
    weekday = _weekday_words(rule.weekday)
    if rule.both:
        return " ".join(part for part in (day, f"if it is {weekday}" if day and weekday else weekday) if part)
    # a field that holds every day without a star makes the other one idle
    if not day or not weekday:
        return ""
    return f"{day} and also {weekday}"


def _day_words(field: Parsed) -> str:
    parts = []
    if len(field.values) == 31:
        return ""
    if field.values:
        plural = "s" if len(field.values) > 1 else ""
        parts.append(f"day{plural} {spans(sorted(field.values), str)}")
    parts += ["the last day" if not back else f"the last day but {back}" for back in sorted(field.from_end)]
    parts += [f"the working day nearest to day {day}" for day in sorted(field.near)]
    parts += [
        "the last working day" if not back else f"the working day nearest to the last day but {back}"
        for back in sorted(field.near_end)
    ]
    return f"on {listed(parts)} of the month"


def _weekday_words(field: Parsed) -> str:
    if len(field.values) == 7:
        return ""
    parts = []
    if field.values:
        # the week begins on Monday here, so that Saturday and Sunday are neighbours
        days = sorted((value - 1) % 7 for value in field.values)
        parts.append(spans(days, lambda value: WEEKDAYS[(value + 1) % 7]))
    parts += [f"the {ORDINALS[nth - 1]} {WEEKDAYS[day]} of the month" for day, nth in sorted(field.nth)]
    parts += [f"the last {WEEKDAYS[day]} of the month" for day in sorted(field.last)]
    return f"on {listed(parts)}"
