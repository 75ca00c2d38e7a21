"""Has the states of records. Made from raftsched/surface by scripts/make-client; not edited by hand."""

from __future__ import annotations

from typing import Literal

InstanceState = Literal[
    "WAITING", "LAUNCHED", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"
]
JobState = Literal["NEW", "SCHEDULED", "SUSPENDED", "EXPIRED"]
OperationState = Literal["RUNNING", "DONE", "CANCELLED"]
WorkflowState = Literal["running", "succeeded", "failed", "killed"]

__all__ = ["InstanceState", "JobState", "OperationState", "WorkflowState"]
