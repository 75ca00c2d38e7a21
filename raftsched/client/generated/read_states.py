"""Has the states as they are read: as text. Made by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raftsched.client.generated.states import InstanceState, JobState, OperationState, WorkflowState
else:  # a node of a later version may say another one
    InstanceState = JobState = OperationState = WorkflowState = str

__all__ = ["InstanceState", "JobState", "OperationState", "WorkflowState"]
