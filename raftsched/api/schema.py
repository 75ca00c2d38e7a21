"""The JSON of jobs and instances as types: what decoding checks, what OpenAPI describes, what answers look like.

Descriptions complete the sentence "must be ..." in error messages. Optional fields that may be `null` mean the same
as left out. Defaults shown here are those of `core.model`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, field

Duration = Annotated[str, Meta(description="a duration such as 30s, 5m, 1h30m, 1d or PT5M")]
Time = Annotated[str, Meta(description="a time in RFC 3339 such as 2030-01-31T02:00:00Z")]
Name = Annotated[str, Meta(description="1 to 128 characters of a-z, 0-9, '.', '_' and '-'")]
Namespace = Annotated[str, Meta(description="1 to 64 characters of a-z, 0-9, '.', '_' and '-'")]
Text = Annotated[str, Meta(description="a string")]
Priority = Annotated[int, Meta(ge=0, le=9, description="an integer from 0 to 9, higher first")]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000, description="an integer from 1 to 1,000,000,000")]
SmallCount = Annotated[int, Meta(ge=1, le=10_000, description="an integer from 1 to 10,000")]
Kept = Annotated[int, Meta(ge=0, le=100_000, description="an integer from 0 to 100,000")]
Lost = Annotated[int, Meta(ge=0, le=1_000, description="an integer from 0 to 1,000")]
Status = Annotated[int, Meta(ge=100, le=599, description="an HTTP status code from 100 to 599")]
TextMap = dict[str, Text]


class _Given(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What was not given is not shown."""


class TriggerIn(_Given):
    """Exactly one of at, in, every, cron, rrule, manual."""

    at: Time | None = None
    in_: Duration | None = field(default=None, name="in")
    every: Duration | None = None
    cron: Text | None = None
    rrule: Text | None = None
    manual: Annotated[bool, Meta(description="true")] = False
    mode: Literal["fixed_rate", "fixed_delay"] | None = None
    dialect: Literal["vixie", "quartz"] | None = None
    timezone: Annotated[str, Meta(description="an IANA time zone such as Europe/Madrid")] | None = None
    jitter: Duration | None = None
    starts_at: Time | None = None
    ends_at: Time | None = None
    max_runs: Count | None = None
    calendar: Text | None = None


class HttpIn(_Given):
    url: Text = ""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] | None = None
    headers: TextMap = {}
    body: Text | None = None
    expected_status: list[Status] = []


class HandlerIn(_Given):
    """Exactly one of exec, shell, python, http, call."""

    exec: list[Text] | None = None
    shell: Text | None = None
    python: Annotated[str, Meta(description='a callable as "package.module:function"')] | None = None
    http: HttpIn | None = None
    call: Text | None = None
    env: TextMap = {}
    cwd: Annotated[str, Meta(description="an absolute path")] | None = None


class RetryIn(msgspec.Struct, forbid_unknown_fields=True):
    delays: Annotated[list[Duration], Meta(max_length=100)] = []
    on: list[Literal["failed", "timed_out"]] = field(default_factory=lambda: ["failed", "timed_out"])


class MisfireIn(msgspec.Struct, forbid_unknown_fields=True):
    policy: Literal["skip", "once", "all"] = "once"
    grace: Duration = "15m"


class PlacementIn(_Given):
    labels: TextMap = {}
    on: Literal["one", "all"] | None = None


class RetentionIn(msgspec.Struct, forbid_unknown_fields=True):
    succeeded: Kept = 200
    failed: Kept = 100
    max_age: Duration = "7d"


class _Job(msgspec.Struct):
    """The part of a job that is its content: stored as given, shown with its defaults filled in."""

    trigger: TriggerIn | None = None
    handler: HandlerIn | None = None
    params: dict[str, Any] = {}
    owner: Text | None = None
    priority: Priority = 5
    queue: Name | None = None
    timeout: Duration | None = None
    delivery: Literal["at_least_once", "at_most_once"] | None = None
    max_lost: Lost = 3
    suspend_after: SmallCount | None = None
    retry: RetryIn | None = None
    overlap: Literal["forbid", "allow", "queue_one", "queue_all", "replace"] | None = None
    misfire: MisfireIn | None = None
    max_concurrency: SmallCount | None = None
    conditions: list[dict[str, Any]] = []
    conditions_timeout: Duration | None = None
    labels: TextMap = {}
    placement: PlacementIn | None = None
    notify: dict[str, Any] | None = None
    retention: RetentionIn | None = None


class JobIn(_Job, omit_defaults=True, forbid_unknown_fields=True):
    """A job in a request."""

    name: Name | None = None
    namespace: Namespace | None = None
    suspended: bool = False


class JobShown(msgspec.Struct):
    """The content of a job in an answer: what Job.body holds, with its defaults filled in."""

    trigger: Raw
    handler: Raw
    params: Raw = Raw(b"{}")
    owner: str | None = None
    priority: int = 5
    queue: str = "default"
    timeout: str | None = None  # filled in from the policy
    delivery: str = "at_least_once"
    max_lost: int = 3
    suspend_after: int | None = None
    retry: Raw = Raw(msgspec.json.encode(RetryIn()))
    overlap: str = "forbid"
    misfire: Raw = Raw(msgspec.json.encode(MisfireIn()))
    max_concurrency: int = 1
    conditions: Raw = Raw(b"[]")
    conditions_timeout: str | None = None
    labels: Raw = Raw(b"{}")
    placement: Raw = Raw(b"null")  # Raw | None would decode nothing but null
    notify: Raw = Raw(b"null")
    retention: Raw = Raw(msgspec.json.encode(RetentionIn()))


class JobOut(msgspec.Struct):
    """The state of a job in an answer; its content follows in the same object."""

    id: str
    name: str | None
    namespace: str
    state: str
    revision: int
    next_fire_at: str | None
    last_instance: str | None
    created_at: str
    modified_at: str
    running: int
    active: int
    runs: int
    failures_in_a_row: int
    last_start_at: str | None
    last_end_at: str | None
    last_executor: str | None
    error: str | None


READ_ONLY = frozenset(JobOut.__struct_fields__) - {"name", "namespace"}


class RunIn(msgspec.Struct, forbid_unknown_fields=True):
    params: dict[str, Any] | None = None
    priority: Priority | None = None


class ExpireIn(msgspec.Struct, forbid_unknown_fields=True):
    kill: bool = False


class StateIn(msgspec.Struct, forbid_unknown_fields=True):
    state: Literal["SCHEDULED", "SUSPENDED"] | None = None


class PreviewIn(msgspec.Struct, forbid_unknown_fields=True):
    trigger: TriggerIn | None = None
    from_: Time | None = field(default=None, name="from")
    count: Annotated[int, Meta(ge=1, le=100, description="an integer from 1 to 100")] = 10


class OutputOut(msgspec.Struct):
    node: str
    size: int
    truncated: int
    sha256: str
    url: str


class AttemptOut(msgspec.Struct):
    number: int
    node: str
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


class InstanceOut(msgspec.Struct):
    id: str
    job_id: str
    state: str
    scheduled_at: str
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
    result: Raw | None
    output: OutputOut | None
    attempts: list[AttemptOut]
