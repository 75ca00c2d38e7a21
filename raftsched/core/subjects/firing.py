"""The commands with which the leader lets jobs be due: their next times, and their fires."""

from __future__ import annotations

import msgspec

from raftsched.core.subjects.command import Command


class TriggerSchedule(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next nominal time of one of several triggers, as in ScheduleJob. It is left out unless that trigger is owed
    its next time since then."""

    index: int  # of the trigger among those of the job
    since_ms: int
    nominal_at_ms: int | None
    calendar: int = 0
    never_fires: bool = False
    gap_ms: int | None = None


class ScheduleJob(Command, frozen=True, tag=20):
    """The next nominal time of a calendar trigger (None: it has none, ever). Refused unless `revision` fits and the
    job waits for it. Of a job with several triggers: `triggers`, those that wait, and nothing else."""

    job_id: int
    revision: int
    nominal_at_ms: int | None
    calendar: int = 0  # revision of the calendar that it was computed with; refused unless it is still that
    never_fires: bool = False  # there are times, but the calendar excludes all of them
    triggers: tuple[TriggerSchedule, ...] = ()
    gap_ms: int | None = None  # from the time to the one after it, where there is a jitter, which ends before that
    zones: int = 0  # number of the time zone data that it was computed with; refused unless that is the present one


class TriggerFire(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One of several triggers that are due, with the fields of Fire. It is left out unless the trigger is due at this
    nominal time."""

    index: int  # of the trigger among those of the job
    nominal_at_ms: int
    next_nominal_at_ms: int | None = None
    missed: tuple[int, ...] = ()
    missed_count: int = 0
    missed_until_ms: int | None = None
    calendar: int = 0
    never_fires: bool = False
    gap_ms: int | None = None


class Fire(Command, frozen=True, tag=21, gc=False):
    """A due job. Compare-and-set on (job, revision, nominal_at_ms): twice is impossible.

    `now` decides on lateness. For calendar triggers the leader adds what only it can compute: `missed` (the nominal
    times after `nominal_at_ms` that are past too, the newest `catch_up_max` of them), `missed_count` of all of them,
    `missed_until_ms` the last, and `next_nominal_at_ms`. For others apply computes these by itself. A job with several
    triggers has these in `triggers`, for each that is due."""

    job_id: int
    revision: int
    nominal_at_ms: int
    next_nominal_at_ms: int | None = None
    missed: tuple[int, ...] = ()
    missed_count: int = 0
    missed_until_ms: int | None = None
    calendar: int = 0  # as in ScheduleJob
    never_fires: bool = False  # of `next_nominal_at_ms`, as in ScheduleJob
    triggers: tuple[TriggerFire, ...] = ()
    gap_ms: int | None = None  # from `next_nominal_at_ms` to the time after it, as in ScheduleJob
    zones: int = 0  # as in ScheduleJob
