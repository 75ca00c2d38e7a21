"""Computes with a job's trigger and calendar: shared by firing and scheduling.

A trigger whose times this host cannot compute (its time zone data lacks the zone, say) suspends its job, with the error
on it: it must not keep the others from firing.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import raftsched.schedule.standard  # noqa: F401  croniter is there before the first trigger is
from raftsched import schedule
from raftsched.core.calendars import Calendar
from raftsched.core.commands import SetJobState
from raftsched.core.ids import job_text
from raftsched.core.model import Job, JobState
from raftsched.core.rows import decode_calendar
from raftsched.core.tables import ReadView, Table

log = logging.getLogger("raftsched.leader")


class CalendarJob(NamedTuple):
    job: Job
    calendar: Calendar | None  # that of its trigger, as of the same moment


def calendar_of(view: ReadView, job: Job) -> Calendar | None:
    """Returns the calendar that the job's trigger names; None: it names none, or that one is gone."""
    name = job.policy.trigger.calendar
    raw = None if name is None else view.get(Table.CALENDARS, name.encode())
    return None if raw is None else decode_calendar(raw)


def never_fires(job: Job, after_ms: int) -> bool:
    """Returns whether the calendar excludes all that the trigger would have after a time."""
    return schedule.never_fires(job.policy.trigger, after_ms, anchor_ms=job.anchor_at_ms, job_id=job.id)


def suspend(job: Job, error: Exception) -> SetJobState:
    """Makes the command that suspends a job whose times cannot be computed, with the reason."""
    log.error("job %s is suspended, its next time cannot be computed", job_text(job.id), exc_info=error)
    reason = f"Its next time cannot be computed: {error or type(error).__name__}"
    return SetJobState(job.id, JobState.SUSPENDED, if_revision=job.revision, error=reason)
