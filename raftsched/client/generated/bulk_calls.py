"""Made from surface/bulk.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

from raftsched.client.generated.bulk import Operation
from raftsched.client.generated.enums import OperationState
from raftsched.client.pages import each_of
from raftsched.client.refs import OperationRef, id_of
from raftsched.client.transport import Transport
from raftsched.client.wire import segment


class OperationsCalls:
    """Methods that make one call."""

    _transport: Transport

    async def get(self, ref: OperationRef) -> Operation:
        """Read an operation. NotFoundError when it is not kept any more."""
        return await self._transport.get(Operation, f"/v1/operations/{segment(id_of(ref))}")

    async def cancel(self, ref: OperationRef) -> Operation:
        """It makes no more steps; what was done stays. A repeat changes nothing; ConflictError when it has ended."""
        return await self._transport.post(Operation, f"/v1/operations/{segment(id_of(ref))}/cancel")

    def list(self, *, state: OperationState | None = None, most: int | None = None) -> AsyncIterator[Operation]:
        """The newest first; `most` of them (None: all that are kept)."""
        return each_of(self._transport, Operation, "/v1/operations", {"state": state}, most)
