"""Makes instances of due times. Which of these run is decided here, in the log's order: misfire, overlap, catch-up."""

from __future__ import annotations

from itertools import groupby

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.actions import InstanceFired
from raftsched.core.apply.jobs.due import clear_unscheduled, is_unscheduled, set_due, take_due
from raftsched.core.apply.jobs.new_instances import add_instance, new_instance
from raftsched.core.apply.jobs.overlap import refused_by_overlap, replace_active, too_many_active
from raftsched.core.apply.jobs.several import (
    first_due,
    follow_first,
    has_all_runs,
    is_delay,
    leave_out,
    set_excluded,
    set_next,
    settle_unscheduled,
    stop_triggers,
)
from raftsched.core.apply.jobs.skips import UNSTARTED, note_gap, unused_request
from raftsched.core.apply.jobs.times import (
    Due,
    Source,
    Sources,
    calendar_is_current,
    due_times,
    is_once,
    plausible,
    together,
)
from raftsched.core.apply.runs import plain
from raftsched.core.apply.runs.finish import settle
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, Fire, Rejected, ScheduleJob, TriggerFire, TriggerSchedule
from raftsched.core.ids import instance_key
from raftsched.core.levels import MISSED_RUN_WAITS
from raftsched.core.model import (
    InstanceState,
    Job,
    JobState,
    MisfirePolicy,
    Overlap,
    StepKind,
    Trigger,
    TriggerState,
)
from raftsched.core.rules.concurrency import concurrency_limit

Delays = dict[int, int]  # the jitter of each time that has one
_SCHEDULED, _REPLACE = JobState.SCHEDULED, Overlap.REPLACE
_WAITING, _CREATED = InstanceState.WAITING, StepKind.CREATED


def schedule_job(tx: Tx, c: ScheduleJob) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.revision != c.revision or job.state is not JobState.SCHEDULED:
        return STALE
    if c.zones != tx.meta.zones or not is_unscheduled(tx, job):
        return STALE
    if job.triggers:
        return _schedule_triggers(tx, job, c)
    if c.nominal_at_ms is not None and not 0 <= c.nominal_at_ms <= TIME_MAX_MS:
        return STALE
    if c.nominal_at_ms is not None and job.skipped_until_ms is not None and c.nominal_at_ms <= job.skipped_until_ms:
        return STALE
    if not calendar_is_current(tx, job.policy.trigger, c.calendar):
        return STALE
    clear_unscheduled(tx, job)
    set_due(job, c.nominal_at_ms, c.gap_ms)
    job.zones = c.zones
    job.never_fires = c.never_fires and c.nominal_at_ms is None and job.policy.trigger.calendar is not None
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def _schedule_triggers(tx: Tx, job: Job, c: ScheduleJob) -> Answer:
    """Gives the triggers that are owed it their next times. Others are left as they are: each is a compare-and-set."""
    found = [(job.triggers[part.index], part) for part in c.triggers if 0 <= part.index < len(job.triggers)]
    fitting = [(state, part) for state, part in found if _awaits_time(tx, job, state, part)]
    if not fitting:
        return STALE
    take_due(tx, job)
    for state, part in fitting:
        trigger = job.policy.triggers[part.index]
        if part.nominal_at_ms is None and part.never_fires and trigger.calendar is not None:
            set_excluded(state)
        else:
            set_next(job, trigger, state, part.nominal_at_ms, part.gap_ms)
        state.zones = c.zones
    if job.skipped_until_ms is not None:
        leave_out(tx, job, (job.skipped_until_ms,))  # it was skipped as the time of another trigger
    settle_unscheduled(tx, job)
    follow_first(tx, job)
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def _awaits_time(tx: Tx, job: Job, state: TriggerState, part: TriggerSchedule) -> bool:
    nominal, skipped = part.nominal_at_ms, state.skipped_until_ms
    if state.unscheduled_since_ms is None or state.unscheduled_since_ms != part.since_ms:
        return False
    if nominal is not None and not (0 <= nominal <= TIME_MAX_MS and (skipped is None or nominal > skipped)):
        return False
    return calendar_is_current(tx, job.policy.triggers[part.index], part.calendar)


def fire(tx: Tx, c: Fire, skip: str | None = None) -> Answer:
    """`skip`: the reason for which the times are recorded as SKIPPED, instead of being run; also in a paused cluster.
    No command says that: it is for a state that is restored."""
    job = tx.stored_job(c.job_id)
    if job is None or job.state is not _SCHEDULED:
        return STALE
    if job.revision != c.revision or job.nominal_at_ms != c.nominal_at_ms:
        return STALE
    if skip is None and plain.fire(tx, job, c):
        return Accepted(job=job)
    tx.note_job(job)
    if not plausible(c):
        return STALE
    trigger = job.policy.trigger
    if trigger.calendar is not None and not calendar_is_current(tx, trigger, c.calendar):
        return STALE
    if c.zones != tx.meta.zones and (trigger.needs_calendar or job.triggers):
        return STALE
    if tx.meta.paused and skip is None:
        return Rejected("cluster-paused")
    delay_ms = 0 if job.fire_at_ms is None else job.fire_at_ms - c.nominal_at_ms
    if trigger.once and trigger.calendar is None and trigger.max_runs is None:
        take_due(tx, job)  # what the steps below come to for the one time that there is: most fires are this
        if skip is None:
            _start(tx, job, c.nominal_at_ms, False, delay_ms)
        else:
            _leave_once(tx, job, skip, c.nominal_at_ms)
        settle(tx, job)
        tx.put_job(job)
        return Accepted(job=job)
    if job.triggers:
        return _fire_triggers(tx, job, c, skip)
    due = due_times(tx, job.id, Source(trigger, job.anchor_at_ms), c, delay_ms)
    take_due(tx, job)
    job.zones = c.zones
    _run_or_skip(tx, job, due, {}, skip)
    limit = trigger.max_runs
    if due.upcoming is not None and (limit is None or job.runs < limit):
        set_due(job, due.upcoming, due.gap_ms)
    elif due.upcoming is None:
        job.never_fires = c.never_fires and trigger.calendar is not None
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def _run_or_skip(tx: Tx, job: Job, due: Due, sources: Sources, skip: str | None) -> None:
    if skip is None:
        if due.more:
            note_gap(tx, job, "misfire", due.more_from_ms, due.more_until_ms, due.more)
        _run_times(tx, job, due.times, sources, due.delays)
    elif job.policy.trigger.once:
        _leave_once(tx, job, skip, due.times[0])
    else:
        first = due.more_from_ms if due.more else due.times[0]
        note_gap(tx, job, skip, first, due.times[-1], due.more + len(due.times))


def _leave_once(tx: Tx, job: Job, reason: str, nominal_at_ms: int) -> None:
    """Leaves out the one time that there is."""
    job.runs += 1
    note_gap(tx, job, reason, nominal_at_ms, nominal_at_ms, 1)
    job.last_instance = job.gap


def _fire_triggers(tx: Tx, job: Job, c: Fire, skip: str | None) -> Answer:
    """Fires those of several triggers that are due, as one: their times together are the job's, each of them once."""
    parts = {part.index: part for part in c.triggers if _is_due(tx, job, part)}
    first = first_due(job)
    if not any(job.triggers[index] is first for index in parts):
        return STALE
    dues: list[tuple[Source, Due]] = []
    for index, part in sorted(parts.items()):
        trigger, state = job.policy.triggers[index], job.triggers[index]
        source = Source(trigger, state.anchor_at_ms)
        delay_ms = 0 if state.fire_at_ms is None else state.fire_at_ms - part.nominal_at_ms
        due = due_times(tx, job.id, source, part, delay_ms)
        dues.append((source, due))
        if due.upcoming is None and part.never_fires and trigger.calendar is not None:
            set_excluded(state)
        else:
            set_next(job, trigger, state, due.upcoming, due.gap_ms)
            state.over = due.upcoming is None and not is_delay(trigger)
        state.zones = c.zones
    take_due(tx, job)
    due, sources = together(dues, tx.meta.settings.catch_up_max)
    _run_or_skip(tx, job, due, sources, skip)
    if has_all_runs(job):
        stop_triggers(tx, job)
    else:
        leave_out(tx, job, sources)
        follow_first(tx, job)
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def _is_due(tx: Tx, job: Job, part: TriggerFire) -> bool:
    if not 0 <= part.index < len(job.triggers) or job.triggers[part.index].nominal_at_ms != part.nominal_at_ms:
        return False
    return plausible(part) and calendar_is_current(tx, job.policy.triggers[part.index], part.calendar)


def _run_times(tx: Tx, job: Job, times: list[int], sources: Sources, delays: Delays) -> None:
    """Runs the due times as the policies say. What is due once always runs. Other times that are later than the grace
    were missed, and the misfire policy decides. Under "all" they are made up for, and so are those that came due behind
    them until now: where runs may not overlap they follow one another. Under "once" the newest is, and it waits for the
    run that goes on. Times that are not run are recorded, in one record for neighbours."""
    trigger = job.policy.trigger
    late = _missed(tx, job, times, sources, delays)
    left_out = _times_left_out(job, times, late, sources, delays, tx.now)
    room = _room_for_missed(tx, job) if late else 0
    every = job.policy.misfire.policy is MisfirePolicy.ALL
    refused = False
    for reason, group in groupby(times, left_out.get):
        part = list(group)
        if reason is not None:
            if not refused:
                note_gap(tx, job, reason, part[0], part[-1], len(part))
            continue
        for nominal in part:
            if trigger.max_runs is not None and job.runs >= trigger.max_runs:
                return
            source = sources.get(nominal)
            if source is not None and _was_run(tx, job, nominal, source.trigger):
                continue
            if not (trigger.once or is_once(nominal, sources)):
                may_wait = room if every or nominal in late else 0
                if not refused and (too_many_active(tx, job) or refused_by_overlap(tx, job, may_wait)):
                    # Nothing ends within one command: what is refused now is refused to all the later ones too.
                    refused = True
                    rest = [t for t in times if t >= nominal and not is_once(t, sources)]
                    note_gap(tx, job, "overlap", nominal, rest[-1], len(rest))
                if refused:
                    continue
            _start(tx, job, nominal, nominal in late, delays.get(nominal, 0), source)


def _room_for_missed(tx: Tx, job: Job) -> int:
    """Returns how many runs that make up for missed times may wait behind others of the job."""
    if job.policy.misfire.policy is MisfirePolicy.ALL:
        return tx.meta.settings.catch_up_max
    return 1 if tx.meta.level >= MISSED_RUN_WAITS else 0


def _was_run(tx: Tx, job: Job, nominal_at_ms: int, trigger: Trigger) -> bool:
    """Returns whether the job ran this time already, as that of another trigger with a shorter jitter."""
    request = 0
    while (found := tx.instance(instance_key(nominal_at_ms, job.id, request))) is not None:
        if found.trigger and found.trigger != trigger.id and found.job_revision == job.revision:
            return True
        request += 1
    return False


def _missed(tx: Tx, job: Job, times: list[int], sources: Sources, delays: Delays) -> frozenset[int]:
    trigger, grace_ms = job.policy.trigger, job.policy.misfire.grace_ms
    if trigger.once or not times or times[0] >= tx.now - grace_ms:
        return frozenset()
    # jitter is no lateness: it was asked for
    late = (t for t in times if t + delays.get(t, 0) < tx.now - grace_ms)
    return frozenset(t for t in late if not is_once(t, sources))


def _times_left_out(
    job: Job, times: list[int], late: frozenset[int], sources: Sources, delays: Delays, now_ms: int
) -> dict[int, str]:
    """Returns the times that do not run, with the reason of each."""
    policy = job.policy
    reasons: dict[int, str] = {}
    if policy.misfire.policy is not MisfirePolicy.ALL:
        kept = max(late, default=None) if policy.misfire.policy is MisfirePolicy.ONCE else None
        reasons = {t: "misfire" for t in late if t != kept}
    if policy.expires_ms and not policy.trigger.once:
        left = [t for t in times if t not in reasons]
        reasons.update((t, UNSTARTED) for t in left if t + delays.get(t, 0) + policy.expires_ms <= now_ms)
    limit = concurrency_limit(policy)
    if policy.overlap is Overlap.REPLACE and limit is not None and not policy.trigger.once:
        run = [t for t in times if t not in reasons and not is_once(t, sources)]
        reasons.update((t, "replaced") for t in run[:-limit])  # by the later ones, in the same moment
    return reasons


def _start(tx: Tx, job: Job, nominal_at_ms: int, missed: bool, delay_ms: int, source: Source | None = None) -> None:
    """Makes an instance of a due time. `delay_ms`: its jitter."""
    if job.policy.expires_ms and nominal_at_ms + delay_ms + job.policy.expires_ms <= tx.now:
        _leave_once(tx, job, UNSTARTED, nominal_at_ms)  # it is that of a one-shot: others are left out before
        return
    since_ms = replace_active(tx, job)
    job.runs += 1
    made = new_instance(tx, job, nominal_at_ms, unused_request(tx, job, nominal_at_ms), since_ms)
    trigger, anchor_ms = job.policy.trigger, job.anchor_at_ms
    if source is not None:
        trigger, anchor_ms = source.trigger, source.anchor_ms
        made.trigger = trigger.id
    made.jitter_ms = delay_ms
    if trigger.once and anchor_ms > nominal_at_ms + delay_ms:
        made.overdue_ms = anchor_ms - nominal_at_ms - delay_ms
    add_instance(tx, job, made, "missed" if missed else None)
    tx.actions.append(InstanceFired(tx.now - made.due_at_ms))
