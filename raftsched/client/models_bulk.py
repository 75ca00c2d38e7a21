"""Answers about many jobs at once: operations, statistics, revisions."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of durations, in milliseconds; None when there are none."""

    count: int
    mean: int | None
    p50: int | None
    p90: int | None
    p99: int | None
    max: int | None


class Minutes(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Counts of runs in steps of one length, the first of which begins at `from_`. `started`: runs, by
    the first attempt that started, `restarted`: later starts; `failed`: or timed out; `late`: of `started`, by more
    than a second, the latest of them by `late_max_ms`."""

    from_: datetime
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
    """Runs that wait for the same (`queue` None: those without limits), and why the first of them, `id`, does."""

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
    """A glance at the cluster: a few of each, and how many there are, at least where that is not exact."""

    running: int
    running_exact: bool
    runs: list[RunningNow]
    waiting: list[QueuedNow]
    due: list[DueNow]
    dead_letters: int
    dead_letters_exact: bool
    dead: list[DeadNow]


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the instances that were due from `since` to before `until`; unless `complete`, only of those from
    `counted_from` on. `lateness`: from the due time and its jitter to the first start."""

    since: datetime = msgspec.field(name="from")
    until: datetime = msgspec.field(name="to")
    counted_from: datetime
    complete: bool
    instances: dict[str, int]  # by state
    attempts: dict[str, int]  # by outcome
    skipped_fires: int
    dead_letters: int
    duration: Distribution  # of attempts that ended by themselves
    lateness: Distribution
    jobs: dict[str, int] | None  # by state; None: of one job, or too many to be counted
