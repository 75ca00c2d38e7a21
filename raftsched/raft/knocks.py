"""Nodes that ask to be let in: they proved to hold the cluster key, but are no member, or not with that disk."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.clock import Clock
from raftsched.core.cluster import Member
from raftsched.raft.codec import Hello

FRESH_S = 10.0  # how long one is remembered; it asks about once a second
KNOCKS_MAX = 64


class Knocks:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._knocks: dict[str, tuple[Hello, float]] = {}  # node -> (hello, monotonic seconds)

    def heard(self, hello: Hello) -> None:
        if hello.node in self._knocks or len(self._knocks) < KNOCKS_MAX:
            self._knocks[hello.node] = (hello, self._clock.monotonic())

    def let_in(self, node: str) -> None:
        self._knocks.pop(node, None)

    def recent(self) -> Iterator[tuple[Hello, int]]:
        """(who, how many ms ago)"""
        now = self._clock.monotonic()
        for node, (hello, at) in list(self._knocks.items()):
            if now - at > FRESH_S:
                del self._knocks[node]
            else:
                yield hello, int((now - at) * 1000)

    def member(self, node: str) -> Member | None:
        """Who asks under this id, as the member it would be: without a vote."""
        return next((Member(h.node, h.raft, h.store_id, False) for h, _ in self.recent() if h.node == node), None)
