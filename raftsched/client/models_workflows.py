"""Answers about workflows, and about which jobs follow which."""

from __future__ import annotations

from datetime import datetime

import msgspec


class WorkflowRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a workflow. `job`: namespace/name; `cause`: the run whose end started it, None of the first; `joined`:
    all that it waited for, where these were several."""

    id: str
    job_id: str
    job: str | None
    state: str
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


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """`id`: that of its first run. `state`: running, succeeded, failed or killed. `reruns`: how often it was run again
    from somewhere on. `exact`: all of its runs were counted."""

    id: str
    job: str | None
    state: str
    scheduled_at: datetime
    killed_at: datetime | None
    reruns: int
    counts: WorkflowCounts
    exact: bool

    @property
    def final(self) -> bool:
        """Nothing of it is active."""
        return self.state != "running"


class GraphJob(msgspec.Struct, frozen=True, kw_only=True):
    """`id`, `state` and `when` are None for a job that does not exist, or that the caller may not see."""

    name: str
    id: str | None = None
    state: str | None = None
    when: str | None = None


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """`to` waits for `from_`. `kind`: "after" or "condition"; `mode`: "one", or "all" or "any" of several."""

    from_: str
    to: str
    kind: str
    on: str
    mode: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """`complete`: False where there is more than one answer holds."""

    jobs: list[GraphJob]
    edges: list[GraphEdge]
    complete: bool
