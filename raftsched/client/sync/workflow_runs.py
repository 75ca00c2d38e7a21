"""Made from client/workflow_runs.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from raftsched.client.generated.workflows import Workflow, WorkflowFilter, WorkflowRun
from raftsched.client.refs import WorkflowRef
from raftsched.client.sync.bridge import Bridge


class Workflows:
    """A workflow goes by its first run: what `jobs.run` of the first job answers."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, ref: WorkflowRef) -> Workflow:
        """By its first run, or any other of its runs. NotFoundError: there is none, or it is not kept any more."""
        return self._bridge.run(lambda c: c.workflows.get(ref))

    def runs(self, ref: WorkflowRef, *, most: int | None = None) -> Iterator[WorkflowRun]:
        """All of its runs, in the order in which their jobs were made; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.workflows.runs(ref, most=most))

    def wait(self, ref: WorkflowRef, *, timeout: float | None = None) -> Workflow:
        """Until nothing of it is active. `timeout` in seconds; TimeoutError after that."""
        return self._bridge.run(lambda c: c.workflows.wait(ref, timeout=timeout))

    def list(self, *, most: int | None = None, **filters: Unpack[WorkflowFilter]) -> Iterator[Workflow]:
        """The newest scheduled time first; `most` of them (None: all). Runs that started no others are none here."""
        return self._bridge.each(lambda c: c.workflows.list(most=most, **filters))

    def kill(self, ref: WorkflowRef) -> int:
        """Ends all of its runs that are active, or asks them to end, and lets nothing more of it start. Returns how
        many these were. ConflictError "illegal-transition" for a run that is not its first."""
        return self._bridge.run(lambda c: c.workflows.kill(ref))
