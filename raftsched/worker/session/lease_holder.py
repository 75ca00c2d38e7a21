"""A worker's right to run: the session it holds, and until when, counted on its own CLOCK_BOOTTIME.

Plain values and `now` (boot ms, read afresh by the caller) in, decisions out. A grant counts from when the
heartbeat it answers was sent, so whatever delays the answer only shortens it. A lease that lapsed stays
lapsed: what comes later for its session is ignored, and the next one is another session.
"""

from __future__ import annotations

from collections import deque

from raftsched.core.subjects.leasing import KILL_BEFORE_MS

HEARTBEAT_MS = 500
START_SLACK_MS = 250  # on top of KILL_BEFORE_MS: a start needs this much of the lease to be worth it
_REMEMBERED = 64  # heartbeats whose grants still count


class LeaseHolder:
    def __init__(self) -> None:
        self.session = 0  # 0: none
        self.ttl_ms = 0
        self.lapsed = True
        self.until_ms: int | None = None  # None: no grant yet
        self._adopted_at = 0
        self._heartbeat_at = 0
        self._sent: deque[int] = deque(maxlen=_REMEMBERED)

    def adopt(self, session: int, ttl_ms: int, now: int) -> None:
        """A session was opened for this worker, and nothing of an earlier one is left."""
        self.session = session
        self.ttl_ms = ttl_ms
        self.lapsed = False
        self.until_ms = None
        self._adopted_at = now
        self._heartbeat_at = now
        self._sent.clear()

    def lapse(self) -> None:
        self.lapsed = True
        self.until_ms = None

    def holds(self, now: int) -> bool:
        return not self.lapsed and self.until_ms is not None and now < self.until_ms

    def over(self, now: int) -> bool:
        """Returns whether it has to lapse: the lease ran out, or none came within its TTL (at least 2 s)."""
        if self.lapsed:
            return False
        if self.until_ms is not None:
            return now >= self.until_ms
        return now - self._adopted_at > max(self.ttl_ms, 2_000)

    def may_start(self, now: int) -> bool:
        """Enough of the lease is left for a start."""
        return self.holds(now) and self.until_ms - now > KILL_BEFORE_MS + START_SLACK_MS  # type: ignore[operator]

    @property
    def due_at(self) -> int:
        """Boot ms at which something has to be done for it: a heartbeat, or to lapse. 0: while it is not held."""
        return 0 if self.lapsed or self.until_ms is None else min(self._heartbeat_at, self.until_ms)

    def heartbeat_due(self, now: int) -> bool:
        return not self.lapsed and now >= self._heartbeat_at

    def heartbeat(self, now: int) -> None:
        """One is sent at this moment."""
        self._heartbeat_at = now + HEARTBEAT_MS
        self._sent.append(now)

    def grant(self, session: int, sent_ms: int, d_ms: int, now: int) -> bool:
        """A grant of `d_ms` from `sent_ms`; True when the lease was prolonged. False also when it just ran out:
        the caller asks `over` before and after."""
        if self.lapsed or session != self.session or sent_ms not in self._sent or self.over(now):
            return False
        until = sent_ms + min(d_ms, self.ttl_ms)
        if until <= now or (self.until_ms is not None and until <= self.until_ms):
            return False
        self.until_ms = until
        return True
