"""Statistics of runs, counts by minute, and a glance at the runs that there are now."""

from __future__ import annotations

import msgspec

from raftsched.surface.enums import INSTANCE_STATES
from raftsched.surface.operation import READ, Operation
from raftsched.surface.scalars import Time, TimeText
from raftsched.surface.sdk import Arg, Sdk, record, typed_dict


@typed_dict("StatsFilter", null=False)
class StatsFilter(msgspec.Struct):
    """Instances that are counted. All that is given has to hold."""

    state: str  # of instances; one, or several with commas
    owner: str
    namespace: str


@record("Distribution")
class DistributionOut(msgspec.Struct):
    """Statistics of durations, in milliseconds; null when there are none."""

    count: int
    mean: int | None
    p50: int | None
    p90: int | None
    p99: int | None
    max: int | None


@record("Stats", names={"from_": "since", "to": "until"})
class StatsOut(msgspec.Struct):
    """Instances that were due from `from` to before `to`. `complete`: all of them were looked at, back to
    `counted_from`. Of a job without `from`: since it was made, or its first run was due. `lateness` is that of first
    starts after due time and jitter, `duration` that of attempts that ended by themselves. `skipped_fires`: due times
    that did not run, of which a record may stand for many."""

    from_: TimeText = msgspec.field(name="from")
    to: TimeText
    counted_from: TimeText
    complete: bool
    instances: dict[str, int]  # by state
    attempts: dict[str, int]  # by outcome
    skipped_fires: int
    dead_letters: int
    duration: DistributionOut
    lateness: DistributionOut
    jobs: dict[str, int] | None = None  # by state; null: of one job, or too many to be counted


@record("Minutes")
class MinutesOut(msgspec.Struct):
    """Counts of runs in steps of the same length, the first of which begins at `from`; the last may go on. `started`:
    runs, by the first attempt that started; `restarted`: later starts (retries; runs that were lost, rerun or
    requeued). `failed`: or timed out, with nothing more to be tried. `skipped`: due times that were left out, and runs
    that nobody could take in time. `late`: of `started`, more than a second after due time and jitter; `late_max_ms`:
    how late the latest of them was."""

    from_: Time = msgspec.field(name="from")
    to: Time
    step: str
    started: list[int]
    restarted: list[int]
    succeeded: list[int]
    failed: list[int]
    killed: list[int]
    skipped: list[int]
    late: list[int]
    late_max_ms: list[int]


@record("RunningNow")
class RunningOut(msgspec.Struct):
    """A run that is under way."""

    id: str
    job_id: str
    job: str | None
    namespace: str
    node: str | None
    attempt: int
    started_at: Time | None
    worker: str | None = None


@record("QueuedNow")
class QueuedOut(msgspec.Struct):
    """Runs that wait for the same: `queue` is null for all queues without limits, and where the limits of a namespace
    hold. `reason` and `text` say why the first of them (`id`) waits. `overlap` stands for runs behind others of their
    own job."""

    queue: str | None
    count: int
    exact: bool
    id: str
    reason: str | None
    text: str | None


@record("DueNow")
class DueOut(msgspec.Struct):
    """The next time of a job."""

    job_id: str
    job: str | None
    namespace: str
    at: Time


@record("DeadNow")
class DeadOut(msgspec.Struct):
    """A dead letter."""

    id: str
    job_id: str
    job: str | None
    namespace: str
    since: Time
    reason: str | None
    error: str | None


@record("Now")
class NowOut(msgspec.Struct):
    """A glance at the cluster. `runs` are those that run the longest, `due` the next times, `dead` the newest dead
    letters. Where a number is not exact there are at least so many."""

    running: int
    running_exact: bool
    runs: list[RunningOut]
    waiting: list[QueuedOut]
    due: list[DueOut]
    dead_letters: int
    dead_letters_exact: bool
    dead: list[DeadOut]


OF_JOB = Operation(
    "stats_of_job",
    "GET",
    "/v1/jobs/{id}/stats",
    "Read statistics of a job",
    {200: StatsOut},
    query=("state", "from", "to", *READ),
    schemas={"state": INSTANCE_STATES},
    by_name=True,
    role="viewer",
    scope="checked",
    says="Statistics of all its instances that are kept, unless `state`, `from` and `to` narrow it.",
    sdk=Sdk(
        "Jobs.stats",
        (
            Arg("ref", "JobRef", sent_as="id"),
            "*",
            Arg("start", "Moment | None", None, sent_as="from"),
            Arg("end", "Moment | None", None, sent_as="to"),
            Arg("state", "str | None", None),
        ),
        says="Returns statistics of its runs: of all instances that are kept, or of those due from `start` to before "
        "`end`. `state`: only of those in this state, or in one of several with commas.",
    ),
)
ALL = Operation(
    "stats_of_all",
    "GET",
    "/v1/stats",
    "Read statistics of all jobs",
    {200: StatsOut},
    query=("state", "from", "to", "owner", "namespace", *READ),
    schemas={"state": INSTANCE_STATES},
    role="viewer",
    says="Statistics of the last hour, unless `from` and `to` say otherwise; of instances in these states, of one "
    "owner's jobs, or of one namespace.",
    sdk=Sdk(
        "AsyncClient.stats",
        (
            "*",
            Arg("start", "Moment | None", None, sent_as="from"),
            Arg("end", "Moment | None", None, sent_as="to"),
            Arg("**filters", "Unpack[StatsFilter]"),
        ),
        says="Returns how runs went: of instances due from `start` (None: an hour before `end`) to before `end` (None: "
        "now).",
    ),
)
NOW = Operation(
    "now_get",
    "GET",
    "/v1/stats/now",
    "Read what runs, waits and comes next",
    {200: NowOut},
    query=("namespace", *READ),
    role="viewer",
    says="Shows a few of each, and how many there are. Without `namespace` deliveries to webhooks are left out. Asked "
    "without `consistency` and `min_index` it may be half a second old.",
    sdk=Sdk(
        "AsyncClient.now",
        ("*", Arg("namespace", "str | None", None)),
        says="Returns what runs, what waits and why, what is due next, and the newest dead letters. `namespace`: None, "
        "of all.",
    ),
)
MINUTES = Operation(
    "minutes_get",
    "GET",
    "/v1/stats/minutes",
    "Read counts of runs by minute",
    {200: MinutesOut},
    query=("from", "to", "step", "namespace", *READ),
    role="viewer",
    says="Counts those of the last 24 hours, unless `from` and `to` name a part of them, which is widened to whole "
    "steps; never more than the 24 hours before `to`. Without `namespace` deliveries to webhooks are left out. They "
    "are counted as the cluster learns of them, and kept for a day and an hour; all nodes have the same.",
    sdk=Sdk(
        "AsyncClient.minutes",
        (
            "*",
            Arg("start", "Moment | None", None, sent_as="from"),
            Arg("end", "Moment | None", None, sent_as="to"),
            Arg("step", "str", "1m"),
            Arg("namespace", "str | None", None),
        ),
        says='Returns counts of runs over the last 24 hours, or a part of them. `step`: "1m", "5m", "15m" or '
        '"1h". `namespace`: None, all of them.',
    ),
)
