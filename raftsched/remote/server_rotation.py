"""Chooses the node to ask next and its timeout."""

from __future__ import annotations

import random
from collections.abc import Sequence

from raftsched.core.subjects.leasing import KILL_BEFORE_MS
from raftsched.remote.server_port import Server

PAUSE_S = 0.1  # after all were asked in vain; doubled each time
PAUSE_MAX_S = 2.0
HOP_S = 0.02  # between one and the next
PATIENCE_MIN_MS = 300
PATIENCE_MAX_MS = 5_000


class Turns:
    """Holds the servers in the order in which they are asked, the one that answered last first."""

    def __init__(self, servers: Sequence[Server], rng: random.Random) -> None:
        self._order = list(servers)
        self._rng = rng
        self._pause_s = PAUSE_S
        self.failures = 0  # since the last answer

    @property
    def first(self) -> Server:
        return self._order[0]

    @property
    def number(self) -> int:
        return len(self._order)

    def answered(self, server: Server) -> None:
        self.failures = 0
        self._pause_s = PAUSE_S
        self._order.remove(server)
        self._order.insert(0, server)

    def failed(self, server: Server) -> float:
        """Returns how many seconds to wait before the next is asked."""
        self.failures += 1
        if self._order[0] is server:  # else another request has moved on already
            self._order.append(self._order.pop(0))
        if self.failures % len(self._order):
            return self._jittered(HOP_S)
        pause, self._pause_s = self._pause_s, min(PAUSE_MAX_S, 2 * self._pause_s)
        return self._jittered(pause)

    def _jittered(self, seconds: float) -> float:
        return seconds * (0.5 + 0.5 * self._rng.random())

    def patience_ms(self, wait_ms: int, left_ms: int) -> int:
        """Returns how long an answer is waited for that may come after `wait_ms`, when `left_ms` of the lease are left:
        so that there is time to ask each of the others as long, before the lease ends."""
        share = (left_ms - KILL_BEFORE_MS - wait_ms) // len(self._order)
        return wait_ms + max(PATIENCE_MIN_MS, min(PATIENCE_MAX_MS, share))
