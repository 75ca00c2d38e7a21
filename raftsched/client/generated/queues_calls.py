"""Made from surface/queues.py by scripts/make-client; not edited by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.encoding import encode
from raftsched.client.generated.queues import Queue
from raftsched.client.generated.queues_given import QueueLimits
from raftsched.client.pages import each_of
from raftsched.client.transport import Transport
from raftsched.client.wire import condition, conditions, segment


class QueuesCalls:
    """Methods that make one call."""

    _transport: Transport

    def list(self, *, most: int | None = None) -> AsyncIterator[Queue]:
        """Yields the queues with limits by name, at most `most` (None: all)."""
        return each_of(self._transport, Queue, "/v1/queues", {}, most)

    async def get(self, name: str) -> Queue:
        """Returns the queue. Raises NotFoundError: it has no limits."""
        return await self._transport.get(Queue, f"/v1/queues/{segment(name)}")

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **limits: Unpack[QueueLimits]
    ) -> Queue:
        """Replaces all its limits: what is left out does not limit. With `only_new` it must not be there yet, else
        ConflictError "exists". `if_match`: only while it is at this revision, else ConflictError "stale-revision"."""
        return (
            await self._transport.send(
                "PUT",
                f"/v1/queues/{segment(name)}",
                body=encode(limits),
                headers=conditions(only_new, if_match),
                repeatable=not only_new,
            )
        ).decoded(Queue)

    async def patch(self, name: str, *, if_match: int | None = None, **limits: Unpack[QueueLimits]) -> Queue:
        """Changes the limits that are given; None removes one. Raises NotFoundError: it has none. `if_match` as in
        `put`."""
        return (
            await self._transport.send(
                "PATCH", f"/v1/queues/{segment(name)}", body=encode(limits), headers=condition(if_match)
            )
        ).decoded(Queue)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Removes its limits; what waits in it goes on without. `if_match` as in `put`."""
        await self._transport.send("DELETE", f"/v1/queues/{segment(name)}", headers=condition(if_match))
