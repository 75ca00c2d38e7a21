"""Turns due times into Fire commands, and gives calendar jobs their next time.

A trigger whose times this host cannot compute (its time zone data lacks the zone, say) suspends its job, with the error
on it: it must not keep the others from firing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

from raftsched import schedule
from raftsched.core.apply.tx import decode_job
from raftsched.core.commands import Fire, ScheduleJob, SetJobState, Wake
from raftsched.core.ids import instance_key, job_text
from raftsched.core.model import Job, JobState, Overlap
from raftsched.core.tables import ReadView, Table, u64

Read = Callable[[], AbstractContextManager[ReadView]]


log = logging.getLogger("raftsched.leader")


def fire_command(job: Job, now_ms: int, catch_up_max: int) -> Fire | SetJobState:
    """For calendar triggers with what only this room can compute: what was missed, and the next time."""
    try:
        return _fire(job, now_ms, catch_up_max)
    except Exception as error:
        return _suspend(job, error)


def _suspend(job: Job, error: Exception) -> SetJobState:
    log.error("job %s is suspended, its next time cannot be computed", job_text(job.id), exc_info=error)
    reason = f"Its next time cannot be computed: {error or type(error).__name__}"
    return SetJobState(job.id, JobState.SUSPENDED, if_revision=job.revision, error=reason)


def _fire(job: Job, now_ms: int, catch_up_max: int) -> Fire:
    assert job.nominal_at_ms is not None
    trigger = job.policy.trigger
    if not trigger.needs_calendar:
        return Fire(job.id, job.revision, job.nominal_at_ms)
    upcoming = schedule.next_nominal(trigger, job.nominal_at_ms, job_id=job.id)
    if upcoming is None or upcoming > now_ms:
        return Fire(job.id, job.revision, job.nominal_at_ms, upcoming)
    # one more than may run: the last of those that may not ends their gap
    missed = schedule.missed(trigger, job.nominal_at_ms, now_ms, keep=catch_up_max + 1, job_id=job.id)
    return Fire(
        job.id,
        job.revision,
        job.nominal_at_ms,
        schedule.next_nominal(trigger, now_ms, job_id=job.id),
        missed.times,
        missed.count,
        missed.until_ms,
    )


def due_jobs(read: Read, job_ids: list[bytes], now_ms: int) -> list[Job]:
    """The jobs among these (8-byte ids) that are really due now."""
    jobs = []
    with read() as view:
        for key in job_ids:
            raw = view.get(Table.JOBS, key)
            if raw is None:
                continue
            job = decode_job(raw)
            if job.state is JobState.SCHEDULED and job.fire_at_ms is not None and job.fire_at_ms <= now_ms:
                jobs.append(job)
    return jobs


def startable(job: Job) -> bytes | None:
    """The key of the instance that this fire will make ready at once, when that can be said beforehand."""
    if job.nominal_at_ms is None or (job.active and job.policy.overlap is not Overlap.ALLOW):
        return None
    return instance_key(job.nominal_at_ms, job.id)


def schedule_command(job: Job, now_ms: int) -> ScheduleJob | SetJobState:
    """The first time of a calendar trigger from now on: taking a schedule up never catches up."""
    try:
        nominal = schedule.next_nominal(job.policy.trigger, now_ms, job_id=job.id)
    except Exception as error:
        return _suspend(job, error)
    return ScheduleJob(job.id, job.revision, nominal)


def owed(read: Read) -> list[int]:
    """Ids of calendar jobs that wait for their next time."""
    with read() as view:
        return [int.from_bytes(key, "big") for key, _ in view.scan(Table.UNSCHEDULED)]


def waiting_job(read: Read, job_id: int) -> Job | None:
    with read() as view:
        raw = view.get(Table.JOBS, u64(job_id))
        if raw is None or view.get(Table.UNSCHEDULED, u64(job_id)) is None:
            return None
    return decode_job(raw)


def wake_command(at_ms: int, key: bytes) -> Wake:
    return Wake(key, at_ms)
