"""What the end of an instance brings with it: counters, the next in line, the next fire, retention."""

from __future__ import annotations

from itertools import islice

from raftsched.core.apply.tx import Tx, listed_by_job
from raftsched.core.intervals import next_every
from raftsched.core.model import EveryMode, Instance, InstanceState, Job, JobState, TriggerKind
from raftsched.core.tables import Table, after, by_job_key, from_by_job, u64
from raftsched.core.transitions import instance_after, job_after

GOOD = (InstanceState.SUCCEEDED,)
BAD = (InstanceState.FAILED, InstanceState.TIMED_OUT)
OTHER = (InstanceState.KILLED, InstanceState.SKIPPED)
LOOK_MAX = 5_000  # rows that one end looks at for them
DROP_MAX = 8  # instances that one end drops at most


def finish(tx: Tx, job: Job, instance: Instance, event: str) -> None:
    """Brings an active instance to the final state that the event leads to, and lets the next in line go. The caller
    stores job and instance afterwards, and settles the job when nothing more is to happen to it."""
    if instance.held:
        tx.clear_held(job, instance)
    elif instance.state is InstanceState.WAITING:
        tx.clear_ready(instance)
    tx.set_wake(instance, None)
    instance.state = instance_after(instance.state, event)
    instance.ended_at_ms = tx.now
    job.active -= 1
    count(job, instance.state, 1)
    if instance.state in BAD:
        instance.dead_letter = True
        job.failures_in_a_row += 1
        _suspend_if_failing(tx, job, instance)
    elif instance.state is InstanceState.SUCCEEDED:
        job.failures_in_a_row = 0
    keep(tx, job, instance)
    release(tx, job)


def count(job: Job, state: InstanceState, change: int) -> None:
    """One instance more or less is kept in this final state."""
    if state is InstanceState.SUCCEEDED:
        job.succeeded += change
    elif state in BAD:
        job.failed += change
    else:
        job.others += change


def _suspend_if_failing(tx: Tx, job: Job, instance: Instance) -> None:
    limit = job.policy.suspend_after
    if limit is None or job.failures_in_a_row < limit or job.state is not JobState.SCHEDULED:
        return
    if job.policy.trigger.once:
        return  # there is nothing left to suspend
    stop_schedule(tx, job)
    job.state = job_after(job.state, "pause")
    job.modified_at_ms = tx.now
    job.error = f"Suspended after {job.failures_in_a_row} failures in a row: {instance.error or instance.reason}"


def keep(tx: Tx, job: Job, instance: Instance) -> None:
    """Retention of what just became final: by age through PURGE, by count here. The caller stores both."""
    if not listed_by_job(job, instance):
        return
    tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
    retention = job.policy.retention
    tx.set_instance_purge(instance, tx.now + retention.max_age_ms)
    if job.succeeded > retention.succeeded:
        _drop_oldest(tx, job, GOOD, instance, job.succeeded - retention.succeeded)
    if job.failed > retention.failed:
        _drop_oldest(tx, job, BAD, instance, job.failed - retention.failed)
    if job.others > retention.failed:
        _drop_oldest(tx, job, OTHER, instance, job.others - retention.failed)


def _drop_oldest(tx: Tx, job: Job, states: tuple[InstanceState, ...], current: Instance, surplus: int) -> None:
    """A few at a time: a retention that was lowered is reached over the next ends. They are looked for among the oldest
    rows only; where the history of another outcome is longer than that, age has to do."""
    prefix = u64(job.id)
    surplus = min(surplus, DROP_MAX)
    oldest: list[bytes] = []
    for key, state in islice(tx.view.scan(Table.BY_JOB, prefix, after(prefix)), LOOK_MAX):
        if state[0] in states:
            oldest.append(from_by_job(key))
            if len(oldest) >= surplus:
                break
    for instance_key in oldest:
        if instance_key == current.key:
            tx.set_instance_purge(current, tx.now)  # the caller stores it; the next pruning takes it
            continue
        row = tx.instance(instance_key)
        if row is not None:
            drop_instance(tx, job, row)


def drop_instance(tx: Tx, job: Job | None, instance: Instance) -> None:
    """Deletes a final instance and its index rows."""
    tx.set_instance_purge(instance, None)
    tx.view.delete(Table.BY_JOB, by_job_key(instance.key))
    tx.view.delete(Table.INSTANCES, instance.key)
    if job is not None:
        if job.gap == instance.key:
            job.gap = None
        count(job, instance.state, -1)


def release(tx: Tx, job: Job) -> None:
    """Lets the first held instance of the job go, when nothing else of it is active."""
    if not job.held or job.active > job.held:
        return
    prefix = u64(job.id)
    for key, _ in tx.view.scan(Table.HELD, prefix, after(prefix)):
        instance = tx.instance(key[16:])
        break
    else:
        return
    if instance is None:
        return
    tx.clear_held(job, instance)
    instance.ready_at_ms = tx.now
    instance.reason = None
    become_ready(tx, job, instance)
    tx.put_instance(instance)


def become_ready(tx: Tx, job: Job, instance: Instance) -> None:
    """In the queue for a worker. What became due by itself and recurs waits no longer than the start deadline; what
    somebody asked for, and a one-shot, wait as long as it takes."""
    tx.set_ready(instance)
    if not instance.request and not job.policy.trigger.once and not instance.attempts:
        tx.set_wake(instance, tx.now + tx.meta.settings.start_deadline_ms)


def stop_schedule(tx: Tx, job: Job) -> None:
    """No more fires by themselves. A one-shot keeps its time, so that resuming finds it again."""
    nominal = job.nominal_at_ms if job.policy.trigger.once else None
    tx.set_due(job, None)
    tx.set_unscheduled(job, False)
    job.nominal_at_ms = nominal


def settle(tx: Tx, job: Job) -> None:
    """What is due when nothing of the job is active: the next fire of a fixed delay, the end of a job, its removal."""
    if job.active:
        return
    trigger = job.policy.trigger
    drop_revisions(tx, job)
    if job.state is JobState.DELETED:
        tx.set_job_purge(job, tx.now)
        return
    if job.state is JobState.SCHEDULED and job.nominal_at_ms is None:
        if exhausted(tx, job):
            exhaust(tx, job)
        elif trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_DELAY:
            upcoming = next_every(trigger, tx.now, job.anchor_at_ms)
            if upcoming is None:
                exhaust(tx, job)
            else:
                tx.set_due(job, upcoming)
    if job.state is JobState.EXPIRED and trigger.once:
        settings = tx.meta.settings
        bad = job.failures_in_a_row > 0
        tx.set_job_purge(job, tx.now + (settings.once_failed_keep_ms if bad else settings.once_succeeded_keep_ms))


def exhausted(tx: Tx, job: Job) -> bool:
    """Whether a scheduled job without a next time will never fire again."""
    trigger = job.policy.trigger
    if trigger.kind is TriggerKind.MANUAL:
        return False
    if trigger.once:
        return job.runs > 0
    if trigger.max_runs is not None and job.runs >= trigger.max_runs:
        return True
    if trigger.needs_calendar:
        return tx.view.get(Table.UNSCHEDULED, u64(job.id)) is None
    return trigger.mode is EveryMode.FIXED_RATE


def exhaust(tx: Tx, job: Job) -> None:
    job.state = job_after(job.state, "exhaust")
    job.modified_at_ms = tx.now


def drop_revisions(tx: Tx, job: Job) -> None:
    """Older revisions are kept only while an instance may still run them."""
    if job.revision == 1:
        return
    prefix = u64(job.id)
    for key, _ in list(tx.view.scan(Table.REVISIONS, prefix, after(prefix))):
        tx.view.delete(Table.REVISIONS, key)
