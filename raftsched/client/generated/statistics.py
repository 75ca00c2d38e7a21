"""Made from surface/statistics.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

import msgspec


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of durations, in milliseconds; None when there are none."""

    count: int
    mean: int | None
    p50: int | None
    p90: int | None
    p99: int | None
    max: int | None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Instances that were due from `from` to before `to`. `complete`: all of them were looked at, back to
    `counted_from`. Of a job without `from`: since it was made, or its first run was due. `lateness` is that of first
    starts after due time and jitter, `duration` that of attempts that ended by themselves. `skipped_fires`: due times
    that did not run, of which a record may stand for many."""

    since: datetime = msgspec.field(name="from")
    until: datetime = msgspec.field(name="to")
    counted_from: datetime
    complete: bool
    instances: dict[str, int]  # by state
    attempts: dict[str, int]  # by outcome
    skipped_fires: int
    dead_letters: int
    duration: Distribution
    lateness: Distribution
    jobs: dict[str, int] | None = None  # by state; None: of one job, or too many to be counted


class Minutes(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of runs in steps of the same length, the first of which begins at `from`; the last may go on. `started`:
    runs, by the first attempt that started; `restarted`: later starts (retries; runs that were lost, rerun or
    requeued). `failed`: or timed out, with nothing more to be tried. `skipped`: due times that were left out, and runs
    that nobody could take in time. `late`: of `started`, more than a second after due time and jitter; `late_max_ms`:
    how late the latest of them was."""

    from_: datetime = msgspec.field(name="from")
    to: datetime
    step: str
    started: list[int]
    restarted: list[int]
    succeeded: list[int]
    failed: list[int]
    killed: list[int]
    skipped: list[int]
    late: list[int]
    late_max_ms: list[int]


class RunningNow(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is under way."""

    id: str
    job_id: str
    job: str | None
    namespace: str
    node: str | None
    attempt: int
    started_at: datetime | None
    worker: str | None = None


class QueuedNow(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that wait for the same: `queue` is None for all queues without limits, and where the limits of a namespace
    hold. `reason` and `text` say why the first of them (`id`) waits. `overlap` stands for runs behind others of their
    own job."""

    queue: str | None
    count: int
    exact: bool
    id: str
    reason: str | None
    text: str | None


class DueNow(msgspec.Struct, frozen=True, kw_only=True):
    """The next time of a job."""

    job_id: str
    job: str | None
    namespace: str
    at: datetime


class DeadNow(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter."""

    id: str
    job_id: str
    job: str | None
    namespace: str
    since: datetime
    reason: str | None
    error: str | None


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """A glance at the cluster. `runs` are those that run the longest, `due` the next times, `dead` the newest dead
    letters. Where a number is not exact there are at least so many."""

    running: int
    running_exact: bool
    runs: list[RunningNow]
    waiting: list[QueuedNow]
    due: list[DueNow]
    dead_letters: int
    dead_letters_exact: bool
    dead: list[DeadNow]


class StatsFilter(TypedDict, total=False):
    """Instances that are counted. All that is given has to hold."""

    state: str  # of instances; one, or several with commas
    owner: str
    namespace: str
