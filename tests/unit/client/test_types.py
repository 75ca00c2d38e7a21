"""What the client's types say is what the API takes and gives, so that neither can change alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.api import cluster, events, job_filters, schema
from raftsched.client import models, spec


def given(kind: type[msgspec.Struct]) -> set[str]:
    return set(kind.__struct_encode_fields__)


@pytest.mark.parametrize(
    "written, taken",
    [
        (spec.JobSpec, schema.JobIn),
        (spec.Trigger, schema.TriggerIn),
        (spec.Handler, schema.HandlerIn),
        (spec.HttpCall, schema.HttpIn),
        (spec.Limits, schema.LimitsIn),
        (spec.Retry, schema.RetryIn),
        (spec.Exponential, schema.ExponentialIn),
        (spec.Misfire, schema.MisfireIn),
        (spec.Condition, schema.ConditionIn),
        (spec.Placement, schema.PlacementIn),
        (spec.Retention, schema.RetentionIn),
    ],
)
def test_what_is_written(written: Any, taken: type[msgspec.Struct]) -> None:
    assert set(written.__annotations__) == given(taken), f"say it in raftsched/client/spec.py, {written.__name__}, too"


def test_filters() -> None:
    lists = set(spec.JobFilter.__annotations__) - {"order"}
    assert lists <= set(job_filters.PARAMETERS)
    assert given(models.Event) <= set().union(
        *(given(k) for k in (events.JobEventOut, events.InstanceEventOut, events.ClusterEventOut))
    )


@pytest.mark.parametrize(
    "read, answered",
    [
        (models.Job, given(schema.JobOut) | given(schema.JobShown)),
        (models.Instance, given(schema.InstanceOut)),
        (models.DeadLetter, given(schema.InstanceOut) | given(schema.DeadLetterOut)),
        (models.Attempt, given(schema.AttemptOut)),
        (models.Output, given(schema.OutputOut)),
        (models.ClusterView, given(cluster.ClusterOut)),
        (models.ClusterNode, given(cluster.NodeOut)),
    ],
)
def test_what_is_read(read: type[msgspec.Struct], answered: set[str]) -> None:
    assert given(read) <= answered, f"{read.__name__} in raftsched/client/models.py names what is never answered"
