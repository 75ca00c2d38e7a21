"""Wakes instances whose timer is due."""

from __future__ import annotations

from collections import deque

from raftsched.core.commands import Wake
from raftsched.core.tables import Table
from raftsched.leader import pacing
from raftsched.leader.pacing import Proposals
from raftsched.leader.ports import Host
from raftsched.leader.window import Window


class Timers:
    """The timers of one leadership that are due soon. `now_ms` is wall time."""

    def __init__(self, host: Host, proposals: Proposals, now_ms: int, window_ms: int, count_max: int) -> None:
        self.window = Window(Table.TIMERS, host.read, now_ms, window_ms=window_ms, count_max=count_max)
        self._proposals = proposals
        self._due: deque[tuple[int, bytes]] = deque()  # (time, instance) that are due and not yet proposed

    def tick(self, now_ms: int) -> int | None:
        """Wakes what is due, no more than the log keeps up with. Returns when the next is due; None: nothing can be
        woken until a batch is answered."""
        if not self._due:
            self._due.extend(self.window.advance(now_ms))
        while self._due and self._proposals.has_room(Wake):
            count = min(pacing.BATCH, len(self._due))
            due = [self._due.popleft() for _ in range(count)]
            self._proposals.send_paced(Wake, [Wake(key, at_ms) for at_ms, key in due])
        return self.window.next_ms(now_ms) if self._proposals.has_room(Wake) else None

    def reload(self, now_ms: int) -> None:
        """Reads the table again: it is not known what became of some batches."""
        self._due.clear()
        self.window.reload(now_ms)
