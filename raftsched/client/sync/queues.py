"""Made from client/queues.py by scripts/make-sync; not edited by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from raftsched.client.models_cluster import Queue
from raftsched.client.spec import QueueLimits
from raftsched.client.sync.bridge import Bridge


class Queues:
    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def get(self, name: str) -> Queue:
        """NotFoundError: it has no limits."""
        return self._bridge.run(lambda c: c.queues.get(name))

    def put(self, name: str, *, only_new: bool = False, **limits: Unpack[QueueLimits]) -> Queue:
        """All its limits anew: what is left out does not limit. With `only_new` it must have none yet, else
        ConflictError "exists"."""
        return self._bridge.run(lambda c: c.queues.put(name, only_new=only_new, **limits))

    def patch(self, name: str, **limits: Unpack[QueueLimits]) -> Queue:
        """What is given is changed; None takes a limit away. NotFoundError: it has none."""
        return self._bridge.run(lambda c: c.queues.patch(name, **limits))

    def delete(self, name: str) -> None:
        """Its limits go; what waits in it goes on without."""
        self._bridge.run(lambda c: c.queues.delete(name))

    def list(self, *, most: int | None = None) -> Iterator[Queue]:
        """By name; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.queues.list(most=most))
