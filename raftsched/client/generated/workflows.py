"""Made from surface/workflows.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from raftsched.client.ends import EndOfWorkflow
from raftsched.client.generated.read_states import InstanceState, WorkflowState
from raftsched.client.moments import Moment

WorkflowStateName = Literal["running", "succeeded", "failed", "killed"]


class WorkflowRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a workflow. `job`: namespace/name, None for one without a name. `cause`: the run whose end started it,
    None of the first. `joined`: all that it waited for, where these were several."""

    id: str
    job_id: str
    job: str | None
    state: InstanceState
    reason: str | None
    error: str | None
    cause: str | None
    joined: list[str] | None
    attempt: int
    node: str | None
    worker: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class WorkflowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Runs by what they came to; `active` are not at their end."""

    active: int
    succeeded: int
    failed: int
    timed_out: int
    killed: int
    skipped: int


class Workflow(EndOfWorkflow, msgspec.Struct, frozen=True, kw_only=True):
    """`id`: that of its first run, `job`: whose that is. `state`: running while anything of it is active; else killed,
    if it was killed or one of its runs was; else failed, if one failed or timed out. `reruns`: how often it was run
    again from somewhere on. `exact`: all of its runs were counted. `started_at`: when its first run started, None: it
    never did. `ended_at`: when the last of its runs ended, None while it runs, and of more than 1,000 runs."""

    id: str
    job: str | None
    state: WorkflowState
    scheduled_at: datetime
    killed_at: datetime | None
    reruns: int
    counts: WorkflowCounts
    exact: bool
    started_at: datetime | None = None
    ended_at: datetime | None = None


class WorkflowKilled(msgspec.Struct, frozen=True, kw_only=True):
    """`killed`: runs that were ended, or asked to end."""

    id: str
    killed: int


# Parameters of a list of workflows. All that is given has to hold.
WorkflowFilter = TypedDict(
    "WorkflowFilter",
    {
        "job": str,  # of the first run
        "namespace": str,
        "state": WorkflowStateName,
        "from": Moment,
        "to": Moment,
    },
    total=False,
)
