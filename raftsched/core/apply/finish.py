"""The end of an instance and its consequences: counters, the next in line, the next fire, retention."""

from __future__ import annotations

from itertools import islice

from raftsched.core.apply.conditions import become_ready, stop_checking, succeeded
from raftsched.core.apply.due import is_unscheduled, set_due
from raftsched.core.apply.ends import tell_at_the_end
from raftsched.core.apply.indexes import listed_by_job, reindex
from raftsched.core.apply.notices import notify_webhooks
from raftsched.core.apply.run_keys import give_back
from raftsched.core.apply.several import (
    all_over,
    delay_from_ms,
    has_all_runs,
    is_delay,
    pairs,
    start_delays,
    stop_triggers,
)
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.watches import note_end, note_success
from raftsched.core.changes import InstanceEvent
from raftsched.core.concurrency import can_start
from raftsched.core.ids import BACKFILL, instance_key
from raftsched.core.intervals import grid_due, jitter_ms, next_every
from raftsched.core.limits import ERROR_MAX, FIRES_MAX
from raftsched.core.model import (
    EveryMode,
    Instance,
    InstanceState,
    Job,
    JobState,
    Parts,
    PartsTask,
    StepKind,
    Trigger,
    TriggerKind,
    TriggerState,
)
from raftsched.core.tables import BY_JOB, Table, after, by_job_key, from_by_job, u64
from raftsched.core.transitions import instance_after, job_after

_WAITING, _SUCCEEDED, _FINAL = InstanceState.WAITING, InstanceState.SUCCEEDED, StepKind.FINAL
_RUNNING = InstanceState.RUNNING
PARTS_FAILED = "parts_failed"
UNSTARTED = "expired_unstarted"  # it had not started when its time to do so was over (Policy.expires_ms)
_STARTED = (InstanceState.LAUNCHED, InstanceState.RUNNING)
_SCHEDULED, _EXPIRED, _DELETED = JobState.SCHEDULED, JobState.EXPIRED, JobState.DELETED
GOOD = (InstanceState.SUCCEEDED,)
BAD = (InstanceState.FAILED, InstanceState.TIMED_OUT)
OTHER = (InstanceState.KILLED, InstanceState.SKIPPED)
LOOK_MAX = 5_000  # rows that one end looks at for them
_BACKFILLED = u64(BACKFILL)
DROP_MAX = 8  # instances that one end drops at most
RENEWALS = 16  # of the time that a growing record of skips is kept, in that time


def finish(tx: Tx, job: Job, instance: Instance, event: str) -> None:
    """Brings an active instance to the final state that the event leads to, and lets the next in line go. The caller
    stores job and instance afterwards, and settles the job when nothing more is to happen to it."""
    if instance.parent is not None:
        _finish_part(tx, job, instance, instance.parent, event)
        return
    if instance.held:
        instance.held = False
        job.held -= 1
    elif instance.checking:
        stop_checking(tx, job, instance)
    if instance.permit is not None:
        give_back(tx, instance)
    instance.wake_at_ms = None
    if instance.watch_at_ms is not None:
        note_end(tx, job, instance, tx.now)
    ran = instance.state in _STARTED and instance.parts is None
    instance.state = instance_after(instance.state, event)
    add_step(tx, instance, _FINAL, instance.reason, instance.attempts[-1].token if ran else 0)
    instance.ended_at_ms = tx.now
    tx.minutes.ended(job.namespace, instance.state)
    job.active -= 1
    count(job, instance, 1)
    if instance.state in BAD:
        set_dead(instance, tx.now)
        job.failures_in_a_row += 1
        _suspend_if_failing(tx, job, instance)
    elif instance.state is _SUCCEEDED:
        job.failures_in_a_row = 0
        job.last_success_at_ms = tx.now
        if job.policy.notify:
            note_success(job, instance)
        if tx.meta.awaited:
            succeeded(tx, job)
    if tx.meta.webhooks:
        notify_webhooks(tx, job, instance)
    if tx.meta.followers:
        tell_at_the_end(tx, job, instance)
    keep(tx, job, instance)
    if job.held:
        reindex(tx, instance)  # it is not itself the next in line
        release(tx, job)


def _finish_part(tx: Tx, job: Job, part: Instance, key: bytes, event: str) -> None:
    parent = tx.instance(key)
    assert parent is not None, "a part goes with its parent"
    end_part(tx, parent, part, event)
    end_parent(tx, job, parent)
    tx.put_instance(parent)


def end_part(tx: Tx, parent: Instance, part: Instance, event: str) -> None:
    """Brings a part to its final state, and counts it. The caller stores both."""
    parts = parent.parts
    assert parts is not None
    part.wake_at_ms = None
    ran = part.state in _STARTED
    part.state = instance_after(part.state, event)
    add_step(tx, part, _FINAL, part.reason, part.attempts[-1].token if ran else 0)
    part.ended_at_ms = tx.now
    parts.count(part.state, 1)
    if part.state in BAD and parts.error is None:
        parts.error = f"part {part.shard_index}: {part.error or part.reason or part.state.name}"[:ERROR_MAX]


def end_parent(tx: Tx, job: Job, parent: Instance) -> None:
    """Ends a parent whose parts are all at their end. The caller stores job and parent, and settles the job."""
    parts = parent.parts
    assert parts is not None
    if parent.state is not _RUNNING or parts.task is PartsTask.MAKE or parts.ended < parts.made:
        return
    parts.task, parts.next = PartsTask.NONE, 0
    if parts.succeeded == parts.total:
        parent.reason = parent.error = None
        finish(tx, job, parent, "succeed")
    elif parent.kill_asked:
        parent.reason = parent.reason or "killed"
        finish(tx, job, parent, "kill")
    else:
        parent.reason = PARTS_FAILED
        parent.error = _why_failed(parts)
        finish(tx, job, parent, "fail")


def _why_failed(parts: Parts) -> str:
    counts = ((parts.failed, "failed"), (parts.killed, "killed"))
    said = " and ".join(f"{count} of {parts.total} parts {word}" for count, word in counts if count)
    text = f"{said}." if parts.error is None else f"{said}; {parts.error}"
    return text[:ERROR_MAX]


def drop_parts(tx: Tx, parent: Instance, limit: int) -> int:
    """Deletes the last parts of a final instance, at most so many. Returns how many. The caller stores it, or deletes
    it when none are left."""
    parts, dropped = parent.parts, 0
    while parts is not None and parts.made and dropped < limit:
        parts.made -= 1
        part = tx.instance(parts.key(parent, parts.made))
        if part is not None:
            parts.count(part.state, -1)
            tx.drop_instance(part)
        dropped += 1
    return dropped


def set_dead(instance: Instance, at_ms: int | None) -> None:
    """Makes the instance a dead letter since then. None: it is one no longer."""
    instance.dead_at_ms = at_ms
    instance.dead_letter = at_ms is not None


def count(job: Job, instance: Instance, change: int) -> None:
    """Counts one instance more or less that is kept in its final state. Backfilled ones are not counted and go by age:
    they are old already when they end, and would be the first that retention drops, or push out all the others."""
    state = instance.state
    if instance.request == BACKFILL:
        return
    if state is _SUCCEEDED:
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
    stop_schedule(tx, job, "suspended")
    job.state = job_after(job.state, "pause")
    job.modified_at_ms = tx.now
    job.error = f"Suspended after {job.failures_in_a_row} failures in a row: {instance.error or instance.reason}"


def keep(tx: Tx, job: Job, instance: Instance) -> None:
    """Applies retention after an instance became final: by age through PURGE, by count here. The caller stores job and
    instance."""
    if not listed_by_job(job, instance):
        return
    tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
    retention = job.policy.retention
    instance.purge_at_ms = keep_until(tx, job, instance)
    if job.succeeded > retention.succeeded:
        _drop_oldest(tx, job, GOOD, instance, job.succeeded - retention.succeeded)
    if job.failed > retention.failed:
        _drop_oldest(tx, job, BAD, instance, job.failed - retention.failed)
    if job.others > retention.failed:
        _drop_oldest(tx, job, OTHER, instance, job.others - retention.failed)


def keep_until(tx: Tx, job: Job, instance: Instance) -> int:
    """Returns when a final instance has been kept long enough. A dead letter has a time of its own: somebody is to look
    at it."""
    age_ms = job.policy.retention.max_age_ms
    if instance.dead_letter:
        age_ms = max(age_ms, tx.meta.settings.dead_letter_keep_ms)
    return (tx.now if instance.ended_at_ms is None else instance.ended_at_ms) + age_ms


def _drop_oldest(tx: Tx, job: Job, states: tuple[InstanceState, ...], current: Instance, surplus: int) -> None:
    """Drops a few of the oldest instances: a lowered retention is reached over the next ends. Only the oldest rows are
    searched; where the history of another outcome is longer than that, age has to do."""
    prefix = u64(job.id)
    surplus = min(surplus, DROP_MAX)
    oldest: list[bytes] = []
    for key, state in islice(tx.view.scan(Table.BY_JOB, prefix, after(prefix)), LOOK_MAX):
        if state[0] in states and key[16:] != _BACKFILLED:
            oldest.append(from_by_job(key))
            if len(oldest) >= surplus:
                break
    for old in oldest:
        if old == current.key:
            current.purge_at_ms = tx.now  # the caller stores it; the next pruning takes it
            continue
        row = tx.instance(old)
        if row is not None and (row.telling is not None or (row.parts is not None and row.parts.made)):
            row.purge_at_ms = tx.now  # its parts, or the jobs that follow it, may be many: the next pruning takes it
            tx.put_instance(row)
        elif row is not None:
            drop_instance(tx, job, row)


def drop_instance(tx: Tx, job: Job | None, instance: Instance) -> None:
    """Deletes a final instance, whose parts are gone, and its index rows."""
    key = instance.key
    tx.view.delete(BY_JOB, by_job_key(key))
    tx.drop_instance(instance)
    if job is not None:
        if job.gap == key:
            job.gap = None
        count(job, instance, -1)


def note_gap(tx: Tx, job: Job, reason: str, first_ms: int, last_ms: int, count_of_fires: int) -> None:
    """Records fires that were skipped, in one SKIPPED record for each gap: a further skip for the same reason extends
    the newest record, but one of an earlier time: that of another trigger with a longer jitter."""
    tx.minutes.skipped(job.namespace, count_of_fires)
    record = tx.instance(job.gap) if job.gap is not None else None
    extends = record is not None and record.reason == reason and record.state is InstanceState.SKIPPED
    if record is not None and extends and first_ms >= record.nominal_at_ms:
        record.gap_count = min(record.gap_count + count_of_fires, FIRES_MAX)
        record.gap_until_ms = max(last_ms, record.gap_until_ms or 0)
        record.ended_at_ms = tx.now
        _keep_longer(tx, job, record)
        del record.steps[1:]  # the first skip and the latest are enough
        add_step(tx, record, StepKind.FINAL, reason)
        tx.events.instance(record, InstanceEvent.EXTENDED)
        tx.put_instance(record)
        return
    record = skipped_record(tx, job, reason, first_ms, unused_request(tx, job, first_ms))
    record.gap_count, record.gap_until_ms = min(count_of_fires, FIRES_MAX), last_ms
    add_step(tx, record, StepKind.FINAL, reason)
    job.gap = record.key
    count(job, record, 1)
    if tx.meta.webhooks:
        notify_webhooks(tx, job, record)
    keep(tx, job, record)
    tx.put_instance(record)


def skipped_record(tx: Tx, job: Job, reason: str, nominal_at_ms: int, request: int) -> Instance:
    """Returns the record of one time at which the job was not run, to be counted and stored."""
    return Instance(
        job_id=job.id,
        nominal_at_ms=nominal_at_ms,
        request=request,
        state=InstanceState.SKIPPED,
        job_revision=job.revision,
        priority=job.policy.priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=tx.now,
        reason=reason,
        gap_count=1,
        gap_until_ms=nominal_at_ms,
        ended_at_ms=tx.now,
    )


def _keep_longer(tx: Tx, job: Job, record: Instance) -> None:
    """Counts the age of a record from its latest skip. It is moved now and then only: one that grows each second shall
    stay cheap."""
    until_ms = keep_until(tx, job, record)
    if record.purge_at_ms is not None and (until_ms - record.purge_at_ms) * RENEWALS >= job.policy.retention.max_age_ms:
        record.purge_at_ms = until_ms


def unused_request(tx: Tx, job: Job, nominal_at_ms: int) -> int:
    """Returns a request number for the time: 0, unless the trigger came back to a time that it had run or skipped
    before."""
    request = 0
    while tx.has_instance(instance_key(nominal_at_ms, job.id, request)):
        request += 1
    return request


def release(tx: Tx, job: Job) -> None:
    """Lets the first held instances of the job go, as many as may run."""
    while job.held and can_start(job):
        prefix = u64(job.id)
        row = next(tx.view.scan(Table.HELD, prefix, after(prefix)), None)
        instance = None if row is None else tx.instance(row[0][16:])
        if instance is None:
            return
        instance.held = False
        job.held -= 1
        instance.ready_at_ms = tx.now
        instance.reason = None
        add_step(tx, instance, StepKind.RELEASED)
        become_ready(tx, job, instance)
        tx.put_instance(instance)


def note_unfired(tx: Tx, job: Job, reason: str, stay: tuple[Trigger, ...] = ()) -> None:
    """Records due times that were not fired and now will not be: nothing could fire them (no leader, a paused cluster).
    Of a calendar only the first such time is known here. `stay`: those of these triggers still will be."""
    gaps = [_unfired(tx, job, trigger, state) for trigger, state in pairs(job) if trigger not in stay]
    if not job.triggers:
        gaps = [_unfired(tx, job, job.policy.trigger, job)]
    found = [gap for gap in gaps if gap is not None]
    if found:
        first, last = min(gap[0] for gap in found), max(gap[1] for gap in found)
        note_gap(tx, job, reason, first, last, sum(gap[2] for gap in found))


def _unfired(tx: Tx, job: Job, trigger: Trigger, due: Job | TriggerState) -> tuple[int, int, int] | None:
    """Returns the first and the last of the trigger's times that were due and not fired, and how many they are."""
    first = due.nominal_at_ms
    if trigger.once or first is None or due.fire_at_ms is None or due.fire_at_ms > tx.now:
        return None
    last, number = first, 1
    if trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE and trigger.calendar is None:
        times, number = grid_due(trigger, first, tx.now, 1)
        if times[-1] + jitter_ms(trigger, job.id, times[-1]) > tx.now:
            number -= 1  # its jitter, less than the period, is not over yet
        limit = job.policy.trigger.max_runs
        if limit is not None:
            number = min(number, limit - job.runs)
        last = first + (number - 1) * trigger.period_ms
    return first, last, number


def stop_schedule(tx: Tx, job: Job, reason: str | None) -> None:
    """Ends the fires of a job. `reason`: why due times that were not fired are left out, None where no history is kept.
    A one-shot keeps its time, so that resuming finds it again."""
    if reason is not None:
        note_unfired(tx, job, reason)
    nominal = job.nominal_at_ms if job.policy.trigger.once else None
    stop_triggers(tx, job)
    job.nominal_at_ms = nominal


def settle(tx: Tx, job: Job) -> None:
    """Does what waits until nothing of the job is active: the next fire of a fixed delay, the end of the job, its
    removal."""
    if job.active:
        return
    trigger = job.policy.trigger
    if job.revision > 1:
        drop_revisions(tx, job)
    if job.state is _DELETED:
        job.purge_at_ms = tx.now
        return
    if job.triggers:
        _settle_triggers(tx, job)
    elif job.state is _SCHEDULED and job.nominal_at_ms is None:
        if exhausted(tx, job):
            exhaust(tx, job)
        elif is_delay(trigger):
            upcoming = next_every(trigger, delay_from_ms(tx, job.skipped_until_ms), job.anchor_at_ms)
            if upcoming is None:
                exhaust(tx, job)
            else:
                set_due(job, upcoming)
    if job.state is _EXPIRED and trigger.once:
        settings = tx.meta.settings
        keep_ms = settings.once_succeeded_keep_ms
        if job.failed:  # it takes its dead letters along
            keep_ms = max(settings.once_failed_keep_ms, settings.dead_letter_keep_ms)
        job.purge_at_ms = tx.now + keep_ms


def _settle_triggers(tx: Tx, job: Job) -> None:
    if job.state is not _SCHEDULED:
        return
    if not has_all_runs(job):
        start_delays(tx, job)
    if has_all_runs(job) or all_over(job):
        stop_triggers(tx, job)
        exhaust(tx, job)


def exhausted(tx: Tx, job: Job) -> bool:
    """Returns whether a scheduled job without a next time will never fire again."""
    trigger = job.policy.trigger
    if trigger.once:
        return job.runs > 0
    if trigger.kind is TriggerKind.MANUAL:
        return False
    if trigger.max_runs is not None and job.runs >= trigger.max_runs:
        return True
    if trigger.kind is TriggerKind.AFTER:
        return False
    if trigger.needs_calendar:
        return not job.never_fires and not is_unscheduled(tx, job)
    return trigger.mode is EveryMode.FIXED_RATE


def exhaust(tx: Tx, job: Job) -> None:
    job.never_fires = False
    job.state = job_after(job.state, "exhaust")
    job.modified_at_ms = tx.now


def drop_history(tx: Tx, job: Job) -> None:
    """Deletes earlier contents of the job."""
    _drop_past(tx, job, Table.HISTORY)


def drop_revisions(tx: Tx, job: Job) -> None:
    """Deletes earlier revisions of the job. They are kept only while an instance may still run them."""
    _drop_past(tx, job, Table.REVISIONS)


def _drop_past(tx: Tx, job: Job, table: Table) -> None:
    if job.revision == 1:
        return
    prefix = u64(job.id)
    for key, _ in list(tx.view.scan(table, prefix, after(prefix))):
        tx.view.delete(table, key)
