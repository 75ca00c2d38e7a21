"""Has all records that are made. Made from raftsched/surface by scripts/make-client; not edited by hand."""

from __future__ import annotations

from raftsched.client.generated.bulk import DryRun, Operation, Refusal, Sample
from raftsched.client.generated.calendars import Calendar, DateRange, Hours, TimeRange
from raftsched.client.generated.cluster import (
    ClusterNode,
    ClusterView,
    DiskUse,
    Doctor,
    Finding,
    Leadership,
    Members,
    Term,
    WaitingNode,
)
from raftsched.client.generated.dead_letters import DeadLetter
from raftsched.client.generated.events import Changes
from raftsched.client.generated.explain import (
    Explanation,
    Gap,
    JobExplanation,
    MisfireRule,
    Notification,
    Obstacle,
    OutputNote,
    StepTaken,
    Wait,
    WhyThen,
    WhyThere,
)
from raftsched.client.generated.forecast import Forecast, ForecastJob, ForecastPeak, ForecastQueue, ForecastShare
from raftsched.client.generated.graph import Graph, GraphEdge, GraphJob
from raftsched.client.generated.job_actions import Backfilled, Run
from raftsched.client.generated.job_shapes import JobWarning
from raftsched.client.generated.jobs import Checked, Deleted, Revision
from raftsched.client.generated.namespaces import Namespace, NamespaceLimits, RunKey
from raftsched.client.generated.nodes import Allowed, NodeDetail, Session
from raftsched.client.generated.output import Found, FoundLine, OutputPiece, Searched, SilentNode
from raftsched.client.generated.queues import Queue, Rate
from raftsched.client.generated.runs import Attempt, Instance, Output, Progress, Recent, RecentRun, RecentRuns, Refused
from raftsched.client.generated.schedules import Crontab, CrontabLine, DueDay, Occurrence, Preview
from raftsched.client.generated.statistics import (
    DeadNow,
    Distribution,
    DueNow,
    Minutes,
    Now,
    QueuedNow,
    RunningNow,
    Stats,
)
from raftsched.client.generated.webhooks import Webhook
from raftsched.client.generated.whoami import Grant, Who
from raftsched.client.generated.workers import Worker, WorkerDetail, WorkerRun
from raftsched.client.generated.workflows import Workflow, WorkflowCounts, WorkflowKilled, WorkflowRun

__all__ = [
    "Allowed",
    "Attempt",
    "Backfilled",
    "Calendar",
    "Changes",
    "Checked",
    "ClusterNode",
    "ClusterView",
    "Crontab",
    "CrontabLine",
    "DateRange",
    "DeadLetter",
    "DeadNow",
    "Deleted",
    "DiskUse",
    "Distribution",
    "Doctor",
    "DryRun",
    "DueDay",
    "DueNow",
    "Explanation",
    "Finding",
    "Forecast",
    "ForecastJob",
    "ForecastPeak",
    "ForecastQueue",
    "ForecastShare",
    "Found",
    "FoundLine",
    "Gap",
    "Grant",
    "Graph",
    "GraphEdge",
    "GraphJob",
    "Hours",
    "Instance",
    "JobExplanation",
    "JobWarning",
    "Leadership",
    "Members",
    "Minutes",
    "MisfireRule",
    "Namespace",
    "NamespaceLimits",
    "NodeDetail",
    "Notification",
    "Now",
    "Obstacle",
    "Occurrence",
    "Operation",
    "Output",
    "OutputNote",
    "OutputPiece",
    "Preview",
    "Progress",
    "Queue",
    "QueuedNow",
    "Rate",
    "Recent",
    "RecentRun",
    "RecentRuns",
    "Refusal",
    "Refused",
    "Revision",
    "Run",
    "RunKey",
    "RunningNow",
    "Sample",
    "Searched",
    "Session",
    "SilentNode",
    "Stats",
    "StepTaken",
    "Term",
    "TimeRange",
    "Wait",
    "WaitingNode",
    "Webhook",
    "Who",
    "WhyThen",
    "WhyThere",
    "Worker",
    "WorkerDetail",
    "WorkerRun",
    "Workflow",
    "WorkflowCounts",
    "WorkflowKilled",
    "WorkflowRun",
]
