"""What the client's types say is what the API takes and gives, so that neither can change alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.client import (
    models,
    models_generated,
    spec_generated,
)
from raftsched.surface import events, job_shapes, jobs_generated


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
    "read, answered",
    [
        (models_generated.Job, given(job_shapes.JobOut) | given(jobs_generated.JobShown)),
    ],
)
def test_what_is_read(read: type[msgspec.Struct], answered: set[str]) -> None:
    assert given(read) <= answered, f"{read.__name__} in {read.__module__} names what is never answered"
