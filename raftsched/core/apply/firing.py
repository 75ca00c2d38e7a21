"""Schedule, fire, run now: how due times become instances. Misfire and overlap are decided here, in the log's order."""

from __future__ import annotations

from raftsched.core.apply.finish import exhaust, settle
from raftsched.core.apply.tx import Tx, listed_by_job, no_job
from raftsched.core.commands import (
    Accepted,
    Answer,
    Fire,
    Rejected,
    RunNow,
    ScheduleJob,
)
from raftsched.core.ids import instance_key
from raftsched.core.intervals import grid_due, next_every
from raftsched.core.model import (
    EveryMode,
    Instance,
    InstanceState,
    Job,
    JobState,
    MisfirePolicy,
    Overlap,
    TriggerKind,
)
from raftsched.core.tables import Table, after, by_job_key, from_by_job, u64

STALE = Rejected("stale")


def schedule_job(tx: Tx, c: ScheduleJob) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.revision != c.revision or job.state is not JobState.SCHEDULED:
        return STALE
    if tx.view.get(Table.UNSCHEDULED, u64(job.id)) is None:
        return STALE
    tx.set_unscheduled(job, False)
    tx.set_due(job, c.nominal_at_ms)
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def fire(tx: Tx, c: Fire) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.state is not JobState.SCHEDULED:
        return STALE
    if job.revision != c.revision or job.nominal_at_ms != c.nominal_at_ms:
        return STALE
    times, total, upcoming = _due_times(tx, job, c)
    tx.set_due(job, None)
    if total > len(times):
        _gap(tx, job, "misfire", c.nominal_at_ms, times[0], total - len(times))
    _run_times(tx, job, times)
    limit = job.policy.trigger.max_runs
    if limit is not None and job.runs >= limit:
        upcoming = None
    if upcoming is not None and job.state is JobState.SCHEDULED:
        tx.set_due(job, upcoming)
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def _due_times(tx: Tx, job: Job, c: Fire) -> tuple[list[int], int, int | None]:
    """(the newest due times, how many are due, the next time after them)"""
    trigger = job.policy.trigger
    keep = tx.meta.settings.catch_up_max
    if trigger.kind is TriggerKind.EVERY:
        if trigger.mode is EveryMode.FIXED_DELAY:
            return [c.nominal_at_ms], 1, None
        times, total = grid_due(trigger, c.nominal_at_ms, tx.now, keep)
        return times, total, next_every(trigger, max(tx.now, c.nominal_at_ms), job.anchor_at_ms)
    if trigger.needs_calendar:
        times = [c.nominal_at_ms, *c.missed][-keep:]
        return times, 1 + c.missed_count, c.next_nominal_at_ms
    return [c.nominal_at_ms], 1, None


def _run_times(tx: Tx, job: Job, times: list[int]) -> None:
    """A one-shot always runs. Of the others, what is later than the grace was missed, and the policy says what then."""
    misfire = job.policy.misfire
    missed: list[int] = []
    if not job.policy.trigger.once:
        missed = [t for t in times if tx.now - t > misfire.grace_ms]
    run = times[len(missed) :]
    if missed:
        if misfire.policy is MisfirePolicy.ALL:
            run = times
        else:
            kept = 1 if misfire.policy is MisfirePolicy.ONCE else 0
            skipped = missed[: len(missed) - kept]
            if skipped:
                _gap(tx, job, "misfire", skipped[0], skipped[-1], len(skipped))
            run = missed[len(skipped) :] + run
    limit = job.policy.trigger.max_runs
    for nominal in run:
        if limit is not None and job.runs >= limit:
            break
        _start(tx, job, nominal)


def _start(tx: Tx, job: Job, nominal_at_ms: int) -> None:
    """A due time becomes an instance, unless overlap says otherwise."""
    refused = overlap(tx, job)
    if refused is not None:
        _gap(tx, job, refused, nominal_at_ms, nominal_at_ms, 1)
        return
    job.runs += 1
    add_instance(tx, job, nominal_at_ms, 0, None, job.policy.priority)


def overlap(tx: Tx, job: Job) -> str | None:
    """Why a further instance may not be made now; None: it may (held, when others are active). Asks what runs to end
    when the policy is to replace it. An instance between attempts counts as active."""
    policy = job.policy.overlap
    if not job.active or policy in (Overlap.ALLOW, Overlap.REPLACE):
        if policy is Overlap.REPLACE and job.active:
            kill_active(tx, job, "replaced")
        return None
    if policy is Overlap.FORBID:
        return "overlap"
    limit = 1 if policy is Overlap.QUEUE_ONE else tx.meta.settings.queue_all_max
    return "overlap" if job.held >= limit else None


def add_instance(
    tx: Tx, job: Job, nominal_at_ms: int, request: int, params: bytes | None, priority: int
) -> Instance:
    instance = Instance(
        job_id=job.id,
        nominal_at_ms=nominal_at_ms,
        request=request,
        state=InstanceState.WAITING,
        job_revision=job.revision,
        priority=priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=tx.now,
        params=params,
    )
    job.gap = None
    job.last_instance = instance.key
    enqueue(tx, job, instance)
    if listed_by_job(job, instance):
        tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
    tx.put_instance(instance)
    return instance


def enqueue(tx: Tx, job: Job, instance: Instance) -> None:
    """Makes a WAITING instance active: held behind others of its job, or ready for a worker."""
    waits = job.active > 0 and job.policy.overlap is not Overlap.ALLOW
    job.active += 1
    if waits:
        instance.reason = "overlap"
        tx.set_held(job, instance)
        return
    tx.set_ready(instance)
    if not job.policy.trigger.once:
        tx.set_wake(instance, tx.now + tx.meta.settings.start_deadline_ms)


def kill_active(tx: Tx, job: Job, reason: str) -> None:
    """Ends what has not started; asks what runs to end."""
    from raftsched.core.apply.instances import end_or_ask

    for key in active_instances(tx, job):
        instance = tx.instance(key)
        if instance is not None:
            end_or_ask(tx, job, instance, reason)


def active_instances(tx: Tx, job: Job) -> list[bytes]:
    """Keys of the job's instances that may not be final, oldest first."""
    keys = []
    own = scheduled_instance(job)
    if own is not None:
        keys.append(own)
    prefix = u64(job.id)
    final = (InstanceState.SUCCEEDED, InstanceState.FAILED, InstanceState.TIMED_OUT)
    for key, state in tx.view.scan(Table.BY_JOB, prefix, after(prefix)):
        if state[0] not in final:
            keys.append(from_by_job(key))
    return keys


def scheduled_instance(job: Job) -> bytes | None:
    """The key of a one-shot's scheduled instance, whether it was made yet or not."""
    trigger = job.policy.trigger
    if trigger.kind is TriggerKind.AT:
        return instance_key(trigger.at_ms, job.id)
    if trigger.kind is TriggerKind.IN:
        return instance_key(job.anchor_at_ms + trigger.period_ms, job.id)
    return None


def _gap(tx: Tx, job: Job, reason: str, first_ms: int, last_ms: int, count: int) -> None:
    """One SKIPPED record per gap: a further skip for the same reason extends the newest record."""
    record = tx.instance(job.gap) if job.gap is not None else None
    if record is not None and record.reason == reason and record.state is InstanceState.SKIPPED:
        record.gap_count += count
        record.gap_until_ms = max(last_ms, record.gap_until_ms or 0)
        tx.put_instance(record)
        return
    key = instance_key(first_ms, job.id)
    if tx.instance(key) is not None:
        return
    record = Instance(
        job_id=job.id,
        nominal_at_ms=first_ms,
        request=0,
        state=InstanceState.SKIPPED,
        job_revision=job.revision,
        priority=job.policy.priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=tx.now,
        reason=reason,
        gap_count=count,
        gap_until_ms=last_ms,
        ended_at_ms=tx.now,
    )
    if listed_by_job(job, record):
        tx.view.put(Table.BY_JOB, by_job_key(key), bytes((record.state,)))
        tx.set_instance_purge(record, tx.now + job.policy.retention.max_age_ms)
    tx.put_instance(record)
    job.gap = key


def run_now(tx: Tx, c: RunNow) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.state is JobState.DELETED:
        return no_job(c.job_id)
    if job.state is JobState.EXPIRED:
        return Rejected("illegal-transition", "The job is EXPIRED; rerun an instance, or create a job anew.")
    if overlap(tx, job) is not None:
        return Rejected(
            "illegal-transition",
            "A run of this job is active and its overlap policy allows no other; wait for it or kill it first.",
        )
    job.modified_at_ms = tx.now
    priority = job.policy.priority if c.priority is None else c.priority
    instance = add_instance(tx, job, tx.now, c.request, c.params, priority)
    tx.put_job(job)
    return Accepted(job=job, instance=instance.key, created=True)


__all__ = ["exhaust", "fire", "run_now", "schedule_job"]
