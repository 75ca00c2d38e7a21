"""The parts of a job's content in requests."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from raftsched import names
from raftsched.bounds import (
    CONDITION_MAX,
    CONDITIONS_MAX,
    KEY_TEMPLATE_MAX,
    NOTIFY_MAX,
    OUTCOMES_MAX,
    RATE_COUNT_MAX,
    SHARDS_MAX,
    TRIGGERS_MAX,
    UPSTREAM_MAX,
)
from raftsched.surface import patterns
from raftsched.surface.enums import AfterEnd, CalendarAction, JobEventName
from raftsched.surface.scalars import (
    Argument,
    Count,
    Duration,
    Environment,
    Kept,
    Labels,
    Name,
    SecretRef,
    SmallCount,
    Status,
    Text,
    Time,
    Url,
    Zone,
    by_rule,
)
from raftsched.surface.sdk import typed_dict

JobRef = Annotated[
    str,
    Meta(
        description='a job as "name", or "namespace/name" of one elsewhere',
        extra_json_schema={"pattern": names.JOB_REFERENCE.pattern},
    ),
]


JobRefs = Annotated[
    list[JobRef], Meta(extra_json_schema={"minItems": 1, "maxItems": UPSTREAM_MAX, "uniqueItems": True})
]


@typed_dict("After", null=False)
class AfterIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Exactly one of job, all_of (runs of the same scheduled time), any_of. `on`: which end of their runs starts this
    job, "succeeded" unless given. `pass`: their results are among the params, under "upstream"."""

    job: JobRef | None = None
    all_of: JobRefs | None = None
    any_of: JobRefs | None = None
    on: AfterEnd | None = None
    pass_: Literal["result"] | None = field(default=None, name="pass")


class _Given(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A struct that shows only the fields that were given."""


@typed_dict("Trigger", null=False)
class TriggerIn(_Given, kw_only=True):
    """Exactly one of at, in, every, cron, rrule, manual, after."""

    at: Time | None = None
    in_: Duration | None = field(default=None, name="in")
    every: Duration | None = None
    cron: Annotated[str, Meta(description="a string", extra_json_schema={"format": "cron"})] | None = None
    rrule: (
        Annotated[
            str, Meta(description="a string, a recurrence rule of RFC 5545", extra_json_schema={"format": "rrule"})
        ]
        | None
    ) = None
    manual: Annotated[bool, Meta(description="true")] = False
    after: AfterIn | None = None
    mode: Literal["fixed_rate", "fixed_delay"] | None = None
    dialect: Literal["vixie", "quartz"] | None = None
    timezone: Zone | None = None
    jitter: Duration | None = None
    starts_at: Time | None = None
    ends_at: Time | None = None
    max_runs: Count | None = None
    calendar: Name | None = None
    calendar_action: CalendarAction | None = None  # of what falls into excluded time; "move": to its end, once


@typed_dict("NamedTrigger", null=False)
class TriggerItemIn(TriggerIn):
    """One of several triggers: its id, and exactly one of at, in, every, cron, rrule. `manual` and `max_runs` are left
    out."""

    id: Annotated[str, by_rule(names.TRIGGER)] | None = None


Triggers = Annotated[list[TriggerItemIn], Meta(max_length=TRIGGERS_MAX)]


@typed_dict("HttpCall", null=False)
class HttpIn(_Given):
    url: Url = ""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] | None = None
    headers: Annotated[
        dict[
            str,
            Annotated[
                str, Meta(description="a string", extra_json_schema={"pattern": "^[^\\x00-\\x08\\x0a-\\x1f\\x7f]*$"})
            ]
            | SecretRef,
        ],
        Meta(
            extra_json_schema={"propertyNames": {"pattern": patterns.HEADER, "not": {"pattern": patterns.OWN_HEADER}}}
        ),
    ] = {}
    body: Text | SecretRef | None = None
    expected_status: list[Status] = []


@typed_dict("Limits", null=False, types={"cpu": "Duration"})
class LimitsIn(_Given):
    """Limits of each process of a run."""

    memory: (
        Annotated[
            str,
            Meta(
                description="a size such as 512MiB or 1GiB",
                extra_json_schema={"format": "memory-size", "pattern": patterns.SIZE},
            ),
        ]
        | None
    ) = None
    cpu: (
        Annotated[
            str,
            Meta(
                description="a duration such as 30s, 5m, 1h30m, 1d or PT5M",
                extra_json_schema={"format": "whole-seconds", "pattern": patterns.DURATION},
            ),
        ]
        | None
    ) = None
    open_files: Annotated[int, Meta(ge=16, le=1_048_576, description="an integer from 16 to 1,048,576")] | None = None


@typed_dict("Handler", null=False)
class HandlerIn(_Given):
    """Exactly one of exec, shell, python, http, call."""

    exec: (
        Annotated[
            list[Argument],
            Meta(
                extra_json_schema={
                    "minItems": 1,
                    "prefixItems": [{"type": "string", "minLength": 1, "pattern": patterns.NO_NUL}],
                }
            ),
        ]
        | None
    ) = None
    shell: Annotated[str, Meta(description="a string", extra_json_schema={"pattern": patterns.COMMAND})] | None = None
    python: (
        Annotated[
            str,
            Meta(
                description='a callable as "package.module:function"', extra_json_schema={"pattern": patterns.CALLABLE}
            ),
        ]
        | None
    ) = None
    http: HttpIn | None = None
    call: Name | None = None
    env: Environment = {}
    cwd: Annotated[str, Meta(description="an absolute path", extra_json_schema={"pattern": "^/[^\\x00]*$"})] | None = (
        None
    )
    limits: LimitsIn | None = None
    fresh: Annotated[bool, Meta(description="true or false")] = False
    # names in braces are filled in when a run starts, such as {due:%Y-%m-%d}
    template: Annotated[bool, Meta(description="true or false")] = False


@typed_dict("Exponential", null=False)
class ExponentialIn(msgspec.Struct, forbid_unknown_fields=True):
    """Delays that grow: `first`, then each `factor` times the one before, none above `max`."""

    first: Duration = "1s"
    factor: Annotated[float, Meta(ge=1, le=100, description="a number from 1 to 100")] = 2.0
    max: Duration = "1h"
    attempts: Annotated[int, Meta(ge=1, le=100, description="an integer from 1 to 100")] = 5


@typed_dict("Retry", null=False)
class RetryIn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The delay of each level, as a list or by a rule, not both; jitter lengthens each by up to so much of it."""

    delays: Annotated[list[Duration], Meta(max_length=100)] = []
    exponential: ExponentialIn | None = None
    jitter_percent: Annotated[int, Meta(ge=0, le=100, description="an integer from 0 to 100")] = 0
    on: Annotated[list[Literal["failed", "timed_out"]], Meta(extra_json_schema={"minItems": 1})] = field(
        default_factory=lambda: ["failed", "timed_out"]
    )


@typed_dict("Misfire", null=False)
class MisfireIn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The policy for due times that passed: one more than `grace` ago was missed, and it is not run, run once for all,
    or each (one after the other where runs may not overlap). A job that is due once runs, however late: for it "once"
    alone is taken."""

    policy: Literal["skip", "once", "all"] = "once"
    grace: Duration = "15m"


@typed_dict("Condition", null=False)
class ConditionIn(_Given):
    """Exactly one of path, http (with a status), job_succeeded (within a time)."""

    path: (
        Annotated[
            str,
            Meta(
                description="an absolute path, in which * ? and [] stand for parts of names",
                extra_json_schema={
                    "pattern": "^/[^\\x00]*$",
                    "maxLength": CONDITION_MAX,
                    "not": {"pattern": "(^|/)\\*\\*(/|$)"},
                },
            ),
        ]
        | None
    ) = None
    http: Url | None = None
    status: Status | None = None
    job_succeeded: (
        Annotated[
            str,
            Meta(
                description='a job as "namespace/name"', extra_json_schema={"pattern": names.JOB_OF_NAMESPACE.pattern}
            ),
        ]
        | None
    ) = None
    within: Duration | None = None


@typed_dict("Placement", null=False)
class PlacementIn(_Given):
    """`prefer`: of the nodes and workers that are free, those that carry most of these labels come first. `on` "all": a
    run is a part on each of those that can take it; `shards`: a run is so many parts. A run has one or the other."""

    labels: Labels = {}
    on: Literal["one", "all"] | None = None
    prefer: Labels = {}
    shards: Annotated[int, Meta(ge=1, le=SHARDS_MAX)] | None = None


@typed_dict("Retention", null=False)
class RetentionIn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    succeeded: Kept = 200
    failed: Kept = 100
    max_age: Duration = "7d"


@typed_dict("Notify", null=False)
class NotifyIn(_Given):
    """The webhook is told of these events. `late` needs `late_by`, `running_long` needs `longer_than` or `p95_times`
    (so many times as long as 95 of 100 runs lately), `not_run_since` needs `not_run_for`."""

    on: Annotated[list[JobEventName], Meta(extra_json_schema={"minItems": 1})] = []
    webhook: (
        Annotated[str, Meta(description="the name of a webhook", extra_json_schema={"pattern": names.WEBHOOK.pattern})]
        | None
    ) = None
    late_by: Duration | None = None
    longer_than: Duration | None = None
    p95_times: Annotated[float, Meta(ge=1, le=1000, description="a number from 1 to 1000")] | None = None
    not_run_for: Duration | None = None


Notify = NotifyIn | Annotated[list[NotifyIn], Meta(max_length=NOTIFY_MAX)]


Conditions = Annotated[list[ConditionIn], Meta(max_length=CONDITIONS_MAX)]


RateCount = Annotated[int, Meta(ge=1, le=RATE_COUNT_MAX, description=f"an integer from 1 to {RATE_COUNT_MAX:,}")]


RatePeriod = Annotated[
    str,
    Meta(
        description="a duration such as 30s, 5m, 1h30m, 1d or PT5M",
        extra_json_schema={"format": "rate-period", "pattern": patterns.DURATION},
    ),
]


KeyTemplate = Annotated[
    str,
    Meta(
        description='a text such as "{params.tenant}"',
        extra_json_schema={"format": "key-template", "pattern": patterns.KEY_TEMPLATE, "maxLength": KEY_TEMPLATE_MAX},
    ),
]


@typed_dict("Rate", null=False, needed=True, types={"per": "Duration"})
class RateIn(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """So many starts in each period."""

    count: RateCount | None = None
    per: RatePeriod | None = None


@typed_dict("Concurrency", null=False)
class ConcurrencyIn(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Limits by key. `key`: text in which {params.NAME} stands for a param of the run (a dot goes into an object),
    and {job} for the name of the job. Of all runs of the namespace with the same key at most `max` go at one time,
    and so many start as `rate` says; one of these has to be given."""

    key: KeyTemplate | None = None
    max: SmallCount | None = None
    rate: RateIn | None = None


def _text(name: str, pattern: str) -> Meta:
    described = '"succeed", "retry", "fail", "cancel", or "snooze" and a duration'
    return Meta(description=described, extra_json_schema={"format": name, "pattern": pattern})


def _codes(pattern: str) -> Meta:
    return Meta(extra_json_schema={"maxProperties": OUTCOMES_MAX, "propertyNames": {"pattern": pattern}})


_ByExitCode = Annotated[
    dict[str, Annotated[str, _text("outcome-of-exit", patterns.OUTCOME_OF_EXIT)]],
    _codes(patterns.EXIT_CODES),
]


_ByStatus = Annotated[
    dict[str, Annotated[str, _text("outcome-of-status", patterns.OUTCOME_OF_STATUS)]],
    _codes(patterns.STATUSES),
]


@typed_dict("Outcomes", null=False)
class OutcomesIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Says what exit codes (0 to 255), or the statuses of an http handler, mean where that is neither success nor
    failure as usual: a code, or a range of them such as "500-599", to "succeed", "retry" (it failed, as any), "fail"
    (no retry), "cancel" (killed, without a retry and no dead letter) or "snooze 5m" (another attempt later, which uses
    no retry). A "snooze" of a status needs no time: it is the answer's Retry-After, or a minute."""

    exit: _ByExitCode = {}
    status: _ByStatus = {}
