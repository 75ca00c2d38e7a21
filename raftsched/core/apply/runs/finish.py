"""Finishes an instance, and settles the consequences: counters, the next in line, the next fire, retention."""

from __future__ import annotations

from raftsched.bounds import ERROR_MAX
from raftsched.core.apply.indexes import reindex
from raftsched.core.apply.jobs.due import is_unscheduled, set_due
from raftsched.core.apply.jobs.several import (
    all_over,
    delay_from_ms,
    has_all_runs,
    is_delay,
    pairs,
    start_delays,
    stop_triggers,
)
from raftsched.core.apply.jobs.skips import note_gap
from raftsched.core.apply.runs.conditions import become_ready, stop_checking, succeeded
from raftsched.core.apply.runs.ends import tell_at_the_end
from raftsched.core.apply.runs.history import BAD, count, keep
from raftsched.core.apply.runs.notices import note_attempt, notify_webhooks
from raftsched.core.apply.runs.run_keys import give_back
from raftsched.core.apply.runs.watches import note_end, note_success
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.levels import LAST_END_IS_KEPT
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
from raftsched.core.rules.concurrency import can_start
from raftsched.core.rules.intervals import grid_due, jitter_ms, next_every
from raftsched.core.subjects.watches import split_ms
from raftsched.core.tables import Table, after, u64
from raftsched.core.transitions import instance_after, job_after

_WAITING, _SUCCEEDED, _FINAL = InstanceState.WAITING, InstanceState.SUCCEEDED, StepKind.FINAL
_SKIPPED = InstanceState.SKIPPED
_RUNNING = InstanceState.RUNNING
PARTS_FAILED = "parts_failed"
_STARTED = (InstanceState.LAUNCHED, InstanceState.RUNNING)
_SCHEDULED, _EXPIRED, _DELETED = JobState.SCHEDULED, JobState.EXPIRED, JobState.DELETED


def finish(tx: Tx, job: Job, instance: Instance, event: str) -> None:
    """Brings an active instance to the final state that the event leads to, and lets the next in line go. The caller
    stores job and instance afterwards, and settles the job when nothing more is to happen to it."""
    if instance.parent is not None:
        _finish_part(tx, job, instance, instance.parent, event)
        return
    end(tx, job, instance, event)
    keep(tx, job, instance)
    go_on(tx, job, instance)


def end(tx: Tx, job: Job, instance: Instance, event: str) -> None:
    """Brings an active instance to a final state, counts it, and tells of it. The caller sees to its place in history,
    and lets the next in line go."""
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
    if tx.meta.level >= LAST_END_IS_KEPT and instance.state is not _SKIPPED:  # that one never ran
        job.last_state, job.last_duration_ms = instance.state, _took_ms(tx, instance)
    if instance.state in BAD:
        set_dead(instance, tx.now)
        job.failures_in_a_row += 1
        _suspend_if_failing(tx, job, instance)
    elif instance.state is _SUCCEEDED:
        job.failures_in_a_row = 0
        job.last_success_at_ms = tx.now
        if instance.notice is not None:
            note_attempt(tx, job, failed=False)
        if job.policy.notify:
            note_success(job, instance)
        if tx.meta.awaited:
            succeeded(tx, job)
    if tx.meta.webhooks:
        notify_webhooks(tx, job, instance)
    if tx.meta.followers:
        tell_at_the_end(tx, job, instance)


def _took_ms(tx: Tx, instance: Instance) -> int | None:
    """Returns how long the last attempt of a final instance took; of one with parts, the time since it was split last.
    None: nothing of it started."""
    if instance.parts is not None:
        since_ms, until_ms = split_ms(instance), tx.now
    elif instance.attempts:
        since_ms, until_ms = instance.attempts[-1].started_at_ms, instance.attempts[-1].ended_at_ms or tx.now
    else:
        return None
    return None if since_ms is None else max(0, until_ms - since_ms)


def go_on(tx: Tx, job: Job, instance: Instance) -> None:
    """Lets the next in line go after an instance has ended."""
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


def release(tx: Tx, job: Job) -> None:
    """Lets the first held instances of the job go, as many as may run."""
    while job.held and can_start(job):
        prefix = u64(job.id)
        row = tx.view.first(Table.HELD, prefix, after(prefix))
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
