"""Made from surface/workers.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

from raftsched.client.generated.workers import Worker, WorkerDetail
from raftsched.client.pages import each_of
from raftsched.client.transport import Transport
from raftsched.client.wire import segment


class WorkersCalls:
    """Methods that make one call."""

    _transport: Transport

    def list(self, *, most: int | None = None) -> AsyncIterator[Worker]:
        """Yields the remote workers with a session by name, at most `most` (None: all)."""
        return each_of(self._transport, Worker, "/v1/workers", {}, most)

    async def get(self, name: str) -> WorkerDetail:
        """Its own words about itself, and its runs. NotFoundError: there is no worker of this name with an open
        session."""
        return await self._transport.get(WorkerDetail, f"/v1/workers/{segment(name)}")
