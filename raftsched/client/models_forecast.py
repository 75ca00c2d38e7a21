"""The answer about what is due next: how many runs, in which queues, and the slots for them."""

from __future__ import annotations

from datetime import datetime

import msgspec


class ForecastQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that are due in a queue, step by step. `busy`: slots that they are expected to take; `slots`: of the
    nodes and workers that take its runs now; `max_running`: its limit, None where it has none."""

    queue: str
    total: int
    due: list[int]
    busy: list[float]
    slots: int
    max_running: int | None
    paused: bool


class ForecastShare(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    due: int


class ForecastJob(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str | None
    namespace: str
    queue: str
    due: int


class ForecastPeak(msgspec.Struct, frozen=True, kw_only=True):
    """A step in which much is due, with the queues and the jobs of which most is; these are `jobs_due` jobs in all."""

    at: datetime
    due: int
    busy: float
    queues: list[ForecastShare]
    jobs: list[ForecastJob]
    jobs_due: int


class Forecast(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """`due`: runs in each step, the first of which begins at `from_`; `total` in all, of which `estimated` are runs
    after a fixed delay or after other jobs. `busy`: the slots that they are expected to take, beside the `slots` that
    there are; jobs of which no run has ended (`unmeasured`) count nothing there. `queues`: those in which most is due;
    `peaks`: the steps in which most is. `left_out`: jobs that are paused. `complete`: False where there were more jobs
    than one answer looks at; those made after the job `stopped_at` are missing then."""

    from_: datetime
    to: datetime
    counted_from: datetime
    step: str
    total: int
    estimated: int
    due: list[int]
    busy: list[float]
    slots: int
    queues: list[ForecastQueue]
    queues_left_out: int
    peaks: list[ForecastPeak]
    jobs: int
    unmeasured: int
    left_out: int
    complete: bool
    stopped_at: str | None
