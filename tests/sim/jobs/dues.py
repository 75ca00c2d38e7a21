"""The times at which each job had to run, counted by the job's definition alone.

A stretch begins when a job gets a trigger, or is taken up again, and ends when it is paused, edited, deleted or over.
All times of its grid in between have to be covered, by an instance or by the record of a gap.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from raftsched.core import commands as c
from raftsched.core.ids import job_text
from raftsched.core.model import (
    FINAL,
    EveryMode,
    Instance,
    Job,
    JobState,
    MisfirePolicy,
    Overlap,
    StepKind,
    Trigger,
    TriggerKind,
)
from raftsched.core.rows import decode_instance, decode_job
from raftsched.core.tables import ReadView, Table, u64

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

# what a violation says
MISSED = "is covered by nothing"
FIRED_TWICE = "has two scheduled runs for"
COUNTED_TWICE = "has a time that is counted in the record before it, too"
TOO_MANY = "runs, and max_runs is"
EXCLUDED = "has a run at a time that its calendar excludes"
LEFT_OUT = "was missed and is to run, and it is left out for an overlap"

SHUT = "shut"  # a calendar that excludes the last so many of each so many milliseconds
SHUT_MS, SHUT_EACH_MS = 3_000, 10_000
SHUT_TIMES = 400

CATCH_UP_LEAST = 3  # what catch_up_max is, or more
LATE_MS = 3_000  # what became due so short a time before the end may still be on its way
MANUAL = 1 << 20  # requests of scheduled runs are smaller than this, those of clients greater


def is_shut(at_ms: int) -> bool:
    """Returns whether the calendar SHUT excludes this time."""
    return at_ms % SHUT_EACH_MS >= SHUT_EACH_MS - SHUT_MS


def shut_content(begin_ms: int) -> bytes:
    """Returns what the calendar SHUT excludes from a time on."""
    first = begin_ms // SHUT_EACH_MS * SHUT_EACH_MS
    ends = [first + n * SHUT_EACH_MS for n in range(1, SHUT_TIMES + 1)]
    return msgspec.json.encode({"excludes": [{"from": _text(end - SHUT_MS), "to": _text(end)} for end in ends]})


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat()


@dataclass(slots=True)
class Stretch:
    """A time in which a job was to fire by one trigger."""

    job_id: int
    trigger: Trigger
    anchor_ms: int
    start_ms: int  # what is due later than this is owed
    max_runs: int | None = None  # of its job
    index: int = 0  # of the trigger, where the job has several
    end_ms: int | None = None  # and no later than this
    fired_ms: int = -1  # the time of the newest fire
    to_the_end: bool = False

    def times(self) -> Iterator[int]:
        """What was owed, ascending."""
        if self.trigger.calendar != SHUT:
            yield from self._grid(self.start_ms)
            return
        assert self.end_ms is not None
        moves, end = self.trigger.calendar_moves, self.end_ms
        if self.trigger.ends_at_ms is not None:
            end = min(end, self.trigger.ends_at_ms)
        before = -1
        # what fell into excluded time before the stretch began may be moved into it
        begun = max(self.start_ms - SHUT_MS, self.anchor_ms if self.trigger.starts_at_ms is None else 0)
        for at in self._grid(begun if moves else self.start_ms):
            due = at if not is_shut(at) else at // SHUT_EACH_MS * SHUT_EACH_MS + SHUT_EACH_MS
            if (due == at or moves) and max(before, self.start_ms) < due <= end:
                yield due
                before = due

    def _grid(self, start: int) -> Iterator[int]:
        """The times after `start`, calendars aside."""
        trigger, end = self.trigger, self.end_ms
        assert end is not None
        if trigger.kind is TriggerKind.CRON:
            period, first = 1000 * int(trigger.expr.split()[0].removeprefix("*/")), 0
        elif trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE:
            period, first = trigger.period_ms, self.anchor_ms
        else:
            return
        if trigger.starts_at_ms is not None:
            start = max(start, trigger.starts_at_ms - 1)
        if trigger.ends_at_ms is not None:
            end = min(end, trigger.ends_at_ms)
        at = first + max(0, (start - first) // period + 1) * period
        if at == first and trigger.starts_at_ms is None and trigger.kind is TriggerKind.EVERY:
            at += period
        while at <= end:
            yield at
            at += period


class Dues:
    def __init__(self, world: JobsWorld) -> None:
        self.stretches: list[Stretch] = []
        self.dropped = 0  # times that were due and not fired yet when somebody paused the job, and not on record
        self.edited: set[int] = set()  # jobs that had more than one trigger
        self.deleted: set[int] = set()
        self._open: dict[int, list[Stretch]] = {}
        self._may_suspend: set[int] = set()
        self._triggers: dict[int, tuple[int | None, tuple[Trigger, ...]]] = {}  # and max_runs
        self._world = world

    # ------------------------------------------------------------ what happens to jobs

    def accepted(self, now_ms: int, command: c.Command, answer: c.Accepted, before: JobState | None) -> None:
        job = answer.job
        match command:
            case c.CreateJob() if job is not None and answer.created:
                self._changed(now_ms, job)
            case c.CreateJob() | c.EditJob() if job is not None:
                if self._triggers.get(job.id) != _when(job):
                    self.edited.add(job.id)
                    self._over(now_ms, job.id)
                self._changed(now_ms, job)
            case c.SetJobState() if job is not None and before is not job.state:
                self._changed(now_ms, job)
            case c.ResumeJob() if job is not None:
                self._changed(min(now_ms, command.resume_at_ms - 1), job)
            case c.DeleteJob():
                self.deleted.add(command.job_id)
                self._over(now_ms, command.job_id)
            case c.Fire() if command.job_id in self._open:
                # one that was proposed long before settles what was due up to the next time that it names
                following = {part.index: part.next_nominal_at_ms for part in command.triggers}
                for stretch in self._open[command.job_id]:
                    if not following or stretch.index in following:
                        after = following.get(stretch.index, command.next_nominal_at_ms)
                        stretch.fired_ms = now_ms if after is None else min(now_ms, after - 1)
            case _:
                pass

    def _changed(self, now_ms: int, job: Job) -> None:
        self._triggers[job.id] = _when(job)
        if job.policy.suspend_after is not None:
            self._may_suspend.add(job.id)
        if job.state is not JobState.SCHEDULED:
            self._over(now_ms, job.id)
        elif job.id not in self._open:
            anchors = [state.anchor_at_ms for state in job.triggers] or [job.anchor_at_ms]
            limit = job.policy.trigger.max_runs
            stretches = self._open[job.id] = [
                Stretch(job.id, trigger, anchor_ms, now_ms, limit, index)
                for index, (trigger, anchor_ms) in enumerate(zip(job.policy.all_triggers, anchors, strict=True))
            ]
            self.stretches += stretches

    def _over(self, now_ms: int, job_id: int) -> None:
        for stretch in self._open.pop(job_id, ()):
            stretch.end_ms = now_ms

    def look_for_suspended(self, view: ReadView, now_ms: int) -> None:
        """Failures in a row may have suspended a job."""
        for job_id in self._open.keys() & self._may_suspend:
            raw = view.get(Table.JOBS, u64(job_id))
            if raw is not None and decode_job(raw).state is JobState.SUSPENDED:
                self._over(now_ms, job_id)

    # ------------------------------------------------------------ the end

    def check(self, view: ReadView, stopped_ms: int) -> None:
        """Everything that was owed is there. `stopped_ms`: when the schedules were stopped for the end of the run."""
        for stretches in self._open.values():
            for stretch in stretches:
                stretch.end_ms, stretch.to_the_end = stopped_ms, True
        rows: dict[int, list[Instance]] = {}
        active: dict[int, list[tuple[int, int | None]]] = {}  # from when to when each instance was there
        for _, raw in view.scan(Table.INSTANCES):
            row = decode_instance(raw)
            active.setdefault(row.job_id, []).append((row.created_at_ms, row.ended_at_ms))
            if row.request < MANUAL:
                rows.setdefault(row.job_id, []).append(row)
        for job_id, found in rows.items():
            self._once_each(job_id, found)
            self._in_open_time(job_id, found)
            raw = view.get(Table.JOBS, u64(job_id))
            if raw is not None:
                self._owed(decode_job(raw), found, active[job_id])
        for stretch in self.stretches:
            if stretch.job_id not in self.deleted:
                self._covered(stretch, rows.get(stretch.job_id, []))

    def _once_each(self, job_id: int, rows: list[Instance]) -> None:
        if job_id in self.edited:
            return
        runs = sorted(row.nominal_at_ms for row in rows if not row.gap_count)
        for one, other in pairwise(runs):
            if one == other:
                self._world.checks.fail(f"job {job_text(job_id)} {FIRED_TWICE} {one}")
        times = sorted((row.nominal_at_ms, row.gap_until_ms or row.nominal_at_ms) for row in rows if _waited(row))
        for (_, until), (first, _) in pairwise(times):
            if first <= until:
                self._world.checks.fail(f"job {job_text(job_id)} {COUNTED_TWICE}: {first}, in a record up to {until}")
        limit = self._triggers[job_id][0]
        if limit is not None and len(runs) > limit:
            self._world.checks.fail(f"job {job_text(job_id)} has {len(runs)} {TOO_MANY} {limit}")

    def _in_open_time(self, job_id: int, rows: list[Instance]) -> None:
        """Where all of its times followed the calendar SHUT in each of its revisions."""
        revisions = self._world.ledger.policies[job_id].values()
        if any(trigger.calendar != SHUT for policy in revisions for trigger in policy.all_triggers):
            return
        for row in rows:
            if not row.gap_count and is_shut(row.nominal_at_ms):
                self._world.checks.fail(f"job {job_text(job_id)} {EXCLUDED}: {row.nominal_at_ms}")

    def _owed(self, job: Job, rows: list[Instance], active: list[tuple[int, int | None]]) -> None:
        """A missed time that is to run waits for the runs before it, unless as many do as may: under the misfire policy
        "all" as many as are caught up with at once, under "once" one."""
        policy = job.policy
        if job.revision > 1 or policy.misfire.policy is MisfirePolicy.SKIP or policy.overlap is Overlap.REPLACE:
            return
        most = CATCH_UP_LEAST if policy.misfire.policy is MisfirePolicy.ALL else 1
        for row in rows:
            if not row.gap_count or row.steps[0].detail != "overlap":
                continue
            at = row.created_at_ms
            late = at - policy.misfire.grace_ms - max(trigger.jitter_ms for trigger in policy.all_triggers)
            # one that ended in the same millisecond may have been active when this one was left out
            there = sum(began <= at and (ended is None or ended >= at) for began, ended in active)
            if row.nominal_at_ms < late and there <= most:
                what = f"{row.nominal_at_ms} of job {job_text(job.id)} {LEFT_OUT}"
                self._world.checks.fail(f"{what}: {there} were active")

    def _on_record(self, stretch: Stretch, at_ms: int) -> bool:
        """Whether pausing, editing or expiring the job had to leave a record of it. Of a calendar apply knows the first
        time only; when failures suspended a job is not known here."""
        trigger = stretch.trigger
        assert stretch.end_ms is not None
        known = (
            trigger.kind is TriggerKind.EVERY and trigger.calendar is None and stretch.job_id not in self._may_suspend
        )
        return known and at_ms + trigger.jitter_ms <= stretch.end_ms

    def _covered(self, stretch: Stretch, rows: list[Instance]) -> None:
        runs = sorted(row.nominal_at_ms for row in rows if not row.gap_count)
        gaps = sorted((row.nominal_at_ms, row.gap_until_ms or 0) for row in rows if row.gap_count)
        assert stretch.end_ms is not None
        last = None
        if stretch.max_runs is not None:  # how many were left when it began is not known here
            last = max((at for at in runs if stretch.start_ms < at <= stretch.end_ms), default=0)
        for at in stretch.times():
            if last is not None and at + stretch.trigger.jitter_ms > last:
                return  # others may have come first
            place = bisect_left(runs, at)
            if place < len(runs) and runs[place] == at:
                continue
            gap = bisect_right(gaps, (at, 1 << 62)) - 1
            if gap >= 0 and any(first <= at <= until for first, until in gaps[: gap + 1]):
                continue
            if at + stretch.trigger.jitter_ms > stretch.fired_ms:  # nothing was fired for it before the stretch ended
                if not stretch.to_the_end and not self._on_record(stretch, at):
                    self.dropped += 1
                    continue
                if at > stretch.end_ms - LATE_MS - stretch.trigger.jitter_ms:
                    continue
            self._world.checks.fail(
                f"{at}, when job {job_text(stretch.job_id)} ({stretch.trigger.kind.name}) was due, {MISSED}: "
                f"the stretch from {stretch.start_ms} to {stretch.end_ms} was last fired at {stretch.fired_ms}; "
                f"runs {runs[-3:]}, gaps {gaps[-3:]}"
            )


def _waited(row: Instance) -> bool:
    """Returns whether it is a run, or a record of runs that waited in vain. Others are about times that came later."""
    return not row.gap_count or row.steps[0].kind is StepKind.CREATED


def _when(job: Job) -> tuple[int | None, tuple[Trigger, ...]]:
    return job.policy.trigger.max_runs, job.policy.all_triggers


def not_final(view: ReadView) -> list[Instance]:
    """Instances that are not at their end."""
    rows = (decode_instance(raw) for _, raw in view.scan(Table.INSTANCES))
    return [row for row in rows if row.state not in FINAL]
