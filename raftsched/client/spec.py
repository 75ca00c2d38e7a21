"""A job as its creator writes it, for type checkers: the JSON of POST /v1/jobs with Python's own times and durations.

JobSpec and JobDefaults are in `spec_generated.py`.
A `datetime` needs a time zone. Of the alternatives in a trigger or handler exactly one is given; the cluster checks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from raftsched.client.moments import Duration, Moment

if TYPE_CHECKING:
    from raftsched.client.spec_generated import JobDefaults

Action = Literal["pause", "resume", "run", "expire", "delete"]
JobState = Literal["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]

# The jobs that a job follows: exactly one of job, all_of, any_of
After = TypedDict(
    "After",
    {
        "job": str,
        "all_of": Sequence[str],
        "any_of": Sequence[str],
        "on": Literal["succeeded", "failed", "ended"],
        "pass": Literal["result"],
    },
    total=False,
)
Trigger = TypedDict(
    "Trigger",
    {
        "at": Moment,
        "in": Duration,
        "every": Duration,
        "cron": str,
        "rrule": str,
        "manual": bool,
        "after": After,
        "mode": Literal["fixed_rate", "fixed_delay"],
        "dialect": Literal["vixie", "quartz"],
        "timezone": str,
        "jitter": Duration,
        "starts_at": Moment,
        "ends_at": Moment,
        "max_runs": int,
        "calendar": str,
        "calendar_action": Literal["skip", "move"],  # of what falls into excluded time; "move": to its end, once
    },
    total=False,
)


# The value of a secret, put in its place when a run starts: {"$secret": "name"}
SecretRef = TypedDict("SecretRef", {"$secret": str})


class NamedTrigger(Trigger, total=False):
    """One of several triggers of a job."""

    id: str


class HttpCall(TypedDict, total=False):
    url: str
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    headers: Mapping[str, str | SecretRef]
    body: str | SecretRef
    expected_status: Sequence[int]


class Limits(TypedDict, total=False):
    memory: str
    cpu: Duration
    open_files: int


class Handler(TypedDict, total=False):
    exec: Sequence[str]
    shell: str
    python: str
    http: HttpCall
    call: str
    env: Mapping[str, str | SecretRef]
    cwd: str
    limits: Limits
    fresh: bool
    template: bool  # names in braces are filled in when a run starts, such as {due:%Y-%m-%d}


class Exponential(TypedDict, total=False):
    first: Duration
    factor: float
    max: Duration
    attempts: int


class Retry(TypedDict, total=False):
    delays: Sequence[Duration]
    exponential: Exponential
    jitter_percent: int
    on: Sequence[Literal["failed", "timed_out"]]


class Outcomes(TypedDict, total=False):
    exit: Mapping[str, str]
    status: Mapping[str, str]


class Misfire(TypedDict, total=False):
    policy: Literal["skip", "once", "all"]
    grace: Duration


class Condition(TypedDict, total=False):
    path: str
    http: str
    status: int
    job_succeeded: str
    within: Duration


EventName = Literal["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started"]
ClusterEventName = Literal["leader_changed", "node_lost", "node_back", "disk_short"]
JobEventName = Literal[EventName, "late", "running_long", "not_run_since"]


class Notify(TypedDict, total=False):
    on: Sequence[JobEventName]
    webhook: str
    late_by: Duration
    longer_than: Duration
    p95_times: float
    not_run_for: Duration


class Placement(TypedDict, total=False):
    labels: Mapping[str, str]
    on: Literal["one", "all"]
    prefer: Mapping[str, str]
    shards: int


class Rate(TypedDict):
    """So many starts in each period."""

    count: int
    per: Duration


class Concurrency(TypedDict, total=False):
    """Limits by key: `key` such as "{params.tenant}", and `max`, `rate` or both."""

    key: str
    max: int
    rate: Rate


class Retention(TypedDict, total=False):
    succeeded: int
    failed: int
    max_age: Duration


class JobFilter(TypedDict, total=False):
    namespace: str
    name: str
    name_prefix: str
    owner: str
    name_contains: str
    queue: str
    calendar: str
    state: str  # one, or several with commas
    label: str  # key=value
    created_from: Moment
    created_to: Moment
    next_from: Moment
    next_to: Moment
    order: Literal["asc", "desc"]


class BulkFilter(TypedDict, total=False):
    """The jobs of an action on many: all that is given has to hold."""

    namespace: str
    name: str
    name_prefix: str
    name_contains: str
    state: Sequence[JobState]  # any of these
    owner: str
    labels: Mapping[str, str]
    queue: str
    calendar: str
    created_from: Moment
    created_to: Moment
    next_from: Moment
    next_to: Moment


class StatsFilter(TypedDict, total=False):
    state: str  # of instances; one, or several with commas
    owner: str
    namespace: str


class QueueLimits(TypedDict, total=False):
    """Limits of a queue; one that is left out, or None, does not limit."""

    max_running: int | None
    rate: Rate | None
    paused: bool | None


DateRange = TypedDict("DateRange", {"from": str, "to": str})  # both included
TimeRange = TypedDict("TimeRange", {"from": Moment, "to": Moment})  # `to` is not included
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


# From one time of day to another ("22:00"), of the next day if that is not later. `weekdays`: on which it begins
Hours = TypedDict("Hours", {"from": str, "to": str, "weekdays": Sequence[Weekday]}, total=False)


class NamespaceLimits(TypedDict, total=False):
    max_jobs: int | None
    max_running: int | None
    max_starts_per_minute: int | None
    output_bytes: int | None
    output_max_bytes: int | None
    output_keep: Duration | None
    output_copies: int | None


class NamespaceSpec(TypedDict, total=False):
    description: str | None
    owner: str | None
    defaults: JobDefaults | None
    limits: NamespaceLimits | None


class CalendarDays(TypedDict, total=False):
    """Dates as text, 2027-03-26; `yearly` as 12-25."""

    description: str | None
    timezone: str | None  # whose days; else those of each trigger's zone
    dates: Sequence[str] | None
    ranges: Sequence[DateRange] | None
    yearly: Sequence[str] | None
    weekdays: Sequence[Weekday] | None
    hours: Sequence[Hours] | None  # excluded
    only: Sequence[Hours] | None  # all else is excluded
    excludes: Sequence[TimeRange] | None  # excluded once


# Of instances whose output is searched
SearchFilter = TypedDict(
    "SearchFilter",
    {"job": str, "namespace": str, "from": Moment, "to": Moment, "stream": Literal["stdout", "stderr"]},
    total=False,
)
InstanceFilter = TypedDict(
    "InstanceFilter",
    {
        "job": str,
        "namespace": str,
        "state": str,
        "node": str,
        "worker": str,
        "from": Moment,
        "to": Moment,
        "dead_letter": bool,
    },
    total=False,
)


WorkflowFilter = TypedDict(
    "WorkflowFilter",
    {
        "job": str,  # of the first run
        "namespace": str,
        "state": Literal["running", "succeeded", "failed", "killed"],
        "from": Moment,
        "to": Moment,
    },
    total=False,
)


KillFilter = TypedDict(
    "KillFilter",
    {
        "job": str,  # an id, "namespace/name", or with `namespace` a name
        "namespace": str,
        "state": Sequence[Literal["WAITING", "LAUNCHED", "RUNNING", "RETRYING"]],
        "from": Moment,
        "to": Moment,
    },
    total=False,
)


class EventFilter(TypedDict, total=False):
    type: str  # such as "instance.failed" or "job", several with commas
    namespace: str
    job: str  # an id, "namespace/name", or with `namespace` a name
    state: str  # one, or several with commas


class DeadFilter(TypedDict, total=False):
    job: str
    namespace: str
    name_prefix: str
