"""Jobs with several triggers: each trigger has a state of its own, and the job is due when the first of them is.

So the job's row in DUE, and all that looks at when a job is due, is as of a job with one trigger. Overlap, misfire
policy and the number of runs are the job's: its times are the times of all triggers together, and one that several of
them have is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from raftsched.core.actions import JobUnscheduled
from raftsched.core.apply.jobs.due import clear_unscheduled, mark_unscheduled, set_due
from raftsched.core.apply.tx import Tx
from raftsched.core.levels import DELAYS_FOLLOW_EACH_RUN, JITTER_ENDS_BEFORE_NEXT
from raftsched.core.model import EveryMode, Job, Policy, Trigger, TriggerKind, TriggerState
from raftsched.core.rules.intervals import first_nominal, jitter_ms, next_every


def pairs(job: Job) -> Iterator[tuple[Trigger, TriggerState]]:
    """Yields each trigger of the job with its state."""
    return zip(job.policy.triggers, job.triggers, strict=True)


def new_state(now_ms: int, trigger: Trigger) -> TriggerState:
    """Returns the state of a trigger that is given to a job now."""
    starts_at_ms = None if trigger.once else trigger.starts_at_ms
    return TriggerState(now_ms if starts_at_ms is None else starts_at_ms)


def states_after_edit(now_ms: int, job: Job, policy: Policy) -> tuple[TriggerState, ...]:
    """Returns the states of the triggers of new content. A trigger that stays the same keeps its own."""
    known = dict(pairs(job))
    return tuple(known.get(trigger) or new_state(now_ms, trigger) for trigger in policy.triggers)


def follow_first(tx: Tx, job: Job) -> None:
    """Makes the job due when the first of its triggers is."""
    if tx.meta.level >= JITTER_ENDS_BEFORE_NEXT:
        _end_jitters(job)
    first = first_due(job)
    if first is None:
        set_due(job, None)
        none_waits = all(state.never_fires or state.over for state in job.triggers)
        job.never_fires = none_waits and not all_over(job)
    else:
        job.nominal_at_ms, job.fire_at_ms = first.nominal_at_ms, first.fire_at_ms
        job.never_fires = False


def _end_jitters(job: Job) -> None:
    """Lets no trigger put its time off until that of another one comes."""
    times = [state.nominal_at_ms for state in job.triggers if state.nominal_at_ms is not None]
    for trigger, state in pairs(job):
        nominal_at_ms, fire_at_ms = state.nominal_at_ms, state.fire_at_ms
        if nominal_at_ms is None or fire_at_ms is None or fire_at_ms == nominal_at_ms:
            continue
        following = min((at_ms for at_ms in times if at_ms > nominal_at_ms), default=None)
        if following is not None and fire_at_ms >= following:
            gap_ms = following - nominal_at_ms
            state.fire_at_ms = nominal_at_ms + jitter_ms(trigger, job.id, nominal_at_ms, gap_ms)


def first_due(job: Job) -> TriggerState | None:
    """Returns the state of the trigger that is due first; None: none of them has a time."""
    timed = [state for state in job.triggers if state.fire_at_ms is not None]
    return min(timed, key=lambda state: (state.fire_at_ms, state.nominal_at_ms), default=None)


def set_next(
    job: Job, trigger: Trigger, state: TriggerState, nominal_at_ms: int | None, gap_ms: int | None = None
) -> None:
    """Gives a trigger its next time. None: it has none any more. `gap_ms`: as in set_due."""
    state.nominal_at_ms = state.fire_at_ms = nominal_at_ms
    state.unscheduled_since_ms = None
    state.never_fires = False
    state.over = nominal_at_ms is None
    if nominal_at_ms is not None:
        state.fire_at_ms = nominal_at_ms + jitter_ms(trigger, job.id, nominal_at_ms, gap_ms)


def set_excluded(state: TriggerState) -> None:
    """The calendar of the trigger excludes all times that it has left."""
    clear(state)
    state.never_fires = True


def clear(state: TriggerState) -> None:
    """Takes a trigger's time from it. It is not over."""
    state.nominal_at_ms = state.fire_at_ms = state.unscheduled_since_ms = None
    state.never_fires = False


def mark_trigger_unscheduled(tx: Tx, job: Job, state: TriggerState, since_ms: int) -> None:
    """Asks the leader for the trigger's next time after this one."""
    clear(state)
    state.unscheduled_since_ms = max(0, since_ms)
    mark_unscheduled(tx, job, state.unscheduled_since_ms)


def start_triggers(tx: Tx, job: Job, since_ms: int) -> None:
    """Gives the triggers that have no time their next one after `since_ms`, as far as they are not over."""
    for trigger, state in pairs(job):
        if state.unscheduled_since_ms is not None:
            mark_trigger_unscheduled(tx, job, state, state.unscheduled_since_ms)
        elif state.nominal_at_ms is None and not state.over:
            _start(tx, job, trigger, state, since_ms)
    follow_first(tx, job)


def _start(tx: Tx, job: Job, trigger: Trigger, state: TriggerState, since_ms: int) -> None:
    if trigger.needs_calendar:
        mark_trigger_unscheduled(tx, job, state, since_ms)
    elif is_delay(trigger) and job.active:
        clear(state)  # what is active ends first; the delay counts from there
    else:
        after_ms = max(since_ms, -1 if state.skipped_until_ms is None else state.skipped_until_ms)
        set_next(job, trigger, state, first_nominal(trigger, after_ms, state.anchor_at_ms))


def start_delays(tx: Tx, job: Job) -> None:
    """Gives the triggers with a fixed delay their next time, once nothing of the job is active any more."""
    for trigger, state in pairs(job):
        if is_delay(trigger) and state.nominal_at_ms is None and not state.over:
            after_ms = delay_from_ms(tx, state.skipped_until_ms)
            set_next(job, trigger, state, next_every(trigger, after_ms, state.anchor_at_ms))
    follow_first(tx, job)


def delay_from_ms(tx: Tx, skipped_until_ms: int | None) -> int:
    """Returns from when a fixed delay counts as the last run of its job ends: from now, or from the time that was
    skipped by hand and would have come later."""
    if skipped_until_ms is None or tx.meta.level < DELAYS_FOLLOW_EACH_RUN:
        return tx.now
    return max(tx.now, skipped_until_ms)


def waits_for_end(tx: Tx, job: Job, trigger: Trigger) -> bool:
    """Returns whether the trigger counts from the end of what is active now."""
    return is_delay(trigger) and job.active > 0 and tx.meta.level >= DELAYS_FOLLOW_EACH_RUN


def is_delay(trigger: Trigger) -> bool:
    """Returns whether the trigger counts from the end of a run."""
    return trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_DELAY


def leave_out(tx: Tx, job: Job, times: Collection[int]) -> None:
    """Moves triggers that are about to have one of these times on to the next: it was run as the time of another
    trigger, or is skipped. The caller lets the job follow."""
    for trigger, state in pairs(job):
        if state.nominal_at_ms is not None and state.nominal_at_ms in times:
            _pass(tx, job, trigger, state, state.nominal_at_ms)


def _pass(tx: Tx, job: Job, trigger: Trigger, state: TriggerState, nominal_at_ms: int) -> None:
    state.skipped_until_ms = nominal_at_ms
    if trigger.once:
        set_next(job, trigger, state, None)
    elif trigger.needs_calendar:
        mark_trigger_unscheduled(tx, job, state, min(tx.now, nominal_at_ms))  # what came due after it is owed
    elif waits_for_end(tx, job, trigger):
        clear(state)
    else:
        set_next(job, trigger, state, next_every(trigger, nominal_at_ms, state.anchor_at_ms))


def stop_triggers(tx: Tx, job: Job) -> None:
    """Takes the times of all triggers from them."""
    for state in job.triggers:
        clear(state)
    set_due(job, None)
    clear_unscheduled(tx, job)


def reschedule_triggers(tx: Tx, job: Job) -> bool:
    """Asks the leader for the next times of all triggers with a calendar: one of these was changed. Returns False when
    there is none."""
    found = False
    for trigger, state in pairs(job):
        if trigger.calendar is None or state.over:
            continue
        since_ms = tx.now if state.nominal_at_ms is None else min(tx.now, state.nominal_at_ms - 1)
        if state.unscheduled_since_ms is not None:
            since_ms = min(since_ms, state.unscheduled_since_ms)
        mark_trigger_unscheduled(tx, job, state, since_ms)
        found = True
    return found


def settle_unscheduled(tx: Tx, job: Job) -> None:
    """The job waits for the leader no longer, unless another of its triggers does."""
    if all(state.unscheduled_since_ms is None for state in job.triggers):
        clear_unscheduled(tx, job)
    else:
        tx.actions.append(JobUnscheduled(job.id))


def has_all_runs(job: Job) -> bool:
    """Returns whether the job has had as many runs as it may."""
    limit = job.policy.trigger.max_runs
    return limit is not None and job.runs >= limit


def all_over(job: Job) -> bool:
    """Returns whether no trigger of a scheduled job will be due again."""
    return all(state.over for state in job.triggers)
