"""Schedule, fire, run now: how due times become instances. Misfire and overlap are decided here, in the log's order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, takewhile

from raftsched.core.apply.finish import become_ready, count, finish, keep, settle
from raftsched.core.apply.keys import once
from raftsched.core.apply.tx import Tx, listed_by_job, no_job, scheduled_instance
from raftsched.core.commands import (
    Accepted,
    Answer,
    Fire,
    KillAsked,
    Rejected,
    RunNow,
    ScheduleJob,
)
from raftsched.core.ids import instance_key
from raftsched.core.intervals import grid_due, jitter_ms, next_every
from raftsched.core.limits import TIME_MAX_MS, U64_MAX
from raftsched.core.model import (
    FINAL,
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
    if c.nominal_at_ms is not None and not 0 <= c.nominal_at_ms <= TIME_MAX_MS:
        return STALE
    tx.set_unscheduled(job, False)
    tx.set_due(job, c.nominal_at_ms)
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


@dataclass(slots=True)
class _Due:
    times: list[int]  # the newest of the due times, ascending
    more: int  # due times before these, not listed
    more_until_ms: int  # the last of them
    upcoming: int | None  # the next time after all of these


def fire(tx: Tx, c: Fire) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.state is not JobState.SCHEDULED:
        return STALE
    if job.revision != c.revision or job.nominal_at_ms != c.nominal_at_ms or not _plausible(c):
        return STALE
    due = _due_times(tx, job, c)
    tx.set_due(job, None)
    if due.more:
        _gap(tx, job, "misfire", c.nominal_at_ms, due.more_until_ms, due.more)
    _run_times(tx, job, due.times)
    limit = job.policy.trigger.max_runs
    if due.upcoming is not None and (limit is None or job.runs < limit):
        tx.set_due(job, due.upcoming)
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def _plausible(c: Fire) -> bool:
    """Times ascend and can be written."""
    times = (c.nominal_at_ms, *c.missed)
    if c.next_nominal_at_ms is not None:
        times += (c.next_nominal_at_ms,)
    return (
        times[0] >= 0
        and times[-1] <= TIME_MAX_MS
        and all(a < b for a, b in pairwise(times))
        and c.missed_count >= len(c.missed)
    )


def _due_times(tx: Tx, job: Job, c: Fire) -> _Due:
    trigger = job.policy.trigger
    most = tx.meta.settings.catch_up_max
    if trigger.needs_calendar:
        times = [c.nominal_at_ms, *c.missed]
        more = max(0, 1 + c.missed_count - most) if c.missed else 0
        until = times[-most - 1] if len(times) > most else c.nominal_at_ms
        return _Due(times[-most:], more, until, c.next_nominal_at_ms)
    if trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE:
        times, total = grid_due(trigger, c.nominal_at_ms, tx.now, most)
        upcoming = next_every(trigger, max(tx.now, c.nominal_at_ms), job.anchor_at_ms)
        return _Due(times, total - len(times), times[0] - trigger.period_ms, upcoming)
    return _Due([c.nominal_at_ms], 0, 0, None)


def _run_times(tx: Tx, job: Job, times: list[int]) -> None:
    """A one-shot always runs. Of the others, what is later than the grace was missed, and the policy says what then."""
    trigger, misfire = job.policy.trigger, job.policy.misfire
    missed: list[int] = []
    if not trigger.once:
        latest = tx.now - misfire.grace_ms  # jitter is no lateness: it was asked for
        missed = list(takewhile(lambda t: t + jitter_ms(trigger, job.id, t) < latest, times))
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
    for nominal in run:
        if trigger.max_runs is not None and job.runs >= trigger.max_runs:
            break
        _start(tx, job, nominal)


def _start(tx: Tx, job: Job, nominal_at_ms: int) -> None:
    """A due time becomes an instance, unless overlap says otherwise. A one-shot's always does: it waits its turn."""
    if not job.policy.trigger.once and (crowded(tx, job) or overlapping(tx, job)):
        _gap(tx, job, "overlap", nominal_at_ms, nominal_at_ms, 1)
        return
    replace_active(tx, job)
    job.runs += 1
    request = 0
    while tx.view.get(Table.INSTANCES, instance_key(nominal_at_ms, job.id, request)) is not None:
        request += 1  # the trigger came back to a time that it had run before
    add_instance(tx, job, nominal_at_ms, request, None, job.policy.priority)


def crowded(tx: Tx, job: Job) -> Rejected | None:
    """Whether the job has as many active instances as any job may have."""
    most = tx.meta.settings.active_max
    if job.active < most:
        return None
    return Rejected("overloaded", f"{job.active} runs of this job are active; {most} is the limit.")


def overlapping(tx: Tx, job: Job) -> Rejected | None:
    """Whether the overlap policy forbids one more active instance. One between attempts counts as active."""
    policy = job.policy.overlap
    if not job.active or policy in (Overlap.ALLOW, Overlap.REPLACE):
        return None
    limit = 0
    if policy is not Overlap.FORBID:
        limit = 1 if policy is Overlap.QUEUE_ONE else tx.meta.settings.queue_all_max
    if job.held < limit:
        return None
    return Rejected(
        "illegal-transition",
        "A run of this job is active and its overlap policy allows no other; wait for it or kill it first.",
    )


def replace_active(tx: Tx, job: Job, but: bytes | None = None) -> None:
    """Under the policy "replace", ends what is active, all but one."""
    if job.active and job.policy.overlap is Overlap.REPLACE:
        kill_active(tx, job, "replaced", but)


def add_instance(tx: Tx, job: Job, nominal_at_ms: int, request: int, params: bytes | None, priority: int) -> Instance:
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
    key = instance.key
    job.gap = None
    job.last_instance = key
    enqueue(tx, job, instance)
    if listed_by_job(job, instance):
        tx.view.put(Table.BY_JOB, by_job_key(key), bytes((instance.state,)))
    tx.put_instance(instance)
    return instance


def enqueue(tx: Tx, job: Job, instance: Instance) -> None:
    """Makes a WAITING instance active: held behind others of its job, or ready for a worker."""
    waits = job.active > 0 and job.policy.overlap is not Overlap.ALLOW
    job.active += 1
    if waits:
        instance.reason = "overlap"
        tx.set_held(job, instance)
    else:
        become_ready(tx, job, instance)


def kill_active(tx: Tx, job: Job, reason: str, but: bytes | None = None) -> None:
    """Ends what has not started; asks what runs to end. Oldest first."""
    for key in _active_instances(tx, job, but):
        instance = tx.instance(key)
        if instance is not None:
            end_or_ask(tx, job, instance, reason)


def end_or_ask(tx: Tx, job: Job, instance: Instance, reason: str) -> None:
    """An attempt ends by its worker's word only, so what runs is asked; what does not run is KILLED at once. The caller
    stores the job and settles it."""
    if instance.state in FINAL:
        return
    attempt = instance.live
    if attempt is None:
        instance.reason = reason
        finish(tx, job, instance, "kill")
    else:
        if not instance.kill_asked:
            instance.kill_asked = True
            instance.reason = reason
        tx.actions.append(KillAsked(attempt.node, attempt.session, attempt.token))
    tx.put_instance(instance)


def _active_instances(tx: Tx, job: Job, but: bytes | None) -> list[bytes]:
    """Keys of the job's instances that are not final, all but one, oldest first. They are looked for from the newest
    on, as many as are counted: what is kept of the past may be much more."""
    keys: list[bytes] = []
    own = scheduled_instance(job)
    if own is not None and own != but:
        instance = tx.instance(own)
        if instance is not None and instance.state not in FINAL:
            keys.append(own)
    prefix = u64(job.id)
    if len(keys) < job.active:
        for row, state in tx.view.scan(Table.BY_JOB, prefix, after(prefix), reverse=True):
            key = from_by_job(row)
            if state[0] not in FINAL and key != but:
                keys.append(key)
                if len(keys) >= job.active:
                    break
    keys.sort()
    return keys


def _gap(tx: Tx, job: Job, reason: str, first_ms: int, last_ms: int, count_of_fires: int) -> None:
    """One SKIPPED record per gap: a further skip for the same reason extends the newest record."""
    record = tx.instance(job.gap) if job.gap is not None else None
    if record is not None and record.reason == reason and record.state is InstanceState.SKIPPED:
        record.gap_count += count_of_fires
        record.gap_until_ms = max(last_ms, record.gap_until_ms or 0)
        tx.put_instance(record)
        return
    key = instance_key(first_ms, job.id)
    if tx.view.get(Table.INSTANCES, key) is not None:
        return  # a time that was run before: that record stands
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
        gap_count=count_of_fires,
        gap_until_ms=last_ms,
        ended_at_ms=tx.now,
    )
    job.gap = key
    count(job, record.state, 1)
    keep(tx, job, record)
    tx.put_instance(record)


def run_now(tx: Tx, c: RunNow) -> Answer:
    return once(tx, c.key, c.digest, lambda: _run_now(tx, c))


def _run_now(tx: Tx, c: RunNow) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.state is JobState.DELETED:
        return no_job(c.job_id)
    refused = _wrong_request(tx, c)
    if refused is not None:
        return refused
    key = instance_key(tx.now, job.id, c.request)
    if tx.view.get(Table.INSTANCES, key) is not None:
        return Accepted(job=job, instance=key, created=False)
    if job.state is JobState.EXPIRED:
        return Rejected("illegal-transition", "The job is EXPIRED; rerun an instance, or create a job anew.")
    refused = crowded(tx, job) or overlapping(tx, job)
    if refused is not None:
        return refused
    replace_active(tx, job)
    job.modified_at_ms = tx.now
    priority = job.policy.priority if c.priority is None else c.priority
    add_instance(tx, job, tx.now, c.request, c.params, priority)
    tx.put_job(job)
    return Accepted(job=job, instance=key, created=True)


def _wrong_request(tx: Tx, c: RunNow) -> Rejected | None:
    if not 1 <= c.request <= U64_MAX:
        return Rejected("invalid-parameter", "The number of a request is a positive one of 64 bits.")
    if c.priority is not None and not 0 <= c.priority <= 9:
        return Rejected("invalid-parameter", f"priority is {c.priority}; use 0 to 9.")
    most = tx.meta.settings.params_max_bytes
    if c.params is not None and len(c.params) > most:
        return Rejected("too-large", f"params take {len(c.params)} bytes; {most} is the limit.")
    return None
