"""An open session as a node has read it, and its polls that are being answered there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raftsched.core.subjects.cluster import Session
from raftsched.core.subjects.leasing import longest_poll_ms
from raftsched.surface.worker_sessions import PollIn

RATE_BURST = 1_000  # polls of one session that may come at once


class Held:
    """An open session, as far as this node has read it."""

    def __init__(self, row: Session, ending: set[int]) -> None:
        self.row = row
        self.ending = ending  # tokens of runs that are asked to end
        self.over = False
        self.polls: list[Poll] = []
        self.granted_at_ms = 0  # when an answer last renewed the lease
        self.left, self.left_at_ms = float(RATE_BURST), 0  # polls that may come at once, as of when

    @property
    def poll_ms(self) -> int:
        """Returns how long a poll waits at most."""
        return longest_poll_ms(self.row.ttl_ms)

    @property
    def open_polls(self) -> int:
        """The number of those whose answers somebody reads, as far as can be seen now."""
        return sum(not (poll.gone() or poll.ended()) for poll in self.polls)

    def wake(self) -> None:
        for poll in self.polls:
            poll.event.set()


class Poll:
    """A poll that is being answered."""

    __slots__ = ("after", "ended", "event", "gone", "killing", "most", "open", "replaced")

    def __init__(self, request: PollIn, gone: Callable[[], bool], ended: Callable[[], bool]) -> None:
        """`gone`, `ended`: as of `Gateway.poll`."""
        self.after = request.after
        self.most = request.max_runs
        self.killing = frozenset(request.killing)
        self.event = asyncio.Event()  # there may be something for it
        self.gone = gone
        self.ended = ended
        self.open = True  # as far as is known somebody reads its answer
        self.replaced = False  # a newer one takes the runs
