"""The JSON of jobs, instances and members: what decoding checks, what OpenAPI describes, what answers look like.

Descriptions complete the sentence "must be ..." in error messages. Optional fields that may be `null` mean the same
as left out. Defaults are those of `core.model`. JobIn and JobShown are made from `fields.py`, see `generated.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, field

from raftsched import names
from raftsched.api.jobs.after_schema import AfterIn
from raftsched.api.jobs.parts_schema import PartsOut, ShardOut
from raftsched.api.openapi import patterns
from raftsched.bounds import COUNT_MAX, DESCRIPTION_MAX, OWNER_MAX, URL_MAX
from raftsched.core.limits import (
    CONDITION_MAX,
    CONDITIONS_MAX,
    LABEL_KEY_MAX,
    LABEL_VALUE_MAX,
    LABELS_MAX,
    PRIORITY_MAX,
    SHARDS_MAX,
    TRIGGERS_MAX,
)
from raftsched.core.model import Misfire, Retention
from raftsched.core.subjects.notices import NOTIFY_MAX
from raftsched.quantities import format_duration

_MISFIRE, _RETENTION = Misfire(), Retention()

Duration = Annotated[
    str,
    Meta(
        description="a duration such as 30s, 5m, 1h30m, 1d or PT5M",
        extra_json_schema={"format": "time-span", "pattern": patterns.DURATION},
    ),
]
Time = Annotated[
    str, Meta(description="a time in RFC 3339 such as 2030-01-31T02:00:00Z", extra_json_schema={"format": "date-time"})
]


def by_rule(rule: names.NameRule, description: str = "") -> Meta:
    return Meta(description=description or rule.rule, extra_json_schema={"pattern": rule.pattern})


Name = Annotated[str, by_rule(names.JOB)]
Namespace = Annotated[str, by_rule(names.NAMESPACE)]
NodeId = Annotated[str, by_rule(names.NODE)]
StoreId = Annotated[str, by_rule(names.STORE, "32 hexadecimal digits, as GET /v1/cluster shows them under waiting")]
Argument = Annotated[str, Meta(description="a string", extra_json_schema={"pattern": patterns.NO_NUL})]
Url = Annotated[
    str,
    Meta(description="an http:// or https:// address", extra_json_schema={"format": "http-url", "maxLength": URL_MAX}),
]
JobId = Annotated[str, Meta(description="the id of a job", extra_json_schema={"pattern": patterns.JOB_ID})]
InstanceId = Annotated[
    str, Meta(description="the id of an instance", extra_json_schema={"pattern": patterns.INSTANCE_ID})
]
Text = Annotated[str, Meta(description="a string")]
Description = Annotated[str, Meta(description="a string", extra_json_schema={"maxLength": DESCRIPTION_MAX})]
Owner = Annotated[str, Meta(description="a string", extra_json_schema={"minLength": 1, "maxLength": OWNER_MAX})]
User = Annotated[str, by_rule(names.USER, "the name of a user of the nodes")]
Zone = Annotated[
    str, Meta(description="an IANA time zone such as Europe/Madrid", extra_json_schema={"format": "iana-time-zone"})
]
DeliveryName = Literal["at_least_once", "at_most_once"]
EventName = Literal["succeeded", "failed", "timed_out", "killed", "skipped", "dead_letter", "lost", "started"]
ClusterEventName = Literal["leader_changed", "node_lost", "node_back", "disk_short"]
JobEventName = Literal[EventName, "late", "running_long", "not_run_since"]  # those that a job measures, too
OverlapName = Literal["forbid", "allow", "queue_one", "queue_all", "replace"]
Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX, description=f"an integer from 0 to {PRIORITY_MAX}, higher first")]
Count = Annotated[int, Meta(ge=1, le=COUNT_MAX, description=f"an integer from 1 to {COUNT_MAX:,}")]
SmallCount = Annotated[int, Meta(ge=1, le=10_000, description="an integer from 1 to 10,000")]
Kept = Annotated[int, Meta(ge=0, le=100_000, description="an integer from 0 to 100,000")]
Lost = Annotated[int, Meta(ge=0, le=1_000, description="an integer from 0 to 1,000")]
Status = Annotated[int, Meta(ge=100, le=599, description="an HTTP status code from 100 to 599")]
TextMap = dict[str, Text]
Labels = Annotated[
    dict[str, Annotated[str, Meta(description="a string", extra_json_schema={"maxLength": LABEL_VALUE_MAX})]],
    Meta(
        extra_json_schema={
            "maxProperties": LABELS_MAX,
            "propertyNames": {"minLength": 1, "maxLength": LABEL_KEY_MAX},
        }
    ),
]
SecretName = Annotated[
    str,
    Meta(
        description='a secret as "name", or "namespace/name" of one that is shared',
        extra_json_schema={"pattern": names.SECRET_REFERENCE.pattern},
    ),
]


class SecretRef(msgspec.Struct, forbid_unknown_fields=True):
    """The value of a secret, which is put in its place when a run starts."""

    name: SecretName = field(default="", name="$secret")


Environment = Annotated[
    dict[str, Argument | SecretRef], Meta(extra_json_schema={"propertyNames": {"pattern": "^[^=\\x00]+$"}})
]


class _Given(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A struct that shows only the fields that were given."""


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
    calendar_action: Literal["skip", "move"] | None = None


class TriggerItemIn(TriggerIn):
    """One of several triggers: its id, and exactly one of at, in, every, cron, rrule. `manual` and `max_runs` are left
    out."""

    id: Annotated[str, by_rule(names.TRIGGER)] | None = None


Triggers = Annotated[list[TriggerItemIn], Meta(max_length=TRIGGERS_MAX)]


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
    template: Annotated[bool, Meta(description="true or false")] = False


class ExponentialIn(msgspec.Struct, forbid_unknown_fields=True):
    """Delays that grow: `first`, then each `factor` times the one before, none above `max`."""

    first: Duration = "1s"
    factor: Annotated[float, Meta(ge=1, le=100, description="a number from 1 to 100")] = 2.0
    max: Duration = "1h"
    attempts: Annotated[int, Meta(ge=1, le=100, description="an integer from 1 to 100")] = 5


class RetryIn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The delay of each level, as a list or by a rule, not both; jitter lengthens each by up to so much of it."""

    delays: Annotated[list[Duration], Meta(max_length=100)] = []
    exponential: ExponentialIn | None = None
    jitter_percent: Annotated[int, Meta(ge=0, le=100, description="an integer from 0 to 100")] = 0
    on: Annotated[list[Literal["failed", "timed_out"]], Meta(extra_json_schema={"minItems": 1})] = field(
        default_factory=lambda: ["failed", "timed_out"]
    )


class MisfireIn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The policy for due times that passed: one more than `grace` ago was missed, and it is not run, run once for all,
    or each (one after the other where runs may not overlap). A job that is due once runs, however late: for it "once"
    alone is taken."""

    policy: Literal["skip", "once", "all"] = "once"
    grace: Duration = format_duration(_MISFIRE.grace_ms)


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


class PlacementIn(_Given):
    """`prefer`: of the nodes and workers that are free, those that carry most of these labels come first. `on` "all": a
    run is a part on each of those that can take it; `shards`: a run is so many parts. A run has one or the other."""

    labels: Labels = {}
    on: Literal["one", "all"] | None = None
    prefer: Labels = {}
    shards: Annotated[int, Meta(ge=1, le=SHARDS_MAX)] | None = None


class RetentionIn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    succeeded: Kept = _RETENTION.succeeded
    failed: Kept = _RETENTION.failed
    max_age: Duration = format_duration(_RETENTION.max_age_ms)


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


class JobOut(msgspec.Struct):
    """The state of a job in an answer; its content follows in the same object."""

    id: str
    name: str | None
    namespace: str
    state: str  # NEW, SCHEDULED, SUSPENDED, EXPIRED
    revision: int
    next_fire_at: str | None
    last_instance: str | None
    created_at: str
    modified_at: str
    running: int
    active: int  # instances that are not at their end
    runs: int
    failures_in_a_row: int
    last_start_at: str | None
    last_end_at: str | None
    last_executor: str | None
    error: str | None  # that suspended it
    resumes_at: str | None = None  # it was paused until then


READ_ONLY = frozenset(JobOut.__struct_fields__) - {"name", "namespace"}


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class DeadFilterIn(msgspec.Struct, forbid_unknown_fields=True):
    """`from` and `to` are about the time since which it is a dead letter; `to` is not included."""

    job: Text | None = None
    namespace: Namespace | None = None
    name_prefix: Text | None = None
    from_: Time | None = field(default=None, name="from")
    to: Time | None = None


class RequeueIn(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one of ids, filter, all."""

    ids: Annotated[list[InstanceId], Meta(max_length=1_000)] | None = None
    filter: DeadFilterIn | None = None
    all: bool = False
    dry_run: bool = False
    cursor: Text | None = None


class DeadLetterOut(msgspec.Struct):
    """The part of a dead letter that comes before the instance in the same object."""

    dead_since: str


class PreviewIn(msgspec.Struct, forbid_unknown_fields=True):
    """One trigger, or several as those of a job. `to`: no times from then on. `by_day`: a time zone of whose days the
    times are counted, up to `to`. `name`, `namespace`: of the job that is to be made with it, which say what `H` in a
    cron expression means."""

    trigger: TriggerIn | None = None
    triggers: Triggers = []
    max_runs: Count | None = None
    from_: Time | None = field(default=None, name="from")
    to: Time | None = None
    count: Annotated[int, Meta(ge=1, le=1_000, description="an integer from 1 to 1,000")] = 10
    by_day: Zone | None = None
    name: Name | None = None
    namespace: Namespace | None = None


class EventShown(msgspec.Struct):
    """The event that an instance delivers to a webhook. `subject`: the instance, job or node it is about, or null."""

    id: str
    type: str
    subject: str | None


class OutputOut(msgspec.Struct):
    node: str
    size: int
    truncated: int
    sha256: str
    url: str


class AttemptOut(msgspec.Struct):
    """`node`: that runs it; null: the remote `worker` of this name does."""

    number: int
    node: str | None
    session: int
    token: int
    assigned_at: str
    started_at: str | None
    ended_at: str | None
    outcome: str | None
    exit_code: int | None
    error: str | None
    result: Raw | None
    output: OutputOut | None
    worker: str | None = None


class ProgressOut(msgspec.Struct):
    """`percent`: null when only the text is known. `at`: when the cluster heard of it."""

    percent: int | None
    text: str
    at: str


class InstanceOut(msgspec.Struct):
    """`job_name`: null for a job without a name; `namespace`: null when the job is gone. `late_ms`: between the time
    when it was due and its first start, by whichever attempt; null before that, for what was asked for, and for what
    waited for its conditions. `node`, or `worker`: what its
    newest attempt was given to, a node or a remote worker. `parent`: the run of which this is a part; `shard`: which
    one of how many, null of a part for one node. `parts`: of a run that was split into them. `trigger`: the id of the
    one that it came from, of a job with several. `expires_at`: of one that waits: it is skipped unless it starts
    before; null: it waits on, or has begun. `snoozes`: how often it was put off. `progress`: how far its newest attempt
    is, by its own word. `saved_state`: what it keeps for its next attempts. `key`: that its limits by key are about.
    `cause`: the run by whose end it was started; `root`: the first of these, by whose id the workflow goes; `joined`:
    all that it waited for, where these were several; `passed`: their results."""

    id: str
    job_id: str
    job_name: str | None
    namespace: str | None
    state: str
    scheduled_at: str
    late_ms: int | None
    manual: bool
    priority: int
    node: str | None
    token: int | None
    attempt: int
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    error: str | None
    reason: str | None
    kill_asked: bool
    dead_letter: bool
    job_revision: int
    created_at: str
    modified_at: str
    skipped: int
    skipped_until: str | None
    params: Raw | None
    event: EventShown | None
    result: Raw | None
    output: OutputOut | None
    attempts: list[AttemptOut]
    worker: str | None = None
    parent: str | None = None
    shard: ShardOut | None = None
    parts: PartsOut | None = None
    trigger: str | None = None
    expires_at: str | None = None
    snoozes: int = 0
    progress: ProgressOut | None = None
    saved_state: Raw | None = None
    key: str | None = None
    cause: str | None = None
    root: str | None = None
    joined: list[str] | None = None
    passed: Raw | None = None
