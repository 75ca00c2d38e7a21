"""Turns due times into Fire commands.

Of what is due a bounded number is proposed at a time, and no more than the log keeps up with: after an outage a million
jobs may be due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from raftsched.core.commands import Command, Fire, SetJobState, TriggerFire
from raftsched.core.ids import instance_key
from raftsched.core.model import EveryMode, Job, JobState, MisfirePolicy, Overlap, Policy, Trigger, TriggerKind
from raftsched.core.rows import RUN_KEYS, decode_job
from raftsched.core.rules.concurrency import can_start, concurrency_limit
from raftsched.core.rules.run_keys import Concurrency, RunKey, blocked_by, key_of, run_key, take_permit
from raftsched.core.subjects.calendar import RescheduleJob
from raftsched.core.subjects.zones import MoveJob
from raftsched.core.tables import ReadView, Table, u64
from raftsched.leader import pacing
from raftsched.leader.cluster_view import Cluster
from raftsched.leader.dispatch.assigning import Assigning
from raftsched.leader.due.time_zones import TimeZones
from raftsched.leader.due.triggers import (
    CalendarJob,
    FireFields,
    Source,
    source_of,
    sources_of,
    suspend,
    with_calendars,
)
from raftsched.leader.due.window import Window
from raftsched.leader.pacing import Proposals
from raftsched.leader.raft_port import Host
from raftsched.schedule import Steps

Read = Callable[[], AbstractContextManager[ReadView]]


class Firing:
    """The fire times of one leadership that are due soon. `now_ms` is wall time."""

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        assigning: Assigning,
        proposals: Proposals,
        now_ms: int,
        window_ms: int,
        count_max: int,
        time_zones: TimeZones,
    ) -> None:
        self.window = Window(Table.DUE, host.read, now_ms, window_ms=window_ms, count_max=count_max)
        self._read = host.read
        self._cluster = cluster
        self._assigning = assigning
        self._proposals = proposals
        self._time_zones = time_zones
        self._traces = host.fire_traces
        self._due: deque[bytes] = deque()  # ids of jobs that are due and not yet proposed to fire
        self._due_ms = now_ms  # when they were due, by this node's clock: it may go back meanwhile

    def tick(self, now_ms: int) -> int | None:
        """Fires what is due. Returns when the next job is, or `now_ms` when there are more; None: nothing can be fired
        until a batch is answered, or while the cluster is paused."""
        if self._cluster.paused or self._time_zones.holds_fires:
            return None
        if not self._due:
            self._due.extend(key for _, key in self.window.advance(now_ms))
            self._due_ms = now_ms
        if self._due and self._proposals.has_room(Fire):
            self._fire(now_ms)
        if not self._proposals.has_room(Fire):
            return None
        return now_ms if self._due else self.window.next_ms(now_ms)

    def _fire(self, now_ms: int) -> None:
        keys = [self._due.popleft() for _ in range(min(pacing.BATCH, len(self._due)))]
        direct = self._assigning.can_assign()
        batch: list[Command] = []
        starts: list[tuple[bytes, Policy, str]] = []  # instances that these fires make ready
        runs = 0
        jobs = due_jobs(self._read, keys, max(now_ms, self._due_ms))
        permits = PermitsLeft(self._read, (found.job for found in jobs), now_ms)
        catch_up_max = self._cluster.settings.catch_up_max
        searched = 0
        for position, found in enumerate(jobs):
            if searched > pacing.SEARCHED_MAX:
                self._due.extendleft(u64(other.job.id) for other in reversed(jobs[position:]))
                break
            job = found.job
            with Steps() as steps:
                command = fire_command(found, now_ms, catch_up_max, self._time_zones)
            searched += steps.done
            due = times_due(job, command, now_ms) if isinstance(command, Fire) else 0
            runs += runs_at_most(job, due, catch_up_max)
            if runs > pacing.BATCH and batch:
                self._due.extendleft(u64(other.job.id) for other in reversed(jobs[position:]))
                break
            batch.append(command)
            key = startable(job, permits) if direct and due == 1 else None
            if key is not None:
                starts.append((key, job.policy, job.namespace))
        starts.sort(key=lambda start: -start[1].priority)  # of what is due together the more urgent goes first
        batch += self._assigning.place(starts, now_ms)
        if batch:
            if self._traces is not None:
                self._traces.proposed(batch)
            self._proposals.send_paced(Fire, batch)

    def reload(self, now_ms: int) -> None:
        """Reads the table again: it is not known what became of some batches."""
        self._due.clear()
        self.window.reload(now_ms)


class PermitsLeft:
    """The permits of keys that the tables show, less those that fires of one batch will take. Apply decides: what was
    fired meanwhile is not counted here, and an assignment without a permit is refused."""

    def __init__(self, read: Read, jobs: Iterable[Job], now_ms: int) -> None:
        """Reads the keys of these jobs."""
        self._now_ms = now_ms
        self._rows: dict[bytes, RunKey] = {}
        keys = {_run_key(job, job.policy.concurrency) for job in jobs if job.policy.concurrency is not None}
        if keys:
            with read() as view:
                self._rows = {key: RUN_KEYS.get(view, key) or RunKey() for key in keys}

    def take(self, job: Job) -> bool:
        """Takes a permit for a run of the job. Returns False when there is none."""
        limits = job.policy.concurrency
        if limits is None:
            return True
        row = self._rows[_run_key(job, limits)]
        if row.waiting or blocked_by(row, limits, self._now_ms) is not None:
            return False
        take_permit(row, limits)
        return True


def _run_key(job: Job, limits: Concurrency) -> bytes:
    return run_key(job.namespace, key_of(limits, job.name, job.id, None))


def fire_command(
    found: CalendarJob, now_ms: int, catch_up_max: int, time_zones: TimeZones | None = None
) -> Fire | SetJobState | RescheduleJob | MoveJob:
    """Makes the command that fires a due job, for calendar triggers with what only the leader computes: what was
    missed, and the next time. A time that the calendar excludes, as it is now, is not fired, nor one that new time zone
    data moves. `time_zones`: None: the data that all stored times are by."""
    try:
        return _fire_command(found, now_ms, catch_up_max, time_zones)
    except MemoryError:  # no fault of the job
        raise
    except Exception as error:
        return suspend(found.job, error)


def _fire_command(
    found: CalendarJob, now_ms: int, catch_up_max: int, time_zones: TimeZones | None
) -> Fire | RescheduleJob | MoveJob:
    job = found.job
    assert job.nominal_at_ms is not None
    if not job.triggers and not job.policy.trigger.needs_calendar:
        return Fire(job.id, job.revision, job.nominal_at_ms)
    moved = None if time_zones is None else time_zones.instead_of_fire(found, now_ms)
    if moved is not None:
        return moved
    if job.triggers:
        return _fire_triggers(found, job.nominal_at_ms, now_ms, catch_up_max, time_zones)
    source = source_of(found)
    fields = _fields(source, job.nominal_at_ms, job.zones, now_ms, catch_up_max, time_zones)
    if fields is None:
        return RescheduleJob(job.id, job.revision, job.nominal_at_ms)
    gap_ms = source.gap_after(fields[0])
    return Fire(job.id, job.revision, job.nominal_at_ms, *fields, gap_ms=gap_ms, zones=_number(time_zones))


def _fire_triggers(
    found: CalendarJob, nominal_at_ms: int, now_ms: int, catch_up_max: int, time_zones: TimeZones | None
) -> Fire | RescheduleJob:
    """All that are due are fired as one: the policies of the job are about their times together."""
    job = found.job
    until_ms = max(now_ms, job.fire_at_ms or 0)  # the first is due, though the clock may have gone back
    parts = []
    for index, (source, state) in enumerate(sources_of(found)):
        if state.nominal_at_ms is None or state.fire_at_ms is None or state.fire_at_ms > until_ms:
            continue
        fields = _fields(source, state.nominal_at_ms, state.zones, now_ms, catch_up_max, time_zones)
        if fields is None:
            return RescheduleJob(job.id, job.revision, nominal_at_ms)
        parts.append(TriggerFire(index, state.nominal_at_ms, *fields, gap_ms=source.gap_after(fields[0])))
    return Fire(job.id, job.revision, nominal_at_ms, triggers=tuple(parts), zones=_number(time_zones))


def _fields(
    source: Source, nominal_at_ms: int, zones: int, now_ms: int, catch_up_max: int, time_zones: TimeZones | None
) -> FireFields | None:
    """Returns what `Source.fire_fields` does. `zones`: number of the time zone data that the time is by."""
    until_ms = nominal_at_ms if time_zones is None else time_zones.run_until_ms(source, nominal_at_ms, zones)
    return source.fire_fields(nominal_at_ms, now_ms, catch_up_max, until_ms)


def _number(time_zones: TimeZones | None) -> int:
    return 0 if time_zones is None else time_zones.number


def due_jobs(read: Read, job_ids: list[bytes], now_ms: int) -> list[CalendarJob]:
    """Returns the jobs among these (8-byte ids) that are really due now."""
    jobs = []
    with read() as view:
        for key in job_ids:
            raw = view.get(Table.JOBS, key)
            if raw is None:
                continue
            job = decode_job(raw)
            if job.state is JobState.SCHEDULED and job.fire_at_ms is not None and job.fire_at_ms <= now_ms:
                jobs.append(with_calendars(view, job))
    return jobs


def times_due(job: Job, command: Fire, now_ms: int) -> int:
    """Returns how many nominal times a fire covers: more than one after an outage."""
    if not command.triggers:
        return _times_due(job.policy.trigger, command, now_ms)
    triggers = job.policy.triggers
    counts = [_times_due(triggers[part.index], part, now_ms) for part in command.triggers]
    if max(counts) == 1:
        return len({part.nominal_at_ms for part in command.triggers})
    return sum(counts)


def _times_due(trigger: Trigger, due: Fire | TriggerFire, now_ms: int) -> int:
    if trigger.kind is TriggerKind.EVERY and trigger.mode is EveryMode.FIXED_RATE and trigger.calendar is None:
        return 1 + max(0, now_ms - due.nominal_at_ms) // trigger.period_ms
    return 1 + due.missed_count


def runs_at_most(job: Job, due: int, catch_up_max: int) -> int:
    """Returns how many instances a fire for `due` times may make: what is caught up with is made at once."""
    waiting = job.policy.misfire.policy is MisfirePolicy.ALL and job.policy.overlap is not Overlap.REPLACE
    if due > 1 and not waiting and job.policy.overlap in (Overlap.FORBID, Overlap.QUEUE_ONE, Overlap.REPLACE):
        due = min(due, (concurrency_limit(job.policy) or due) + 1)
    return min(due, catch_up_max)


def startable(job: Job, permits: PermitsLeft) -> bytes | None:
    """Returns the key of the instance that a fire for one time makes ready at once; None: that cannot be said
    before."""
    policy = job.policy
    if job.nominal_at_ms is None or not can_start(job) or policy.conditions or policy.shards or policy.on_all:
        return None
    if policy.concurrency is not None and not permits.take(job):
        return None
    return instance_key(job.nominal_at_ms, job.id)
