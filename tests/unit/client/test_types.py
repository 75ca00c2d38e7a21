"""What the client's types say is what the API takes and gives, so that neither can change alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.api.jobs import explain as explain_job
from raftsched.api.runs import events, explain
from raftsched.client import (
    models,
    models_bulk,
    models_cluster,
    models_generated,
    models_webhooks,
    spec,
    spec_generated,
)
from raftsched.surface import calendars, job_shapes, jobs, jobs_generated, namespaces, queues, runs, webhooks, whoami


def given(kind: type[msgspec.Struct]) -> set[str]:
    return set(kind.__struct_encode_fields__)


@pytest.mark.parametrize(
    "written, taken",
    [
        (spec_generated.JobSpec, jobs_generated.JobIn),
        (spec.QueueLimits, queues.QueueIn),
        (spec.CalendarDays, calendars.CalendarIn),
        (spec_generated.JobDefaults, jobs_generated.DefaultsIn),
        (spec.NamespaceLimits, namespaces.NamespaceLimits),
        (spec.NamespaceSpec, namespaces.NamespaceIn),
        (spec.DateRange, calendars.RangeIn),
        (spec.Hours, calendars.HoursIn),
        (spec.TimeRange, calendars.TimesIn),
        (models_webhooks.WebhookFilter, webhooks.WebhookFilterIn),
    ],
)
def test_what_is_written(written: Any, taken: type[msgspec.Struct]) -> None:
    assert set(written.__annotations__) == given(taken), f"say it in raftsched/client/spec.py, {written.__name__}, too"


def test_what_is_written_of_a_webhook() -> None:
    assert set(models_webhooks.WebhookFields.__annotations__) | {"name"} == given(webhooks.WebhookIn)


def test_filters() -> None:
    lists = set(spec.JobFilter.__annotations__) - {"order"}
    assert lists <= set(jobs.FILTERS)
    assert given(models.Event) <= set().union(
        *(given(k) for k in (events.JobEventOut, events.InstanceEventOut, events.ClusterEventOut))
    )


@pytest.mark.parametrize(
    "read, answered",
    [
        (models_generated.Job, given(job_shapes.JobOut) | given(jobs_generated.JobShown)),
        (models.Instance, given(runs.InstanceOut)),
        (models.DeadLetter, given(runs.InstanceOut) | given(runs.DeadLetterOut)),
        (models.Attempt, given(runs.AttemptOut)),
        (models.Output, given(runs.OutputOut)),
        (models_cluster.Who, given(whoami.WhoOut)),
        (models_cluster.Grant, given(whoami.WhoGrant)),
        (models_cluster.Queue, given(queues.QueueOut)),
        (models_webhooks.Webhook, given(webhooks.WebhookMade)),
        (models_cluster.Calendar, given(calendars.CalendarOut)),
        (models_cluster.Hours, given(calendars.HoursIn)),
        (models_cluster.TimeRange, given(calendars.TimesIn)),
        (models_cluster.Namespace, given(namespaces.NamespaceOut)),
        (models_cluster.NamespaceLimits, given(namespaces.NamespaceLimitsOut)),
        (models_cluster.Rate, given(queues.RateOut)),
        (models_cluster.JobExplanation, given(explain_job.JobExplainOut)),
        (models_cluster.Explanation, given(explain.ExplainOut)),
        (models_cluster.WhyThen, given(explain.ThenOut)),
        (models_cluster.WhyThere, given(explain.ThereOut)),
        (models_cluster.Wait, given(explain.WaitOut)),
        (models_cluster.Gap, given(explain.GapOut)),
        (models_cluster.StepTaken, given(explain.StepOut)),
        (models_bulk.Stats, given(runs.StatsOut)),
        (models_bulk.Distribution, given(runs.DistributionOut)),
    ],
)
def test_what_is_read(read: type[msgspec.Struct], answered: set[str]) -> None:
    assert given(read) <= answered, f"{read.__name__} in {read.__module__} names what is never answered"
