"""Schedule, fire: due times become instances. Misfire and overlap are decided here, in the log's order."""

from __future__ import annotations

from itertools import groupby

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.actions import InstanceFired, KillAsked
from raftsched.core.apply.indexes import listed_by_job, waits_in_line, waits_in_ready
from raftsched.core.apply.jobs.due import clear_unscheduled, is_unscheduled, set_due, take_due
from raftsched.core.apply.jobs.several import (
    clear,
    first_due,
    follow_first,
    has_all_runs,
    is_delay,
    leave_out,
    pairs,
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
from raftsched.core.apply.runs.chain import Chain
from raftsched.core.apply.runs.conditions import become_ready
from raftsched.core.apply.runs.finish import finish, settle
from raftsched.core.apply.runs.parts import ask_to_end
from raftsched.core.apply.runs.run_keys import permit_of
from raftsched.core.apply.runs.watches import watch
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, Fire, Rejected, ScheduleJob, TriggerFire, TriggerSchedule
from raftsched.core.ids import instance_key
from raftsched.core.levels import DELAYS_FOLLOW_EACH_RUN, MISSED_RUN_WAITS
from raftsched.core.model import (
    ASKED_FOR,
    FINAL,
    Instance,
    InstanceState,
    Job,
    JobState,
    MisfirePolicy,
    Overlap,
    StepKind,
    Trigger,
    TriggerState,
    scheduled_instance,
)
from raftsched.core.rules.concurrency import can_start, concurrency_limit
from raftsched.core.subjects.changes import InstanceEvent
from raftsched.core.tables import Table, after, by_job_key, from_by_job, u64

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
    if state.owed_since_ms is None or state.owed_since_ms != part.since_ms:
        return False
    if nominal is not None and not (0 <= nominal <= TIME_MAX_MS and (skipped is None or nominal > skipped)):
        return False
    return calendar_is_current(tx, job.policy.triggers[part.index], part.calendar)


def fire(tx: Tx, c: Fire, skip: str | None = None) -> Answer:
    """`skip`: the reason for which the times are recorded as SKIPPED, instead of being run; also in a paused cluster.
    No command says that: it is for a state that is restored."""
    job = tx.job(c.job_id)
    if job is None or job.state is not _SCHEDULED:
        return STALE
    if job.revision != c.revision or job.nominal_at_ms != c.nominal_at_ms or not plausible(c):
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
                owed = room if every or nominal in late else 0
                if not refused and (too_many_active(tx, job) or refused_by_overlap(tx, job, owed)):
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
    request = unused_request(tx, job, nominal_at_ms)
    why = "missed" if missed else None
    made = add_instance(tx, job, nominal_at_ms, request, None, job.policy.priority, why, since_ms, source, delay_ms)
    tx.actions.append(InstanceFired(tx.now - made.due_at_ms))


def too_many_active(tx: Tx, job: Job) -> Rejected | None:
    """Refuses one more active instance when the job has as many as any job may have."""
    limit = tx.meta.settings.active_max
    if job.active < limit:
        return None
    return Rejected("too-many", f"{job.active} runs of this job are active; {limit} is the limit.")


def refused_by_overlap(tx: Tx, job: Job, owed: int = 0) -> Rejected | None:
    """Refuses one more active instance when the overlap policy forbids it. One between attempts counts as active.
    `owed`: of one that makes up for a missed time, how many of these may wait behind the others."""
    policy = job.policy.overlap
    if can_start(job) or policy in (Overlap.ALLOW, Overlap.REPLACE):
        return None
    limit = 0
    if policy is not Overlap.FORBID:
        limit = 1 if policy is Overlap.QUEUE_ONE else tx.meta.settings.queue_all_max
    if job.held < max(limit, owed):
        return None
    going = "A run is" if job.active == 1 else f"{job.active} runs are"
    return Rejected(
        "illegal-transition",
        f"{going} active and the job's overlap policy allows no other; wait for an end or kill one first.",
    )


def replace_active(tx: Tx, job: Job, exclude: bytes | None = None) -> int | None:
    """Under the policy "replace", ends the oldest to make room for one more (`exclude`, when it exists already).
    Returns since when the first of those waited for a worker, None when none did. The run that replaces it counts as
    waiting as long: where workers are scarce no run of the job would ever start otherwise."""
    if job.policy.overlap is not _REPLACE:
        return None
    limit = concurrency_limit(job.policy)
    if limit is None or job.active < limit:
        return None
    return kill_active(tx, job, "replaced", exclude, keep_newest=limit - 1)


def add_instance(
    tx: Tx,
    job: Job,
    nominal_at_ms: int,
    request: int,
    params: bytes | None,
    priority: int,
    why: str | None,
    since_ms: int | None = None,
    source: Source | None = None,
    delay_ms: int = 0,
    chain: Chain | None = None,
) -> Instance:
    """Makes an instance of the job and lets it wait. The caller does not change it. `why`: None, its time came; else a
    code: "missed" (it is made up for), "manual", "backfill", "after". `since_ms`: since when it counts as waiting, if
    not from now. `source`: the one of several triggers that it comes from. `delay_ms`: its jitter. `chain`: its place
    in a workflow."""
    instance = Instance(
        job_id=job.id,
        nominal_at_ms=nominal_at_ms,
        request=request,
        state=_WAITING,
        job_revision=job.revision,
        priority=priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=tx.now if since_ms is None else min(since_ms, tx.now),
        params=params,
    )
    trigger, anchor_ms = job.policy.trigger, job.anchor_at_ms
    if source is not None:
        trigger, anchor_ms = source.trigger, source.anchor_ms
        instance.trigger = trigger.id
    if job.policy.concurrency is not None:
        instance.permit = permit_of(job, params)
    instance.jitter_ms = delay_ms
    if trigger.once and why not in ASKED_FOR and anchor_ms > nominal_at_ms + instance.jitter_ms:
        instance.overdue_ms = anchor_ms - nominal_at_ms - instance.jitter_ms
    if job.policy.expires_ms:
        since = tx.now if why in ASKED_FOR else nominal_at_ms + instance.jitter_ms
        instance.expires_at_ms = since + job.policy.expires_ms
    add_step(tx, instance, _CREATED, why)
    if job.policy.notify and why not in ASKED_FOR:
        watch(job, instance)
    if chain is not None:
        chain.note(tx, instance)
    key = instance.key
    job.gap = None
    job.last_instance = key
    enqueue(tx, job, instance)
    if listed_by_job(job, instance):
        tx.view.put(Table.BY_JOB, by_job_key(key), bytes((instance.state,)))
    tx.put_new(instance, key)
    return instance


def enqueue(tx: Tx, job: Job, instance: Instance) -> None:
    """Makes a WAITING instance active: held behind others of its job, or ready for a worker."""
    waits = not can_start(job)
    job.active += 1
    if job.triggers or is_delay(job.policy.trigger):
        _stop_delays(tx, job)
    if waits:
        instance.reason = "overlap"
        add_step(tx, instance, StepKind.HELD)
        instance.held = True
        instance.wake_at_ms = instance.expires_at_ms
        job.held += 1
    else:
        become_ready(tx, job, instance)


def _stop_delays(tx: Tx, job: Job) -> None:
    """Takes their times from triggers with a fixed delay, which count from the end of what is active now. One that is
    due already keeps its time, and is fired."""
    if tx.meta.level < DELAYS_FOLLOW_EACH_RUN:
        return
    if not job.triggers:
        if job.fire_at_ms is not None and job.fire_at_ms > tx.now:
            set_due(job, None)
        return
    for trigger, state in pairs(job):
        if is_delay(trigger) and state.fire_at_ms is not None and state.fire_at_ms > tx.now:
            clear(state)
    follow_first(tx, job)


def kill_active(tx: Tx, job: Job, reason: str, exclude: bytes | None = None, keep_newest: int = 0) -> int | None:
    """Ends instances that have not started, and asks those that run to end: oldest first, all but the `keep_newest`
    newest. Returns since when the first of them waited for a worker, None when none did."""
    keys = active_instances(tx, job, exclude)
    since_ms = None
    for key in keys[: len(keys) - keep_newest]:
        instance = tx.instance(key)
        if instance is not None:
            if (waits_in_ready(instance) or waits_in_line(instance)) and (
                since_ms is None or instance.ready_at_ms < since_ms
            ):
                since_ms = instance.ready_at_ms
            end_or_ask(tx, job, instance, reason)
    return since_ms


def end_or_ask(tx: Tx, job: Job, instance: Instance, reason: str) -> None:
    """Kills an instance. An attempt ends by its worker's report only, so one that runs is asked to end; one that does
    not run is KILLED at once. The caller stores the job and settles it."""
    if instance.state in FINAL:
        return
    attempt = instance.live
    if attempt is None and instance.parts is not None and instance.state is InstanceState.RUNNING:
        ask_to_end(tx, instance, reason)
    elif attempt is None:
        instance.reason = reason
        finish(tx, job, instance, "kill")
    else:
        if not instance.kill_asked:
            instance.kill_asked = True
            instance.reason = reason
            add_step(tx, instance, StepKind.KILL_ASKED, reason, attempt.token)
            tx.events.instance(instance, InstanceEvent.KILL_ASKED)
        tx.actions.append(KillAsked(attempt.node, attempt.session, attempt.token))
    tx.put_instance(instance)


def active_instances(tx: Tx, job: Job, exclude: bytes | None = None) -> list[bytes]:
    """Returns the keys of the job's instances that are not final, but for one, oldest first. They are searched from the
    newest on, as many as are counted: the history may be much longer."""
    keys: list[bytes] = []
    own = scheduled_instance(job)
    if own is not None and own != exclude:
        instance = tx.instance(own)
        if instance is not None and instance.state not in FINAL:
            keys.append(own)
    prefix = u64(job.id)
    if len(keys) < job.active:
        for row, state in tx.view.scan(Table.BY_JOB, prefix, after(prefix), reverse=True):
            key = from_by_job(row)
            if state[0] not in FINAL and key != exclude:
                keys.append(key)
                if len(keys) >= job.active:
                    break
    keys.sort()
    return keys
