"""Made from api/jobs/fields.py by scripts/make-fields; not edited by hand."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from raftsched.surface.content import (
    ConcurrencyIn,
    Conditions,
    HandlerIn,
    MisfireIn,
    Notify,
    OutcomesIn,
    PlacementIn,
    RetentionIn,
    RetryIn,
    TriggerIn,
    Triggers,
)
from raftsched.surface.enums import DeliveryName, OverlapName
from raftsched.surface.scalars import (
    Count,
    Description,
    Duration,
    Labels,
    Lost,
    Name,
    Namespace,
    Owner,
    Priority,
    SmallCount,
    User,
    Zone,
)


class JobIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A job in a request."""

    trigger: TriggerIn | None = None
    triggers: Triggers = []
    max_runs: Count | None = None
    handler: HandlerIn | None = None
    params: dict[str, Any] = {}
    description: Description | None = None
    owner: Owner | None = None
    priority: Priority | None = None
    queue: Name | None = None
    timeout: Duration | None = None
    grace: Duration | None = None
    user: User | None = None
    delivery: DeliveryName | None = None
    max_lost: Lost | None = None
    suspend_after: SmallCount | None = None
    retry: RetryIn | None = None
    outcomes: OutcomesIn | None = None
    overlap: OverlapName | None = None
    misfire: MisfireIn | None = None
    max_concurrency: SmallCount | None = None
    concurrency: ConcurrencyIn | None = None
    conditions: Conditions = []
    conditions_timeout: Duration | None = None
    expires: Duration | None = None
    labels: Labels | None = None
    placement: PlacementIn | None = None
    notify: Notify | None = None
    retention: RetentionIn | None = None
    name: Name | None = None
    namespace: Namespace | None = None
    suspended: bool = False


class DefaultsIn(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Values for fields that a job leaves out. `timezone` is that of triggers that count in one."""

    timezone: Zone | None = None
    priority: Priority | None = None
    queue: Name | None = None
    timeout: Duration | None = None
    grace: Duration | None = None
    user: User | None = None
    delivery: DeliveryName | None = None
    max_lost: Lost | None = None
    retry: RetryIn | None = None
    overlap: OverlapName | None = None
    misfire: MisfireIn | None = None
    concurrency: ConcurrencyIn | None = None
    expires: Duration | None = None
    labels: Labels | None = None
    placement: PlacementIn | None = None
    notify: Notify | None = None
    retention: RetentionIn | None = None


class JobShown(msgspec.Struct, kw_only=True):
    """The content of a job in an answer: what Job.body holds, with its defaults filled in."""

    trigger: Raw = Raw(b"null")
    triggers: Raw = Raw(b"[]")
    max_runs: int | None = None
    handler: Raw
    params: Raw = Raw(b"{}")
    description: str | None = None
    owner: str | None = None
    priority: int = 5
    queue: str = "default"
    timeout: str | None = None
    grace: str | None = None
    user: str | None = None
    delivery: str = "at_least_once"
    max_lost: int = 3
    suspend_after: int | None = None
    retry: Raw = Raw(b'{"delays":[],"exponential":null,"jitter_percent":0,"on":["failed","timed_out"]}')
    outcomes: Raw = Raw(b"null")
    overlap: str = "forbid"
    misfire: Raw = Raw(b'{"policy":"once","grace":"15m"}')
    max_concurrency: int | None = None
    concurrency: Raw = Raw(b"null")
    conditions: Raw = Raw(b"[]")
    conditions_timeout: str | None = None
    expires: str | None = None
    labels: Raw = Raw(b"{}")
    placement: Raw = Raw(b"null")
    notify: Raw = Raw(b"null")
    retention: Raw = Raw(b'{"succeeded":200,"failed":100,"max_age":"7d"}')
