"""Made from api/jobs/fields.py by scripts/make-fields; not edited by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from raftsched.client.encoding import Params
from raftsched.client.generated.content import (
    Concurrency,
    Condition,
    Handler,
    Misfire,
    NamedTrigger,
    Notify,
    Outcomes,
    Placement,
    Retention,
    Retry,
    Trigger,
)
from raftsched.client.moments import Duration


class JobFields(TypedDict, total=False):
    """A job without its name, and without what it runs and when."""

    namespace: str
    suspended: bool
    triggers: Sequence[NamedTrigger]
    max_runs: int
    params: Params
    description: str
    owner: str
    priority: int
    queue: str
    timeout: Duration
    grace: Duration
    user: str
    delivery: Literal["at_least_once", "at_most_once"]
    max_lost: int
    suspend_after: int
    retry: Retry
    outcomes: Outcomes
    overlap: Literal["forbid", "allow", "queue_one", "queue_all", "replace"]
    misfire: Misfire
    max_concurrency: int
    concurrency: Concurrency
    conditions: Sequence[Condition]
    conditions_timeout: Duration
    expires: Duration
    labels: Mapping[str, str]
    placement: Placement
    notify: Notify | Sequence[Notify]
    retention: Retention


class JobSpec(JobFields, total=False):
    """A job to be created."""

    name: str
    trigger: Trigger
    handler: Handler


class JobDefaults(TypedDict, total=False):
    """Values for fields that a job leaves out; `timezone` is that of triggers that count in one."""

    timezone: str
    priority: int
    queue: str
    timeout: Duration
    grace: Duration
    user: str
    delivery: Literal["at_least_once", "at_most_once"]
    max_lost: int
    retry: Retry
    overlap: Literal["forbid", "allow", "queue_one", "queue_all", "replace"]
    misfire: Misfire
    concurrency: Concurrency
    expires: Duration
    labels: Mapping[str, str]
    placement: Placement
    notify: Notify | Sequence[Notify]
    retention: Retention
