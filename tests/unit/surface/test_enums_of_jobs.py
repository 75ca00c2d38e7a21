"""The words of the API are those of the core, in its order."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args

import pytest

from raftsched.api.runs.minutes import STEPS
from raftsched.core.model import Delivery, JobState, Overlap
from raftsched.core.subjects.notices import OF_CLUSTER, Event
from raftsched.core.subjects.operations import BulkAction, OperationState
from raftsched.surface import enums


@pytest.mark.parametrize(
    ("words", "of"),
    [
        (enums.JobState, JobState),
        (enums.OperationState, OperationState),
    ],
)
def test_states_are_those_of_the_core(words: Any, of: type[Enum]) -> None:
    assert get_args(words) == tuple(one.name for one in of if one is not JobState.DELETED)


@pytest.mark.parametrize(
    ("words", "of"), [(enums.Action, BulkAction), (enums.DeliveryName, Delivery), (enums.OverlapName, Overlap)]
)
def test_words_are_those_of_the_core(words: Any, of: type[Enum]) -> None:
    assert get_args(words) == tuple(one.name.lower() for one in of if one is not BulkAction.RESCHEDULE)


def test_events_are_those_of_the_core() -> None:
    assert get_args(enums.JobEventName) == tuple(one.name.lower() for one in Event if one not in OF_CLUSTER)
    assert get_args(enums.ClusterEventName) == tuple(one.name.lower() for one in Event if one in OF_CLUSTER)


def test_steps_are_those_that_are_counted() -> None:
    assert get_args(enums.StepName) == tuple(STEPS)
