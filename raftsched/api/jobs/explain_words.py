"""The words of an explanation of a job: why it is not due, or when it is, and what moves its times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from raftsched import schedule
from raftsched.api.http.durations import format_time
from raftsched.api.jobs.moved_words import moved_words
from raftsched.api.jobs.render import never_fires
from raftsched.api.runs.explain_words import error_words
from raftsched.api.runs.waiting import Obstacle, time_words
from raftsched.core.model import AfterOn, EveryMode, Job, JobState, Trigger, TriggerKind
from raftsched.quantities import format_duration
from raftsched.schedule import TriggerError

OVERDUE_MS = 1_000  # what is due is fired within less
_ENDS = {AfterOn.SUCCEEDED: "succeeded", AfterOn.FAILED: "failed or timed out", AfterOn.ENDED: "ended"}


@dataclass(frozen=True, slots=True)
class Change:
    """The request that gave a job its state: whose it was, and when. `who`: empty: nobody knows."""

    who: str
    at_ms: int | None


def state_word(state: JobState) -> str:
    """Returns what people call the state of a job."""
    return "FINISHED" if state is JobState.EXPIRED else state.name


def head_words(job: Job, next_ms: int | None, now_ms: int) -> str:
    """Returns a sentence about the state of a job and its next time, as it is fired."""
    text = f"It is {state_word(job.state)}"
    if job.state is not JobState.SCHEDULED:
        return f"{text}."
    if next_ms is None:
        return f"{text}, without a next time."
    return f"{text}, due {time_words(next_ms, now_ms)}."


def not_due(job: Job, now_ms: int, change: Change, *, owed: bool) -> Obstacle | None:
    """Returns why nothing of the job is due, or that what is due was not fired; None: it has a time ahead. `change`:
    what gave it its state. `owed`: the leader has to compute its next time."""
    match job.state:
        case JobState.NEW:
            return Obstacle("paused", f"{_created(job)}{_past(job, now_ms)}{_until(job, now_ms)}")
        case JobState.SUSPENDED:
            return _suspended(job, now_ms, change)
        case JobState.EXPIRED:
            return _over(job, now_ms, change)
    if job.never_fires:
        return Obstacle("calendar", never_fires(job))
    if job.fire_at_ms is not None:
        return _overdue(job, job.fire_at_ms, now_ms)
    return _without_time(job, now_ms, owed=owed)


def _created(job: Job) -> str:
    return f"{job.by or 'Somebody'} created it suspended at {format_time(job.created_at_ms)}."


def _suspended(job: Job, now_ms: int, change: Change) -> Obstacle:
    if job.error is not None:
        if _is_failing(job):
            return Obstacle("failing", f"{error_words(job.error)}.{_until(job, now_ms)}")
        return Obstacle("times", f"It was suspended. {error_words(job.error)}.{_until(job, now_ms)}")
    at = "" if change.at_ms is None else f" at {format_time(change.at_ms)}"
    return Obstacle("paused", f"{change.who or 'Somebody'} paused it{at}.{_past(job, now_ms)}{_until(job, now_ms)}")


def _is_failing(job: Job) -> bool:
    limit = job.policy.suspend_after
    return limit is not None and job.failures_in_a_row >= limit


def _until(job: Job, now_ms: int) -> str:
    if job.resume_at_ms is not None:
        return f" It is due again by itself {time_words(job.resume_at_ms, now_ms)}."
    return " Nothing of it is due until somebody resumes it."


def _past(job: Job, now_ms: int) -> str:
    """Returns a sentence, behind a space, about a one-shot whose time went by while it was suspended; else nothing."""
    if not job.policy.trigger.once or job.nominal_at_ms is None or job.nominal_at_ms > now_ms:
        return ""
    return f" Its time, {format_time(job.nominal_at_ms)}, is past: it runs at once when it is resumed."


def _over(job: Job, now_ms: int, change: Change) -> Obstacle:
    at = "" if change.at_ms is None else f" at {format_time(change.at_ms)}"
    by_hand = Obstacle("expired", f"{change.who or 'Somebody'} expired it{at}: nothing of it is due any more.")
    return _used_up(job, now_ms) or by_hand


def _used_up(job: Job, now_ms: int) -> Obstacle | None:
    """Returns why its triggers have no time any more; None: they have, or could have."""
    trigger, ends = job.policy.trigger, [one.ends_at_ms for one in job.policy.all_triggers]
    if trigger.max_runs is not None and job.runs >= trigger.max_runs:
        times = "once" if job.runs == 1 else f"{job.runs} times"
        return Obstacle("max_runs", f"It has run {times}, as often as its max_runs says.")
    if trigger.once:
        return Obstacle("ran", "It was due once, and that run was made.") if job.runs else None
    last = max((end for end in ends if end is not None), default=None)
    if last is not None and None not in ends and last <= now_ms:
        return Obstacle("ended", f"Its ends_at was {format_time(last)}: nothing of it is due after that.")
    return None if _has_times(job, now_ms) else Obstacle("over", "Its trigger has no time any more.")


def _has_times(job: Job, now_ms: int) -> bool:
    """Returns whether one of its triggers has a time ahead, whatever a calendar says of it."""
    policy = job.policy
    if policy.trigger.kind in (TriggerKind.MANUAL, TriggerKind.AFTER):
        return True
    anchors = [state.anchor_at_ms for state in job.triggers] or [job.anchor_at_ms]
    for trigger, anchor_ms in zip(policy.all_triggers, anchors, strict=True):
        try:
            plain = without_calendar(trigger)
            if schedule.next_nominal(plain, now_ms, anchor_ms=anchor_ms, hash_id=job.hash_id) is not None:
                return True
        except TriggerError:  # another node knew its zone when it was accepted
            return True
    return False


def without_calendar(trigger: Trigger) -> Trigger:
    return msgspec.structs.replace(trigger, calendar=None, calendar_moves=False)


def _overdue(job: Job, fire_at_ms: int, now_ms: int) -> Obstacle | None:
    late_ms = now_ms - fire_at_ms
    if late_ms < OVERDUE_MS:
        return None
    when = f"at {format_time(fire_at_ms)}, {format_duration(late_ms)} ago"
    return Obstacle("overdue", f"It was due {when}, and the leader has not started it yet.")


def _without_time(job: Job, now_ms: int, *, owed: bool) -> Obstacle | None:
    trigger = job.policy.trigger
    if owed:
        return Obstacle("unscheduled", "The leader has not computed its next time yet: it does so within seconds.")
    if trigger.kind is TriggerKind.MANUAL:
        return Obstacle("manual", "It has no schedule: it runs when somebody starts it by hand.")
    if trigger.kind is TriggerKind.AFTER and trigger.after is not None:
        after = trigger.after
        which = ", ".join(after.jobs[:5]) + (f" and {len(after.jobs) - 5} more" if len(after.jobs) > 5 else "")
        how = "when the first run of one of" if after.any_of and len(after.jobs) > 1 else "when a run of"
        each = " each" if len(after.jobs) > 1 and not after.any_of else ""
        return Obstacle("follows", f"It has no schedule: it runs {how} {which}{each} has {_ENDS[after.on]}.")
    if trigger.mode is EveryMode.FIXED_DELAY and job.active:
        return Obstacle("fixed_delay", "Its next time counts from the end of the run that is active.")
    return _used_up(job, now_ms)  # its last run goes on: else it were over


def schedule_notes(job: Job, now_ms: int) -> Iterator[Obstacle]:
    """Yields what moves the times of a job, or leaves some of them out. What else does has its place here."""
    if job.state in (JobState.EXPIRED, JobState.DELETED):
        return
    limit = job.policy.trigger.max_runs
    if moved := moved_words(job, job.nominal_at_ms):
        yield Obstacle("time_zone_data", moved)
    if job.skipped_until_ms is not None and job.skipped_until_ms > now_ms:
        until = format_time(job.skipped_until_ms)
        yield Obstacle("skip_next", f"Its times up to {until} are left out: somebody asked for that.")
    for trigger in job.policy.all_triggers:
        name = f"Its trigger {trigger.id}" if trigger.id else "Its trigger"
        if trigger.starts_at_ms is not None and trigger.starts_at_ms > now_ms:
            yield Obstacle("starts_at", f"{name} begins {time_words(trigger.starts_at_ms, now_ms)}.")
        if trigger.ends_at_ms is not None:
            yield Obstacle("ends_at", f"{name} ends at {format_time(trigger.ends_at_ms)}.")
        if trigger.jitter_ms:
            yield _jitter(job, trigger, name)
    for trigger, state in zip(job.policy.triggers, job.triggers, strict=True):
        if state.over:
            yield Obstacle("trigger_over", f"Its trigger {trigger.id} has no time any more.")
        elif state.never_fires:
            text = f"All times ahead of its trigger {trigger.id} are excluded by the calendar {trigger.calendar}."
            yield Obstacle("trigger_over", text)
    if limit is not None:
        yield Obstacle("runs_left", f"It has run {job.runs} of the {limit} times that its max_runs lets it.")


def _jitter(job: Job, trigger: Trigger, name: str) -> Obstacle:
    text = f"{name} puts each time off by up to {format_duration(trigger.jitter_ms)} of jitter"
    if not job.triggers and job.fire_at_ms is not None and job.nominal_at_ms is not None:
        put_off = format_duration(job.fire_at_ms - job.nominal_at_ms)
        text += f": the next, {format_time(job.nominal_at_ms)}, by {put_off}"
    return Obstacle("jitter", f"{text}.")


def left_out_words(trigger: Trigger, count: int, first_ms: int, last_ms: int) -> str:
    """Returns a sentence about the next times of a trigger, which its calendar excludes."""
    does = "moves" if trigger.calendar_moves else "leaves out"
    whose = f" of its trigger {trigger.id}" if trigger.id else ""
    if count == 1:
        return f"The calendar {trigger.calendar} {does} the next time{whose}, {format_time(first_ms)}."
    return (
        f"The calendar {trigger.calendar} {does} the next {count:,} times{whose}, from {format_time(first_ms)} to "
        f"{format_time(last_ms)}."
    )
