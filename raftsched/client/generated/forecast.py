"""Made from surface/forecast.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime

import msgspec


class ForecastQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that are due in a queue, step by step. `total`: in all. `busy`: slots that they are expected to take.
    `slots`: of the nodes and workers that take its runs now; `max_running`: its limit, where it has one. `paused`: its
    runs wait until it goes on."""

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
    """A step in which much is due: the queues and the jobs of which most is, and how many jobs these are in all."""

    at: datetime
    due: int
    busy: float
    queues: list[ForecastShare]
    jobs: list[ForecastJob]
    jobs_due: int


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that are due in steps of the same length, the first of which begins at `from`; what went by before
    `counted_from` is not among them. `total`: in all; `estimated`: of these, runs after a fixed delay, or after other
    jobs. `due` and `busy`: in all queues, as of one. `slots`: of all nodes and workers that take runs now. `queues`:
    those in which most is due, and how many others there are. `peaks`: the steps in which most is due, the first of
    them first. `jobs`: those that are due at all; `unmeasured`: of these, those of which no run has ended, which count
    nothing in `busy`; `left_out`: jobs that are paused, or whose times this node cannot compute. `complete`: false when
    there were more jobs than one answer looks at; then those made after the job `stopped_at` are missing."""

    from_: datetime = msgspec.field(name="from")
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
