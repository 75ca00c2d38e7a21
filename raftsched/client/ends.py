"""Methods that records of the client have beside their fields."""

from __future__ import annotations

from raftsched.client.generated.read_states import InstanceState, OperationState, WorkflowState
from raftsched.surface.plain.enums import END_STATE_NAME

FINAL = frozenset(END_STATE_NAME)


class EndOfOperation:
    """The end of what is done to many jobs."""

    __slots__ = ()
    state: OperationState

    @property
    def final(self) -> bool:
        return self.state != "RUNNING"


class EndOfRun:
    """The end of an instance."""

    __slots__ = ()
    state: InstanceState

    @property
    def final(self) -> bool:
        """Nothing more comes of it, unless somebody asks for a rerun."""
        return self.state in FINAL


class EndOfWorkflow:
    """The end of all runs of a workflow."""

    __slots__ = ()
    state: WorkflowState

    @property
    def final(self) -> bool:
        """Nothing of it is active."""
        return self.state != "running"
