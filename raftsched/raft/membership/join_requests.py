"""Nodes that ask to be let in: they proved to hold the cluster key, but are no member, or not with that disk."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.core.subjects.cluster import Member
from raftsched.raft.codec import Hello
from raftsched.system.clock import Clock

FRESH_S = 10.0  # a request is remembered for so long; a node asks about once a second
JOIN_REQUESTS_MAX = 64


class JoinRequests:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requests: dict[str, tuple[Hello, float, bool]] = {}  # node -> (hello, monotonic seconds, rolled back)

    def heard(self, hello: Hello, *, rolled_back: bool = False) -> None:
        """Remembers that a node asks. `rolled_back`: its disk is the member's in an earlier state; it cannot be let in
        as it is."""
        if hello.node in self._requests or len(self._requests) < JOIN_REQUESTS_MAX:
            self._requests[hello.node] = (hello, self._clock.monotonic(), rolled_back)

    def let_in(self, node: str) -> None:
        self._requests.pop(node, None)

    def recent(self) -> Iterator[tuple[Hello, int, bool]]:
        """Yields those of the last seconds as (hello, its age in ms, rolled back)."""
        now = self._clock.monotonic()
        for node, (hello, at, rolled_back) in list(self._requests.items()):
            if now - at > FRESH_S:
                del self._requests[node]
            else:
                yield hello, int((now - at) * 1000), rolled_back

    def member(self, node: str) -> Member | None:
        """Returns the asking node of this id as the member it would become: without a vote."""
        hello = next((hello for hello, _, rolled_back in self.recent() if hello.node == node and not rolled_back), None)
        return None if hello is None else Member(hello.node, hello.raft, hello.store_id, False)
