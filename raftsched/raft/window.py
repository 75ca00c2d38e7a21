"""Controls the flow of one connection: enough in flight to use it, little enough that heartbeats, which wait behind it,
arrive in time.

Measured round trips decide: as long as one takes no longer than the best one and two heartbeats more, the window is
doubled where it is used; where it takes longer, the window shrinks in proportion. Then it holds what the connection
carries in that time (Little's law: bytes in flight are the rate times the delay).
"""

from __future__ import annotations

from raftsched.raft.options import RaftOptions


class Window:
    """The window of one connection, in one direction."""

    def __init__(self, options: RaftOptions, max_bytes: int) -> None:
        """`max_bytes`: bytes that it never grows beyond."""
        self.size = min(options.window_first_bytes, max_bytes)
        self._min_bytes = min(options.window_min_bytes, max_bytes)
        self._max_bytes = max_bytes
        self._slack_ms = 2 * options.heartbeat_ms
        self._best_ms: float | None = None
        self._peak = 0  # the most that was in flight since the last measurement

    def used(self, size: int) -> None:
        """Notes the number of bytes in flight."""
        self._peak = max(self._peak, size)

    def measured(self, took_ms: float) -> None:
        """Takes a round trip that was measured behind everything in flight."""
        self._best_ms = took_ms if self._best_ms is None else min(self._best_ms, took_ms)
        peak, self._peak = self._peak, 0
        target_ms = self._best_ms + self._slack_ms
        if took_ms > target_ms:
            self.size = max(self._min_bytes, int(self.size * target_ms / took_ms))
        elif 2 * peak >= self.size:
            self.size = min(self._max_bytes, 2 * self.size)
