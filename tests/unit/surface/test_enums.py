"""The words of the API are those of the core."""

from __future__ import annotations

from typing import get_args

from raftsched.api.runs import events as shown
from raftsched.api.runs.minutes import STEPS
from raftsched.core.model import FINAL, InstanceState, JobState
from raftsched.core.subjects.operations import OperationState
from raftsched.surface import enums, events


def test_states_are_those_of_the_core() -> None:
    assert get_args(enums.InstanceStateName) == tuple(state.name for state in InstanceState)
    assert get_args(enums.EndStateName) == tuple(state.name for state in InstanceState if state in FINAL)
    assert get_args(enums.JobState) == tuple(state.name for state in JobState if state is not JobState.DELETED)
    assert get_args(enums.OperationState) == tuple(state.name for state in OperationState)
    assert set(events.STATES) == {state.name for state in (*JobState, *InstanceState)}


def test_types_of_events_are_those_that_changes_have() -> None:
    made = {*shown._JOB_TYPES.values(), *shown._INSTANCE_TYPES.values(), *shown._CLUSTER_TYPES.values()}
    assert tuple(sorted(made - {"job.new"})) == events.TYPES  # one that is NEW was created so


def test_steps_of_counts_have_a_length() -> None:
    assert get_args(enums.StepName) == tuple(STEPS)
