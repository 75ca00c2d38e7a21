"""The forecast in answers: how many runs are due next, in which queues, and the slots for them."""

from __future__ import annotations

import msgspec

from raftsched.surface.enums import StepName, one_of
from raftsched.surface.operation import READ, Operation
from raftsched.surface.scalars import Time
from raftsched.surface.sdk import Arg, Sdk, record


@record("ForecastQueue")
class ForecastQueueOut(msgspec.Struct):
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


@record("ForecastShare")
class ForecastShareOut(msgspec.Struct):
    queue: str
    due: int


@record("ForecastJob")
class ForecastJobOut(msgspec.Struct):
    id: str
    name: str | None
    namespace: str
    queue: str
    due: int


@record("ForecastPeak")
class ForecastPeakOut(msgspec.Struct):
    """A step in which much is due: the queues and the jobs of which most is, and how many jobs these are in all."""

    at: Time
    due: int
    busy: float
    queues: list[ForecastShareOut]
    jobs: list[ForecastJobOut]
    jobs_due: int


@record("Forecast")
class ForecastOut(msgspec.Struct):
    """Runs that are due in steps of the same length, the first of which begins at `from`; what went by before
    `counted_from` is not among them. `total`: in all; `estimated`: of these, runs after a fixed delay, or after other
    jobs. `due` and `busy`: in all queues, as of one. `slots`: of all nodes and workers that take runs now. `queues`:
    those in which most is due, and how many others there are. `peaks`: the steps in which most is due, the first of
    them first. `jobs`: those that are due at all; `unmeasured`: of these, those of which no run has ended, which count
    nothing in `busy`; `left_out`: jobs that are paused, or whose times this node cannot compute. `complete`: false when
    there were more jobs than one answer looks at; then those made after the job `stopped_at` are missing."""

    from_: Time = msgspec.field(name="from")
    to: Time
    counted_from: Time
    step: str
    total: int
    estimated: int
    due: list[int]
    busy: list[float]
    slots: int
    queues: list[ForecastQueueOut]
    queues_left_out: int
    peaks: list[ForecastPeakOut]
    jobs: int
    unmeasured: int
    left_out: int
    complete: bool
    stopped_at: str | None


FORECAST = Operation(
    "forecast_get",
    "GET",
    "/v1/forecast",
    "Read how many runs are due",
    {200: ForecastOut},
    query=("from", "to", "for", "step", "namespace", "queue", *READ),
    schemas={"step": one_of(StepName)},
    role="viewer",
    says="Counts the next 24 hours, unless `from`, and `to` or `for`, say otherwise; in whole steps, 1,500 at most: of "
    "a minute, or the shortest that suffices, unless `step` says otherwise. Counts are exact, by nominal time, before "
    "jitter; all triggers of a job, calendars, time zones and `max_runs` count. Runs after a fixed delay, or after "
    "other jobs' runs, which are taken to succeed, are estimates. Jobs that are paused count from the time until which "
    "they are, or not at all; runs that somebody asks for, retries, and deliveries to webhooks do not.",
    sdk=Sdk(
        "Jobs.forecast",
        (
            "*",
            Arg("namespace", "str | None", None),
            Arg("queue", "str | None", None),
            Arg("start", "Moment | None", None, "from"),
            Arg("end", "Moment | None", None, "to"),
            Arg("length", "Duration | None", None, "for"),
            Arg("step", "StepName | None", None),
        ),
        "Returns how many runs are due, step by step, and the slots for them: from `start` (None: now) to before "
        "`end`, or for `length` (None: 24 hours); of one namespace or queue, or (None) of all. `step` None: a minute, "
        "or the shortest that such a window allows.",
    ),
)
