"""The next times of jobs that were computed with other time zone data, asked for anew.

What a stored time stands for is what clocks were to show then, and that it has not been run. So a trigger that names
hours is due when clocks show the same by the present data, earlier or later: the times before it were run, whichever
instants these would be now. A trigger that follows the clock (every 15 minutes) is due at its first time from now on.
A time that comes to lie in the past is owed, as one that was missed, unless the job ran since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from raftsched import schedule
from raftsched.core.ids import split_instance
from raftsched.core.model import Instance, Job, StepKind, Trigger
from raftsched.core.rows import INSTANCES
from raftsched.core.subjects.zones import MoveJob, TriggerMove
from raftsched.core.tables import ReadView, Table, after, from_by_job, u64
from raftsched.leader.due.triggers import CalendarJob, Source, source_of, sources_of
from raftsched.schedule.offsets import Offsets

RUNS_LOOKED = 50  # of a job, for the newest that its schedule made
OFFSETS_MAX_MS = 26 * 3_600_000  # between the earliest clocks of the world and the latest


@dataclass(slots=True)
class DataBefore:
    """The data that stored times were computed with, as far as it is known. Times with a number up to `settled` are by
    `offsets`; None: nothing is known."""

    settled: int
    offsets: Offsets | None

    def of(self, zones: int) -> Offsets | None:
        """Returns the offsets by which a time with this number was computed."""
        return self.offsets if zones <= self.settled else None


def is_concerned(trigger: Trigger, calendar: bytes | None, offsets: Offsets | None) -> bool:
    """Returns whether the trigger's times may differ: its zone's data does, or that of its calendar's zone."""
    if not trigger.needs_calendar:
        return False
    names = {trigger.timezone} if calendar is None else {trigger.timezone, schedule.zone_of(calendar)}
    if offsets is None:
        return calendar is not None or trigger.timezone != "UTC"
    return any(name is not None and offsets.changed(name) for name in names)


def move_of(view: ReadView, found: CalendarJob, before: DataBefore, zones: int, now_ms: int) -> MoveJob | None:
    """Makes the command that gives a job its next time by the present data, whose number is `zones`; None: it has
    it. Raises TriggerError as `schedule` does."""
    job = found.job
    if not job.triggers:
        if job.zones == zones:
            return None
        source = source_of(found)
        moved = _moved(source, job.nominal_at_ms, job.never_fires, before.of(job.zones), _floor(view, job), now_ms)
        if moved is None:
            return None
        upcoming, never = moved
        revision = 0 if found.calendar is None else found.calendar.revision
        gap_ms = source.gap_after(upcoming)
        return MoveJob(job.id, job.revision, zones, job.nominal_at_ms, upcoming, revision, never, gap_ms=gap_ms)
    parts = tuple(_moves(view, found, before, zones, now_ms))
    return MoveJob(job.id, job.revision, zones, job.nominal_at_ms, None, triggers=parts) if parts else None


def _moves(view: ReadView, found: CalendarJob, before: DataBefore, zones: int, now_ms: int) -> Iterator[TriggerMove]:
    """Yields those of several triggers that are due at another time. Of each its own runs count: that another one ran
    since is no reason to leave out what it owes."""
    for index, (source, state) in enumerate(sources_of(found)):
        if state.zones == zones or state.unscheduled_since_ms is not None or state.over:
            continue
        floor = partial(_floor_of_trigger, view, found.job, source.trigger.id, state.skipped_until_ms or 0)
        moved = _moved(source, state.nominal_at_ms, state.never_fires, before.of(state.zones), floor, now_ms)
        if moved is not None:
            gap_ms = source.gap_after(moved[0])
            yield TriggerMove(index, state.nominal_at_ms, moved[0], source.revision, moved[1], gap_ms)


def _moved(
    source: Source,
    nominal_at_ms: int | None,
    never: bool,
    offsets: Offsets | None,
    floor: Callable[[], int],
    now_ms: int,
) -> tuple[int | None, bool] | None:
    """Returns another next time than this one, and whether the calendar excludes all there are; None: it stays.
    `floor`: no time up to there is owed."""
    trigger, calendar = source.trigger, None if source.calendar is None else source.calendar.content
    if not is_concerned(trigger, calendar, offsets):
        return None
    if nominal_at_ms is None:
        upcoming, never_fires = source.next_after(max(now_ms, floor())) if never else (None, False)
        return None if upcoming is None else (upcoming, never_fires)
    if not source.is_fixed():
        if nominal_at_ms <= now_ms:
            return None  # it is due
        after_ms = now_ms
        if offsets is not None and offsets.knows(trigger.timezone, nominal_at_ms // 1000):
            shown_ms = offsets.moved(trigger.timezone, nominal_at_ms // 1000) * 1000
            after_ms = min(now_ms, shown_ms - 1)  # what came to lie in the past was missed
        return _unless(nominal_at_ms, source.next_after(max(after_ms, floor())))
    if offsets is None or not offsets.knows(trigger.timezone, nominal_at_ms // 1000):
        return _nearest(source, nominal_at_ms, floor)
    shown_ms = offsets.moved(trigger.timezone, nominal_at_ms // 1000) * 1000
    if shown_ms != nominal_at_ms:
        after_ms = max(shown_ms - 1, min(floor(), nominal_at_ms - 1))
    elif trigger.calendar is None or nominal_at_ms <= now_ms:
        after_ms = nominal_at_ms - 1
    else:
        after_ms = max(now_ms, floor())  # what its calendar excludes may have changed
    return _unless(nominal_at_ms, source.next_after(after_ms))


def _unless(nominal_at_ms: int, found: tuple[int | None, bool]) -> tuple[int | None, bool] | None:
    return None if found[0] == nominal_at_ms else found


def _nearest(source: Source, nominal_at_ms: int, floor: Callable[[], int]) -> tuple[int | None, bool] | None:
    """Returns the time that is nearest to one of unknown data: what clocks were to show then is not known."""
    later = source.next_after(nominal_at_ms - 1)
    if later[0] == nominal_at_ms:
        return None
    earlier_ms = source.last_until(nominal_at_ms - OFFSETS_MAX_MS, nominal_at_ms)
    if earlier_ms is None or earlier_ms <= min(floor(), nominal_at_ms - 1):
        return later
    near = later[0] is None or nominal_at_ms - earlier_ms <= later[0] - nominal_at_ms
    return (earlier_ms, False) if near else later


def _floor(view: ReadView, job: Job) -> Callable[[], int]:
    """Returns what says up to when no time of the job is owed: it ran then, or was skipped."""

    def floor() -> int:
        return max(job.skipped_until_ms or 0, last_scheduled_ms(view, job))

    return floor


def _floor_of_trigger(view: ReadView, job: Job, trigger: str, skipped_until_ms: int) -> int:
    """Returns up to when no time of one of several triggers is owed. One that it shared with another counts as
    skipped."""
    return max(skipped_until_ms, _newest_of_schedule(view, job, trigger))


def last_scheduled_ms(view: ReadView, job: Job) -> int:
    """Returns the newest nominal time that was run, or recorded as skipped; 0: it is not known, or there is none."""
    last = 0
    if job.gap is not None:
        record = INSTANCES.get(view, job.gap)
        last = split_instance(job.gap)[0] if record is None else _until_ms(record)
    if job.last_instance is not None:
        nominal_at_ms, _, request = split_instance(job.last_instance)
        return max(last, nominal_at_ms if not request else _newest_of_schedule(view, job))
    return last


def _newest_of_schedule(view: ReadView, job: Job, trigger: str = "") -> int:
    """Returns the nominal time of the newest run that nobody asked for, of the newest there are, or the last time of a
    record of several. `trigger`: of those that are of this one of several."""
    prefix = u64(job.id)
    for looked, (row, _) in enumerate(view.scan(Table.BY_JOB, prefix, after(prefix), reverse=True)):
        key = from_by_job(row)
        if not split_instance(key)[2]:
            run = INSTANCES.get(view, key)
            if run is not None and (not trigger or _is_of(run, trigger)):
                return _until_ms(run)
        if looked >= RUNS_LOOKED:
            break
    return 0


def _is_of(run: Instance, trigger: str) -> bool:
    """Returns whether a run is of this trigger. Runs of several that are one record leave out no time in between."""
    joined = run.gap_count > 0 and not run.trigger and run.steps[0].kind is StepKind.CREATED
    return joined or run.trigger == trigger


def _until_ms(run: Instance) -> int:
    return run.gap_until_ms or run.nominal_at_ms


def run_until_ms(source: Source, nominal_at_ms: int, zones: int, before: DataBefore) -> int:
    """Returns up to when a trigger has run once a stored time is fired: where that is by newer data than this node
    has, clocks here show the same later, and what is due then is the same. Where that data is not known it is the time
    that is nearest."""
    offsets, trigger = before.of(zones), source.trigger
    if not is_concerned(trigger, None, offsets) or not source.is_fixed():
        return nominal_at_ms
    if offsets is None:
        nearest = _nearest(source, nominal_at_ms, lambda: 0)
        return nominal_at_ms if nearest is None else max(nominal_at_ms, nearest[0] or 0)
    if not offsets.knows(trigger.timezone, nominal_at_ms // 1000):
        return nominal_at_ms
    return max(nominal_at_ms, offsets.moved(trigger.timezone, nominal_at_ms // 1000) * 1000)
