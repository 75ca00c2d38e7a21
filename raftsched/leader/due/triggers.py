"""Computes with a job's trigger and calendar: shared by firing and scheduling.

A trigger whose times this host cannot compute (its time zone data lacks the zone, say) suspends its job, with the error
on it: it must not keep the others from firing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import raftsched.schedule.standard  # noqa: F401  croniter is there before the first trigger is
from raftsched import schedule
from raftsched.core.commands import SetJobState
from raftsched.core.ids import job_text
from raftsched.core.model import Job, JobState, Trigger, TriggerState
from raftsched.core.rows import decode_calendar
from raftsched.core.subjects.calendar import Calendar
from raftsched.core.tables import ReadView, Table

log = logging.getLogger("raftsched.leader")


NOT_YET_MAX = 100  # times of one fire that are listed though their jitter is not over yet


class CalendarJob(NamedTuple):
    """A job with the calendars of its triggers, as of the same moment."""

    job: Job
    calendar: Calendar | None
    calendars: tuple[Calendar | None, ...] = ()  # where it has several triggers: that of each


def with_calendars(view: ReadView, job: Job) -> CalendarJob:
    """Reads the calendars that the job's triggers name. None: a trigger names none, or that one is gone."""
    if job.triggers:
        return CalendarJob(job, None, tuple(_calendar_of(view, trigger) for trigger in job.policy.triggers))
    return CalendarJob(job, _calendar_of(view, job.policy.trigger))


def _calendar_of(view: ReadView, trigger: Trigger) -> Calendar | None:
    name = trigger.calendar
    raw = None if name is None else view.get(Table.CALENDARS, name.encode())
    return None if raw is None else decode_calendar(raw)


class _Arguments(TypedDict):
    anchor_ms: int
    hash_id: int
    calendar: bytes | None


# What a Fire says after the nominal time: the next one; the missed ones, how many these are, the last of them; the
# revision of the calendar; and whether it excludes all times ahead
FireFields = tuple[int | None, tuple[int, ...], int, int | None, int, bool]


@dataclass(slots=True)
class Source:
    """A trigger of a job, with what only it or its job knows: what its times are counted from, and its calendar."""

    trigger: Trigger
    anchor_ms: int
    hash_id: int
    calendar: Calendar | None

    @property
    def revision(self) -> int:
        return 0 if self.calendar is None else self.calendar.revision

    @property
    def _arguments(self) -> _Arguments:
        content = None if self.calendar is None else self.calendar.content
        return {"anchor_ms": self.anchor_ms, "hash_id": self.hash_id, "calendar": content}

    def next_after(self, after_ms: int) -> tuple[int | None, bool]:
        """Returns the next time, and whether there is none because the calendar excludes all there are."""
        found = schedule.next_nominal(self.trigger, after_ms, **self._arguments)
        return found, found is None and self._excludes_all(after_ms)

    def gap_after(self, nominal_at_ms: int | None) -> int | None:
        """Returns the time from a nominal time to the next one, which bounds its jitter; None: nothing bounds it."""
        if nominal_at_ms is None or not self.trigger.jitter_ms or not self.trigger.needs_calendar:
            return None
        following, _ = self.next_after(nominal_at_ms)
        return None if following is None else following - nominal_at_ms

    def is_fixed(self) -> bool:
        """Returns whether the trigger names hours: what clocks show decides, and not how much time went by."""
        return schedule.is_fixed(self.trigger, anchor_ms=self.anchor_ms, hash_id=self.hash_id)

    def last_until(self, after_ms: int, until_ms: int) -> int | None:
        """Returns the last time after `after_ms` and up to `until_ms`."""
        return schedule.missed(self.trigger, after_ms, until_ms, keep=0, **self._arguments).until_ms

    def _excludes_all(self, after_ms: int) -> bool:
        return schedule.never_fires(self.trigger, after_ms, anchor_ms=self.anchor_ms, hash_id=self.hash_id)

    def fire_fields(self, nominal_at_ms: int, now_ms: int, catch_up_max: int, run_until_ms: int) -> FireFields | None:
        """Returns what only the leader computes: what was missed after a nominal time that is due, and the next time.
        None: the calendar excludes that time, as it is now. `run_until_ms`: what is due up to then is that time, too;
        else the time itself."""
        trigger, arguments = self.trigger, self._arguments
        if not trigger.needs_calendar:
            return None, (), 0, None, 0, False
        if schedule.is_excluded(trigger, nominal_at_ms, arguments["calendar"]):
            return None
        upcoming, never = self.next_after(run_until_ms)
        if upcoming is None or upcoming > now_ms:
            return upcoming, (), 0, None, self.revision, never
        # One more than may run, for the last of those that may not ends their gap; and those whose jitter is not over.
        keep = catch_up_max + 1
        if trigger.jitter_ms:
            recent = schedule.missed(trigger, now_ms - trigger.jitter_ms, now_ms, keep=0, **arguments)
            keep += min(recent.count, NOT_YET_MAX)
        missed = schedule.missed(trigger, run_until_ms, now_ms, keep=keep, **arguments)
        upcoming, never = self.next_after(now_ms)
        return upcoming, missed.times, missed.count, missed.until_ms, self.revision, never


def source_of(found: CalendarJob) -> Source:
    """Returns the one trigger of a job."""
    job = found.job
    return Source(job.policy.trigger, job.anchor_at_ms, job.hash_id, found.calendar)


def sources_of(found: CalendarJob) -> list[tuple[Source, TriggerState]]:
    """Returns the triggers of a job that has several, each with its state."""
    job = found.job
    rows = zip(job.policy.triggers, job.triggers, found.calendars, strict=True)
    return [(Source(trigger, state.anchor_at_ms, job.hash_id, calendar), state) for trigger, state, calendar in rows]


def suspend(job: Job, error: Exception) -> SetJobState:
    """Makes the command that suspends a job whose times cannot be computed, with the reason."""
    log.error(
        "job %s is suspended, its next time cannot be computed",
        job_text(job.id),
        exc_info=error,
        extra={"job": job_text(job.id)},
    )
    reason = f"Its next time cannot be computed: {error or type(error).__name__}"
    return SetJobState(job.id, JobState.SUSPENDED, if_revision=job.revision, error=reason)
