"""Turns due times into Fire commands, and gives calendar jobs their next time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from raftsched import schedule
from raftsched.core.apply.tx import decode_job
from raftsched.core.commands import Fire, ScheduleJob, Wake
from raftsched.core.ids import instance_key
from raftsched.core.model import Job, JobState, Overlap
from raftsched.core.tables import ReadView, Table, u64

Read = Callable[[], AbstractContextManager[ReadView]]


def fire_command(job: Job, now_ms: int, catch_up_max: int) -> Fire:
    """For calendar triggers with what only this room can compute: what was missed, and the next time."""
    assert job.nominal_at_ms is not None
    trigger = job.policy.trigger
    if not trigger.needs_calendar:
        return Fire(job.id, job.revision, job.nominal_at_ms)
    upcoming = schedule.next_nominal(trigger, job.nominal_at_ms, job_id=job.id)
    if upcoming is None or upcoming > now_ms:
        return Fire(job.id, job.revision, job.nominal_at_ms, upcoming)
    missed = schedule.missed(trigger, job.nominal_at_ms, now_ms, keep=catch_up_max, job_id=job.id)
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


def schedule_command(job: Job, now_ms: int) -> ScheduleJob:
    """The first time of a calendar trigger from now on: taking a schedule up never catches up."""
    return ScheduleJob(job.id, job.revision, schedule.next_nominal(job.policy.trigger, now_ms, job_id=job.id))


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
