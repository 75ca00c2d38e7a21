"""A job as its creator writes it, for type checkers: the JSON of POST /v1/jobs with Python's own times and durations.

JobSpec and JobDefaults are in `spec_generated.py`.
A `datetime` needs a time zone. Of the alternatives in a trigger or handler exactly one is given; the cluster checks it.
"""

from __future__ import annotations

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
from raftsched.client.generated.dead_letters import DeadFilter
from raftsched.client.generated.enums import Action, ClusterEventName, EventName, JobEventName, JobState
from raftsched.client.generated.events import EventFilter
from raftsched.client.generated.jobs import JobFilter
from raftsched.client.generated.namespaces_given import NamespaceLimits, NamespaceSpec
from raftsched.client.generated.output import SearchFilter
from raftsched.client.generated.queues_given import QueueLimits
from raftsched.client.generated.runs import InstanceFilter, KillFilter
from raftsched.client.generated.scalars import SecretRef
from raftsched.client.generated.statistics import StatsFilter
from raftsched.client.generated.webhooks import AtMost, WebhookFields, WebhookFilter
from raftsched.client.generated.workflows import WorkflowFilter
from raftsched.client.moments import Duration, Moment

__all__ = [
    "Action",
    "After",
    "AtMost",
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
    "WebhookFields",
    "WebhookFilter",
    "Weekday",
    "WorkflowFilter",
]
