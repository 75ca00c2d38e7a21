"""Other time zone data: which number it has, and the jobs that are due at another time by it."""

from __future__ import annotations

from raftsched.bounds import TIME_MAX_MS
from raftsched.core.actions import ZonesUsed
from raftsched.core.apply.jobs.due import is_unscheduled, set_due, take_due
from raftsched.core.apply.jobs.several import follow_first, leave_out, set_excluded, set_next
from raftsched.core.apply.jobs.times import calendar_is_current
from raftsched.core.apply.runs.finish import settle
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.model import Job, JobState, TriggerState
from raftsched.core.rows import ZONES
from raftsched.core.subjects.changes import ClusterChange, ClusterEvent
from raftsched.core.subjects.zones import (
    NAME_MAX,
    OFFSETS_MAX,
    ZONES_KEY,
    Moved,
    MoveJob,
    SettleZones,
    TriggerMove,
    UseZones,
    ZoneData,
    is_newer,
)


def use_zones(tx: Tx, c: UseZones) -> Answer:
    if not 1 <= len(c.data.encode()) <= NAME_MAX:
        return Rejected("invalid-parameter", f"the name of time zone data takes 1 to {NAME_MAX} bytes.")
    row = ZONES.get(tx.view, ZONES_KEY) or ZoneData()
    if c.number != tx.meta.zones or c.data == row.data:
        return STALE
    if row.settled == tx.meta.zones or not row.newest or is_newer(row.data, row.newest):
        row.newest = row.data
    tx.meta.zones += 1
    if row.data:
        tx.events.cluster(ClusterChange(ClusterEvent.ZONES_CHANGED, c.data))
    row.data, row.since_ms = c.data, tx.now
    ZONES.put(tx.view, row, ZONES_KEY)
    tx.actions.append(ZonesUsed(tx.meta.zones))
    return Accepted(number=tx.meta.zones)


def settle_zones(tx: Tx, c: SettleZones) -> Answer:
    row = ZONES.get(tx.view, ZONES_KEY)
    if row is None or c.number != tx.meta.zones or len(c.offsets) > OFFSETS_MAX:
        return STALE
    row.settled, row.offsets, row.newest = c.number, c.offsets, row.data
    ZONES.put(tx.view, row, ZONES_KEY)
    return Accepted()


def move_job(tx: Tx, c: MoveJob) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.revision != c.revision or job.state is not JobState.SCHEDULED or c.zones != tx.meta.zones:
        return STALE
    if job.nominal_at_ms != c.nominal_at_ms:
        return STALE
    before_ms = job.nominal_at_ms
    if not (_move_triggers(tx, job, c) if job.triggers else _move(tx, job, c)):
        return STALE
    job.moved = Moved(tx.now, before_ms, job.nominal_at_ms)
    settle(tx, job)
    tx.events.job_moved(job)
    tx.put_job(job)
    return Accepted(job=job)


def _move(tx: Tx, job: Job, c: MoveJob) -> bool:
    trigger = job.policy.trigger
    if not trigger.needs_calendar or not _is_time(c.next_nominal_at_ms, job.skipped_until_ms):
        return False
    if is_unscheduled(tx, job) or not calendar_is_current(tx, trigger, c.calendar):
        return False
    take_due(tx, job)
    set_due(job, c.next_nominal_at_ms, c.gap_ms)
    job.zones = c.zones
    job.never_fires = c.never_fires and c.next_nominal_at_ms is None and trigger.calendar is not None
    return True


def _move_triggers(tx: Tx, job: Job, c: MoveJob) -> bool:
    """Moves the triggers that fit. Others are left as they are: each is a compare-and-set."""
    found = [(job.triggers[part.index], part) for part in c.triggers if 0 <= part.index < len(job.triggers)]
    fitting = [(state, part) for state, part in found if _fits(tx, job, state, part)]
    if not fitting:
        return False
    take_due(tx, job)
    for state, part in fitting:
        trigger = job.policy.triggers[part.index]
        if part.next_nominal_at_ms is None and part.never_fires and trigger.calendar is not None:
            set_excluded(state)
        else:
            set_next(job, trigger, state, part.next_nominal_at_ms, part.gap_ms)
        state.zones = c.zones
    if job.skipped_until_ms is not None:
        leave_out(tx, job, (job.skipped_until_ms,))
    follow_first(tx, job)
    return True


def _fits(tx: Tx, job: Job, state: TriggerState, part: TriggerMove) -> bool:
    trigger = job.policy.triggers[part.index]
    if (
        not trigger.needs_calendar
        or state.unscheduled_since_ms is not None
        or state.nominal_at_ms != part.nominal_at_ms
    ):
        return False
    return _is_time(part.next_nominal_at_ms, state.skipped_until_ms) and calendar_is_current(tx, trigger, part.calendar)


def _is_time(nominal_at_ms: int | None, skipped_until_ms: int | None) -> bool:
    """Returns whether it may be a next time; None: there is none."""
    if nominal_at_ms is None:
        return True
    return 0 <= nominal_at_ms <= TIME_MAX_MS and (skipped_until_ms is None or nominal_at_ms > skipped_until_ms)
