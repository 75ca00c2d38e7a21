"""Turns due times into Fire commands, and gives calendar jobs their next time.

A trigger whose times this host cannot compute (its time zone data lacks the zone, say) suspends its job, with the error
on it: it must not keep the others from firing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice
from typing import NamedTuple, TypedDict

import raftsched.schedule.standard  # noqa: F401  croniter is there before the first trigger is
from raftsched import schedule
from raftsched.core.calendars import Calendar, OweAnew
from raftsched.core.commands import Fire, ScheduleJob, SetJobState, Wake
from raftsched.core.concurrency import going_max, has_room
from raftsched.core.ids import instance_key, job_text
from raftsched.core.model import EveryMode, Job, JobState, MisfirePolicy, Overlap, TriggerKind
from raftsched.core.rows import decode_calendar, decode_job
from raftsched.core.tables import ReadView, Table, from_u64, u64

Read = Callable[[], AbstractContextManager[ReadView]]

NOT_YET_MAX = 100  # times of one fire that are listed though their jitter is not over yet


log = logging.getLogger("raftsched.leader")


class _Whose(TypedDict):
    anchor_ms: int
    job_id: int
    calendar: bytes | None


class Due(NamedTuple):
    job: Job
    calendar: Calendar | None  # that of its trigger, as of the same moment


def fire_command(
    job: Job, now_ms: int, catch_up_max: int, calendar: Calendar | None = None
) -> Fire | SetJobState | OweAnew:
    """For calendar triggers with what only this room can compute: what was missed, and the next time. A time that the
    calendar excludes, as it is now, is not fired."""
    try:
        return _fire(job, now_ms, catch_up_max, calendar)
    except MemoryError:  # no fault of the job
        raise
    except Exception as error:
        return _suspend(job, error)


def _suspend(job: Job, error: Exception) -> SetJobState:
    log.error("job %s is suspended, its next time cannot be computed", job_text(job.id), exc_info=error)
    reason = f"Its next time cannot be computed: {error or type(error).__name__}"
    return SetJobState(job.id, JobState.SUSPENDED, if_revision=job.revision, error=reason)


def _fire(job: Job, now_ms: int, catch_up_max: int, calendar: Calendar | None) -> Fire | OweAnew:
    assert job.nominal_at_ms is not None
    trigger = job.policy.trigger
    if not trigger.needs_calendar:
        return Fire(job.id, job.revision, job.nominal_at_ms)
    revision, content = (0, None) if calendar is None else (calendar.revision, calendar.content)
    if schedule.is_excluded(trigger, job.nominal_at_ms, content):
        return OweAnew(job.id, job.revision, job.nominal_at_ms)
    whose: _Whose = {"anchor_ms": job.anchor_at_ms, "job_id": job.id, "calendar": content}
    upcoming = schedule.next_nominal(trigger, job.nominal_at_ms, **whose)
    if upcoming is None or upcoming > now_ms:
        out = upcoming is None and _shut_out(job, job.nominal_at_ms)
        return Fire(job.id, job.revision, job.nominal_at_ms, upcoming, calendar=revision, shut_out=out)
    # One more than may run, for the last of those that may not ends their gap; and those whose jitter is not over yet.
    keep = catch_up_max + 1
    if trigger.jitter_ms:
        recent = schedule.missed(trigger, now_ms - trigger.jitter_ms, now_ms, keep=0, **whose)
        keep += min(recent.count, NOT_YET_MAX)
    missed = schedule.missed(trigger, job.nominal_at_ms, now_ms, keep=keep, **whose)
    upcoming = schedule.next_nominal(trigger, now_ms, **whose)
    return Fire(
        job.id,
        job.revision,
        job.nominal_at_ms,
        upcoming,
        missed.times,
        missed.count,
        missed.until_ms,
        revision,
        upcoming is None and _shut_out(job, now_ms),
    )


def _shut_out(job: Job, after_ms: int) -> bool:
    return schedule.shut_out(job.policy.trigger, after_ms, anchor_ms=job.anchor_at_ms, job_id=job.id)


def due_jobs(read: Read, job_ids: list[bytes], now_ms: int) -> list[Due]:
    """The jobs among these (8-byte ids) that are really due now."""
    jobs = []
    with read() as view:
        for key in job_ids:
            raw = view.get(Table.JOBS, key)
            if raw is None:
                continue
            job = decode_job(raw)
            if job.state is JobState.SCHEDULED and job.fire_at_ms is not None and job.fire_at_ms <= now_ms:
                jobs.append(Due(job, calendar_of(view, job)))
    return jobs


def calendar_of(view: ReadView, job: Job) -> Calendar | None:
    """That of its trigger, if it has one."""
    name = job.policy.trigger.calendar
    raw = None if name is None else view.get(Table.CALENDARS, name.encode())
    return None if raw is None else decode_calendar(raw)


def times_due(job: Job, command: Fire, now_ms: int) -> int:
    """How many nominal times the fire is about: more than one after an outage."""
    trigger = job.policy.trigger
    if trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE and trigger.calendar is None:
        return 1 + max(0, now_ms - command.nominal_at_ms) // trigger.period_ms
    return 1 + command.missed_count


def runs_at_most(job: Job, due: int, catch_up_max: int) -> int:
    """How many instances a fire for so many times may make: what is caught up with is made at once."""
    waiting = job.policy.misfire.policy is MisfirePolicy.ALL and job.policy.overlap is not Overlap.REPLACE
    if due > 1 and not waiting and job.policy.overlap in (Overlap.FORBID, Overlap.QUEUE_ONE, Overlap.REPLACE):
        due = min(due, (going_max(job.policy) or due) + 1)
    return min(due, catch_up_max)


def startable(job: Job) -> bytes | None:
    """The key of the instance that a fire for one time will make ready at once, when that can be said beforehand."""
    if job.nominal_at_ms is None or not has_room(job) or job.policy.conditions:
        return None
    return instance_key(job.nominal_at_ms, job.id)


def schedule_command(
    job: Job, since_ms: int, now_ms: int, calendar: Calendar | None = None
) -> ScheduleJob | SetJobState:
    """The first time of a calendar trigger from when its schedule was taken up (`since_ms`), which may be past: there
    may have been no leader since. Taking up never catches up with what was before. A clock that was set back counts
    from now."""
    try:
        after_ms = max(min(since_ms, now_ms), job.skipped_until_ms or 0)
        trigger = job.policy.trigger
        revision, content = (0, None) if calendar is None else (calendar.revision, calendar.content)
        nominal = schedule.next_nominal(trigger, after_ms, anchor_ms=job.anchor_at_ms, job_id=job.id, calendar=content)
        out = nominal is None and _shut_out(job, after_ms)
    except MemoryError:  # no fault of the job
        raise
    except Exception as error:
        return _suspend(job, error)
    return ScheduleJob(job.id, job.revision, nominal, revision, out)


def owed(read: Read, first: int, most: int) -> list[int]:
    """Ids of calendar jobs that wait for their next time, from the id `first` on."""
    with read() as view:
        return [from_u64(key) for key, _ in islice(view.scan(Table.UNSCHEDULED, u64(first)), most)]


def waiting_job(read: Read, job_id: int) -> tuple[Due, int] | None:
    """A calendar job that waits for its next time, and since when."""
    with read() as view:
        raw = view.get(Table.JOBS, u64(job_id))
        since = view.get(Table.UNSCHEDULED, u64(job_id))
        if raw is None or since is None:
            return None
        job = decode_job(raw)
        return Due(job, calendar_of(view, job)), from_u64(since)


def wake_command(at_ms: int, key: bytes) -> Wake:
    return Wake(key, at_ms)
