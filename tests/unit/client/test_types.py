"""What the client's types say is what the API takes and gives, so that neither can change alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.client import (
    models,
    models_generated,
    spec,
    spec_generated,
)
from raftsched.surface import dead_letters, events, job_shapes, jobs_generated, output, runs, statistics, workflows
from raftsched.surface.operation import Operation


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
    assert given(models.Event) <= set().union(
        *(given(k) for k in (events.JobEventOut, events.InstanceEventOut, events.ClusterEventOut))
    )


@pytest.mark.parametrize(
    "written, asked",
    [
        (spec.InstanceFilter, (runs.LIST, runs.OF_JOB)),
        (spec.SearchFilter, (output.SEARCH,)),
        (spec.DeadFilter, (dead_letters.LIST, dead_letters.DISCARD)),
        (spec.WorkflowFilter, (workflows.LIST,)),
        (spec.StatsFilter, (statistics.ALL,)),
        (spec.EventFilter, (events.LIST,)),
    ],
)
def test_filters_of_runs(written: Any, asked: tuple[Operation, ...]) -> None:
    taken = set().union(*(one.query for one in asked))
    assert set(written.__annotations__) <= taken, f"{written.__name__} names what is never taken"


@pytest.mark.parametrize(
    "read, answered",
    [
        (models_generated.Job, given(job_shapes.JobOut) | given(jobs_generated.JobShown) | job_shapes.READ_ONLY),
    ],
)
def test_what_is_read(read: type[msgspec.Struct], answered: set[str]) -> None:
    assert given(read) <= answered, f"{read.__name__} in {read.__module__} names what is never answered"
