"""Queues with limits. Jobs may name any queue; one that is not here has none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from raftsched.client.models_cluster import Queue
from raftsched.client.pages import pages
from raftsched.client.spec import QueueLimits
from raftsched.client.transport import Transport, encode
from raftsched.client.wire import condition, segment


class Queues:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, name: str) -> Queue:
        """NotFoundError: it has no limits."""
        return await self._transport.get(Queue, _path(name))

    async def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **limits: Unpack[QueueLimits]
    ) -> Queue:
        """All its limits anew: what is left out does not limit. With `only_new` it must have none yet, else
        ConflictError "exists". `if_match`: only while it is this revision, else ConflictError "stale-revision"."""
        headers = {"If-None-Match": "*"} if only_new else condition(if_match)
        answer = await self._transport.send(
            "PUT", _path(name), body=encode(limits), headers=headers, repeatable=not only_new
        )
        return answer.decoded(Queue)

    async def patch(self, name: str, *, if_match: int | None = None, **limits: Unpack[QueueLimits]) -> Queue:
        """What is given is changed; None takes a limit away. NotFoundError: it has none. `if_match` as in `put`."""
        answer = await self._transport.send("PATCH", _path(name), body=encode(limits), headers=condition(if_match))
        return answer.decoded(Queue)

    async def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Its limits go; what waits in it goes on without. `if_match` as in `put`."""
        await self._transport.send("DELETE", _path(name), headers=condition(if_match))

    async def list(self, *, most: int | None = None) -> AsyncIterator[Queue]:
        """By name; `most` of them (None: all)."""
        async for page in pages(self._transport, Queue, "/v1/queues", {}, most):
            for queue in page:
                yield queue


def _path(name: str) -> str:
    return f"/v1/queues/{segment(name)}"
