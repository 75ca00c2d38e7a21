"""Watches this node's wall clock while it leads, and gives leadership away when the clock is wrong."""

from __future__ import annotations

import logging

from raftsched.leader.liveness.clock_guard import ClockGuard
from raftsched.leader.raft_port import Host

log = logging.getLogger("raftsched.leader")


class ClockWatch:
    """One leadership's clock guard, fed with the offsets that the raft room has measured."""

    def __init__(self, host: Host, wall_ms: int, boot_ms: int, limit_ms: int) -> None:
        self._raft = host.raft
        self._guard = ClockGuard(wall_ms, boot_ms, limit_ms, self._raft.clock_ahead_ms())

    def set_limit(self, limit_ms: int) -> None:
        """Follows a change of `Settings.clock_limit_ms`."""
        self._guard.limit_ms = limit_ms

    def is_trusted(self, wall_ms: int, boot_ms: int) -> bool:
        """Returns False while it is not known whether this node's clock, which showed this wall time at this boot time,
        is right, and after it was found to be wrong (leadership is given away then). Whoever fires does it by that wall
        time: the clock may be set right after it was looked at."""
        if self._guard.jumped(wall_ms, boot_ms):
            log.warning("this node's clock was set; nothing is fired until it is compared with the others'")
            self._raft.measure_clocks_again()
        offsets = self._raft.clock_offsets_ms()
        if self._guard.off(offsets):
            log.error("this node's clock is off from the majority's (%s ms); leadership is given away", offsets)
            self._raft.step_down()
            return False
        if not self._guard.measured(boot_ms, offsets):
            return False
        self._raft.trust_clock(wall_ms - boot_ms)
        return True
