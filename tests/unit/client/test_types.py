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
    spec,
    spec_generated,
)
from raftsched.surface import job_shapes, jobs, jobs_generated, runs


def given(kind: type[msgspec.Struct]) -> set[str]:
    return set(kind.__struct_encode_fields__)


@pytest.mark.parametrize(
    "written, taken",
    [
        (spec_generated.JobSpec, jobs_generated.JobIn),
        (spec_generated.JobDefaults, jobs_generated.DefaultsIn),
    ],
)
def test_what_is_written(written: Any, taken: type[msgspec.Struct]) -> None:
    assert set(written.__annotations__) == given(taken), f"say it in raftsched/client/spec.py, {written.__name__}, too"


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
