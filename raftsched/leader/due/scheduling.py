"""Gives calendar jobs their first and next times, which only the leader computes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice

from raftsched.core.commands import Command, ScheduleJob, SetJobState, TriggerSchedule
from raftsched.core.rows import decode_job
from raftsched.core.tables import ReadView, Table, from_u64, u64
from raftsched.leader import pacing
from raftsched.leader.due.time_zones import TimeZones
from raftsched.leader.due.triggers import CalendarJob, source_of, sources_of, suspend, with_calendars
from raftsched.leader.pacing import Proposals
from raftsched.leader.raft_port import Host
from raftsched.schedule import Steps

Read = Callable[[], AbstractContextManager[ReadView]]

KNOWN_MAX = 10_000  # jobs that wait for their next time and are known in memory


class Scheduling:
    """The jobs of one leadership that wait for their next time. `now_ms` is wall time."""

    def __init__(self, host: Host, proposals: Proposals, time_zones: TimeZones) -> None:
        self._read = host.read
        self._time_zones = time_zones
        self._proposals = proposals
        self.known: set[int] = set()  # ids of those that wait, as far as the table was read: below `_read_from`
        self._read_from: int | None = 0  # where to read on in the table; None: all of it is known

    def add(self, job_id: int) -> None:
        """A row was written: the job waits for its next time."""
        if self._read_from is None or job_id < self._read_from:
            self.known.add(job_id)

    def tick(self, now_ms: int) -> int | None:
        """Schedules a bounded number of jobs. Returns `now_ms` when there are more and it can go on."""
        if not self.known and self._read_from is not None:
            ids = unscheduled_jobs(self._read, self._read_from, KNOWN_MAX)
            self.known.update(ids)
            self._read_from = ids[-1] + 1 if len(ids) >= KNOWN_MAX else None
        if self._time_zones.holds_fires or not self._proposals.has_room(ScheduleJob):
            return None
        batch: list[Command] = []
        with Steps() as steps:
            while self.known and len(batch) < pacing.BATCH and steps.done <= pacing.SEARCHED_MAX:
                waiting = unscheduled_job(self._read, self.known.pop())
                if waiting is not None:
                    found, since_ms = waiting
                    batch.append(schedule_command(found, since_ms, now_ms, self._time_zones.number))
        if batch:
            self._proposals.send_paced(ScheduleJob, batch)
        return now_ms if self.known or self._read_from is not None else None

    def reload(self) -> None:
        """Reads the table again: it is not known what became of some batches."""
        self.known.clear()
        self._read_from = 0


def schedule_command(found: CalendarJob, since_ms: int, now_ms: int, zones: int = 0) -> ScheduleJob | SetJobState:
    """Makes the command with the first time of a calendar trigger after `since_ms`, when its schedule was taken up.

    That may be past: there may have been no leader since. Taking up never catches up with what was before. A clock that
    was set back counts from now. `zones`: number of the time zone data."""
    job = found.job
    try:
        if job.triggers:
            return _schedule_triggers(found, now_ms, zones)
        source = source_of(found)
        nominal, never = source.next_after(max(min(since_ms, now_ms), job.skipped_until_ms or 0))
        gap_ms = source.gap_after(nominal)
    except MemoryError:  # no fault of the job
        raise
    except Exception as error:
        return suspend(job, error)
    return ScheduleJob(job.id, job.revision, nominal, source.revision, never, gap_ms=gap_ms, zones=zones)


def _schedule_triggers(found: CalendarJob, now_ms: int, zones: int) -> ScheduleJob:
    """Each of several triggers counts from when its own schedule was taken up."""
    job = found.job
    parts = []
    for index, (source, state) in enumerate(sources_of(found)):
        since_ms = state.unscheduled_since_ms
        if since_ms is None:
            continue
        nominal, never = source.next_after(max(min(since_ms, now_ms), state.skipped_until_ms or 0))
        gap_ms = source.gap_after(nominal)
        parts.append(TriggerSchedule(index, since_ms, nominal, source.revision, never, gap_ms))
    return ScheduleJob(job.id, job.revision, None, triggers=tuple(parts), zones=zones)


def unscheduled_jobs(read: Read, first: int, limit: int) -> list[int]:
    """Returns the ids of calendar jobs that wait for their next time, from the id `first` on."""
    with read() as view:
        return [from_u64(key) for key, _ in islice(view.scan(Table.UNSCHEDULED, u64(first)), limit)]


def unscheduled_job(read: Read, job_id: int) -> tuple[CalendarJob, int] | None:
    """Returns a calendar job that waits for its next time, and since when; None: it does not, any more."""
    with read() as view:
        raw = view.get(Table.JOBS, u64(job_id))
        since = view.get(Table.UNSCHEDULED, u64(job_id))
        if raw is None or since is None:
            return None
        job = decode_job(raw)
        return with_calendars(view, job), from_u64(since)
