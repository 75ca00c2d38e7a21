"""A job as its creator writes it, for type checkers: the JSON of POST /v1/jobs with Python's own times and durations.

JobSpec and JobDefaults are in `spec_generated.py`.
A `datetime` needs a time zone. Of the alternatives in a trigger or handler exactly one is given; the cluster checks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from raftsched.client.generated.bulk import BulkFilter
from raftsched.client.generated.calendars import Weekday
from raftsched.client.generated.calendars_given import CalendarDays, DateRange, Hours, TimeRange
from raftsched.client.generated.content import (
    After,
    Concurrency,
    Condition,
    Exponential,
    Handler,
    HttpCall,
    Limits,
    Misfire,
    NamedTrigger,
    Notify,
    Outcomes,
    Placement,
    Rate,
    Retention,
    Retry,
    Trigger,
)
from raftsched.client.generated.enums import Action, ClusterEventName, EventName, JobEventName, JobState
from raftsched.client.generated.jobs import JobFilter
from raftsched.client.generated.namespaces_given import NamespaceLimits, NamespaceSpec
from raftsched.client.generated.queues_given import QueueLimits
from raftsched.client.generated.runs import KillFilter
from raftsched.client.generated.scalars import SecretRef
from raftsched.client.moments import Duration, Moment

if TYPE_CHECKING:
    pass


__all__ = [
    "Action",
    "After",
    "BulkFilter",
    "CalendarDays",
    "ClusterEventName",
    "Concurrency",
    "Condition",
    "DateRange",
    "DeadFilter",
    "Duration",
    "EventFilter",
    "EventName",
    "Exponential",
    "Handler",
    "Hours",
    "HttpCall",
    "InstanceFilter",
    "JobEventName",
    "JobFilter",
    "JobState",
    "KillFilter",
    "Limits",
    "Misfire",
    "Moment",
    "NamedTrigger",
    "NamespaceLimits",
    "NamespaceSpec",
    "Notify",
    "Outcomes",
    "Placement",
    "QueueLimits",
    "Rate",
    "Retention",
    "Retry",
    "SearchFilter",
    "SecretRef",
    "StatsFilter",
    "TimeRange",
    "Trigger",
    "Weekday",
    "WorkflowFilter",
]


class StatsFilter(TypedDict, total=False):
    state: str  # of instances; one, or several with commas
    owner: str
    namespace: str


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


class EventFilter(TypedDict, total=False):
    type: str  # such as "instance.failed" or "job", several with commas
    namespace: str
    job: str  # an id, "namespace/name", or with `namespace` a name
    state: str  # one, or several with commas


class DeadFilter(TypedDict, total=False):
    job: str
    namespace: str
    name_prefix: str
