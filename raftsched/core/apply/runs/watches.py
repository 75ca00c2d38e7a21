"""Watches: an instance that is late or runs long, a job that has not succeeded for so long. See core.subjects.watches.

What is told does not depend on when the leader asks for a look: a start or an end that comes first tells what it finds
has been reached, and each limit is told once.
"""

from __future__ import annotations

from raftsched.core.apply.cluster import cluster_notices
from raftsched.core.apply.cluster.cluster_notices import ABOUT
from raftsched.core.apply.runs.notices import tell, tell_of_job, tell_started
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer
from raftsched.core.model import Instance, Job
from raftsched.core.subjects.notices import Event
from raftsched.core.subjects.watches import RECENT_MAX, Watch, asks, counts_from, limits_of, not_run_since, split_ms
from raftsched.core.tables import from_u64

_ID_SIZE = 8  # bytes of a job's id


def check_limits(tx: Tx, c: Watch) -> Answer:
    """Tells of the limits that are reached, and sets the time of the next one."""
    if c.about[:1] == ABOUT:
        return cluster_notices.send_summary(tx, c.about[1:], c.at_ms)
    if len(c.about) == _ID_SIZE:
        return _look_at_job(tx, c)
    instance = tx.instance(c.about)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or instance.watch_at_ms != c.at_ms:
        return STALE
    _tell_reached(tx, job, instance, c.at_ms)
    watch(job, instance)
    tx.put_instance(instance)
    return Accepted()


def _look_at_job(tx: Tx, c: Watch) -> Answer:
    job = tx.job(from_u64(c.about))
    if job is None or job.watch_at_ms != c.at_ms:
        return STALE
    since_ms = not_run_since(job)
    for one in job.policy.notify:
        if asks(one, Event.NOT_RUN_SINCE) and job.not_run_told_ms < since_ms + one.not_run_ms <= c.at_ms:
            tell_of_job(tx, job, one.webhook, Event.NOT_RUN_SINCE, since_ms, one.not_run_ms)
    job.not_run_told_ms = c.at_ms
    tx.put_job(job)
    return Accepted()


def watch(job: Job, instance: Instance) -> None:
    """Sets when the next limit of the instance is reached. The caller stores it."""
    since_ms = counts_from(instance)
    instance.watch_at_ms = min((since_ms + limit_ms for _, _, limit_ms in limits_of(job, instance)), default=None)


def note_start(tx: Tx, job: Job, instance: Instance, at_ms: int) -> None:
    """Tells of a start, and that it was late; from now on it is watched that it does not run long. The caller stores
    the instance, of which the start was noted."""
    if instance.parent is not None:
        return
    if instance.watch_at_ms is not None:  # it was due, and not all were told by now that it is late
        _tell_late(tx, job, instance, at_ms)
    if tx.meta.webhooks:
        tell_started(tx, job, instance)
    watch(job, instance)


def note_end(tx: Tx, job: Job, instance: Instance, at_ms: int) -> None:
    """Tells what was reached until an attempt ended, or an instance at its end that never started. The caller stores
    it."""
    if instance.watch_at_ms is not None:
        _tell_reached(tx, job, instance, at_ms)
        instance.watch_at_ms = None


def note_success(job: Job, instance: Instance) -> None:
    """Keeps what the run took, where the job asks to be told of what takes longer than usual, and lets the time begin
    anew in which it has to succeed again. The caller stores the job."""
    job.not_run_told_ms = 0
    if any(one.p95_percent for one in job.policy.notify):
        took_ms = _took_ms(instance)
        if took_ms is not None:
            job.recent_ms = (*job.recent_ms, took_ms)[-RECENT_MAX:]
    elif job.recent_ms:
        job.recent_ms = ()


def _took_ms(instance: Instance) -> int | None:
    if instance.parts is not None:
        since_ms = split_ms(instance)
        return None if since_ms is None or instance.ended_at_ms is None else max(0, instance.ended_at_ms - since_ms)
    last = instance.attempts[-1] if instance.attempts else None
    if last is None or last.started_at_ms is None or last.ended_at_ms is None:
        return None
    return max(0, last.ended_at_ms - last.started_at_ms)


def _tell_late(tx: Tx, job: Job, instance: Instance, started_at_ms: int) -> None:
    due_at_ms = instance.due_at_ms
    for one in job.policy.notify:
        if asks(one, Event.LATE) and due_at_ms + one.late_ms < started_at_ms:
            tell(tx, job, instance, one.webhook, Event.LATE, due_at_ms, one.late_ms)


def _tell_reached(tx: Tx, job: Job, instance: Instance, at_ms: int) -> None:
    since_ms = counts_from(instance)
    for one, event, limit_ms in limits_of(job, instance):
        if since_ms + limit_ms <= at_ms:
            tell(tx, job, instance, one.webhook, event, since_ms, limit_ms)
