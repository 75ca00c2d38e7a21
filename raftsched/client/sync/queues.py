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

    def put(
        self, name: str, *, only_new: bool = False, if_match: int | None = None, **limits: Unpack[QueueLimits]
    ) -> Queue:
        """All its limits anew: what is left out does not limit. With `only_new` it must have none yet, else
        ConflictError "exists". `if_match`: only while it is this revision, else ConflictError "stale-revision"."""
        return self._bridge.run(lambda c: c.queues.put(name, only_new=only_new, if_match=if_match, **limits))

    def patch(self, name: str, *, if_match: int | None = None, **limits: Unpack[QueueLimits]) -> Queue:
        """What is given is changed; None takes a limit away. NotFoundError: it has none. `if_match` as in `put`."""
        return self._bridge.run(lambda c: c.queues.patch(name, if_match=if_match, **limits))

    def delete(self, name: str, *, if_match: int | None = None) -> None:
        """Its limits go; what waits in it goes on without. `if_match` as in `put`."""
        self._bridge.run(lambda c: c.queues.delete(name, if_match=if_match))

    def list(self, *, most: int | None = None) -> Iterator[Queue]:
        """By name; `most` of them (None: all)."""
        return self._bridge.each(lambda c: c.queues.list(most=most))
