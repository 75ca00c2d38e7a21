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
        self._knocks: dict[str, tuple[Hello, float, bool]] = {}  # node -> (hello, monotonic seconds, went back)

    def heard(self, hello: Hello, *, back: bool = False) -> None:
        """`back`: its disk is the member's and went back to an earlier state, so that it is not let in as it is."""
        if hello.node in self._knocks or len(self._knocks) < KNOCKS_MAX:
            self._knocks[hello.node] = (hello, self._clock.monotonic(), back)

    def let_in(self, node: str) -> None:
        self._knocks.pop(node, None)

    def recent(self) -> Iterator[tuple[Hello, int, bool]]:
        """(who, how many ms ago, whether its disk went back)"""
        now = self._clock.monotonic()
        for node, (hello, at, back) in list(self._knocks.items()):
            if now - at > FRESH_S:
                del self._knocks[node]
            else:
                yield hello, int((now - at) * 1000), back

    def member(self, node: str) -> Member | None:
        """Who asks under this id, as the member it would be: without a vote."""
        hello = next((hello for hello, _, back in self.recent() if hello.node == node and not back), None)
        return None if hello is None else Member(hello.node, hello.raft, hello.store_id, False)
