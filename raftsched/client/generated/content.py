"""Made from surface/content.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from raftsched.client.generated.enums import AfterEnd, CalendarAction, JobEventName
from raftsched.client.generated.scalars import SecretRef
from raftsched.client.moments import Duration, Moment

# Exactly one of job, all_of (runs of the same scheduled time), any_of. `on`: which end of their runs starts this job,
# "succeeded" unless given. `pass`: their results are among the params, under "upstream".
After = TypedDict(
    "After",
    {
        "job": str,
        "all_of": Sequence[str],
        "any_of": Sequence[str],
        "on": AfterEnd,
        "pass": Literal["result"],
    },
    total=False,
)


# Exactly one of at, in, every, cron, rrule, manual, after.
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
        "calendar_action": CalendarAction,  # of what falls into excluded time; "move": to its end, once
    },
    total=False,
)


class NamedTrigger(Trigger, total=False):
    """One of several triggers: its id, and exactly one of at, in, every, cron, rrule. `manual` and `max_runs` are left
    out."""

    id: str


class HttpCall(TypedDict, total=False):
    url: str
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    headers: Mapping[str, str | SecretRef]
    body: str | SecretRef
    expected_status: Sequence[int]


class Limits(TypedDict, total=False):
    """Limits of each process of a run."""

    memory: str
    cpu: Duration
    open_files: int


class Handler(TypedDict, total=False):
    """Exactly one of exec, shell, python, http, call."""

    exec: Sequence[str]
    shell: str
    python: str
    http: HttpCall
    call: str
    env: Mapping[str, str | SecretRef]
    cwd: str
    limits: Limits
    fresh: bool
    template: bool


class Exponential(TypedDict, total=False):
    """Delays that grow: `first`, then each `factor` times the one before, none above `max`."""

    first: Duration
    factor: float
    max: Duration
    attempts: int


class Retry(TypedDict, total=False):
    """The delay of each level, as a list or by a rule, not both; jitter lengthens each by up to so much of it."""

    delays: Sequence[Duration]
    exponential: Exponential
    jitter_percent: int
    on: Sequence[Literal["failed", "timed_out"]]


class Misfire(TypedDict, total=False):
    """The policy for due times that passed: one more than `grace` ago was missed, and it is not run, run once for all,
    or each (one after the other where runs may not overlap). A job that is due once runs, however late: for it "once"
    alone is taken."""

    policy: Literal["skip", "once", "all"]
    grace: Duration


class Condition(TypedDict, total=False):
    """Exactly one of path, http (with a status), job_succeeded (within a time)."""

    path: str
    http: str
    status: int
    job_succeeded: str
    within: Duration


class Placement(TypedDict, total=False):
    """`prefer`: of the nodes and workers that are free, those that carry most of these labels come first. `on` "all": a
    run is a part on each of those that can take it; `shards`: a run is so many parts. A run has one or the other."""

    labels: Mapping[str, str]
    on: Literal["one", "all"]
    prefer: Mapping[str, str]
    shards: int


class Retention(TypedDict, total=False):
    succeeded: int
    failed: int
    max_age: Duration


class Notify(TypedDict, total=False):
    """The webhook is told of these events. `late` needs `late_by`, `running_long` needs `longer_than` or `p95_times`
    (so many times as long as 95 of 100 runs lately), `not_run_since` needs `not_run_for`."""

    on: Sequence[JobEventName]
    webhook: str
    late_by: Duration
    longer_than: Duration
    p95_times: float
    not_run_for: Duration


class Rate(TypedDict):
    """So many starts in each period."""

    count: int
    per: Duration


class Concurrency(TypedDict, total=False):
    """Limits by key. `key`: text in which {params.NAME} stands for a param of the run (a dot goes into an object), and
    {job} for the name of the job. Of all runs of the namespace with the same key at most `max` go at one time, and so
    many start as `rate` says; one of these has to be given."""

    key: str
    max: int
    rate: Rate


class Outcomes(TypedDict, total=False):
    """Says what exit codes (0 to 255), or the statuses of an http handler, mean where that is neither success nor
    failure as usual: a code, or a range of them such as "500-599", to "succeed", "retry" (it failed, as any), "fail"
    (no retry), "cancel" (killed, without a retry and no dead letter) or "snooze 5m" (another attempt later, which uses
    no retry). A "snooze" of a status needs no time: it is the answer's Retry-After, or a minute."""

    exit: Mapping[str, str]
    status: Mapping[str, str]
