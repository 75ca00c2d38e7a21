"""Made from surface/workflows.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.generated.workflows import Workflow, WorkflowFilter, WorkflowKilled
from raftsched.client.pages import each_of
from raftsched.client.refs import WorkflowRef, id_of
from raftsched.client.transport import Transport
from raftsched.client.wire import segment


class WorkflowsCalls:
    """Methods that make one call."""

    _transport: Transport

    def list(self, *, most: int | None = None, **filters: Unpack[WorkflowFilter]) -> AsyncIterator[Workflow]:
        """The newest scheduled time first; `most` of them (None: all). Runs that started no others are none here."""
        return each_of(self._transport, Workflow, "/v1/workflows", filters, most)

    async def kill(self, ref: WorkflowRef) -> int:
        """Ends all of its runs that are active, or asks them to end, and lets nothing more of it start. Returns how
        many these were. ConflictError "illegal-transition" for a run that is not its first."""
        return (await self._transport.post(WorkflowKilled, f"/v1/workflows/{segment(id_of(ref))}/kill")).killed
