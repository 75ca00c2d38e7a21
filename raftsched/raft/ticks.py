"""Sets when the timers of a member are to run next.

While anything is under way they run every options.tick_ms. A quiet member has two: the next heartbeat, or the next
election. It runs them when these are due, and every heartbeat_ms at the least, for what is in no hurry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raftsched.raft.replica import Replica
from raftsched.system.clock import Clock

_LEAST_S = 0.001  # an event loop may wake up a little too early


def next_tick(replica: Replica, now: float) -> tuple[float, bool]:
    """Returns how long the next tick may wait, in seconds, and whether the member is quiet. `now` in monotonic
    seconds."""
    options = replica.options
    if not is_quiet(replica):
        return options.tick_ms / 1000, False
    return min(max(replica.engine.due_at - now, _LEAST_S), options.heartbeat_ms / 1000), True


def is_quiet(replica: Replica) -> bool:
    """Returns whether nothing is under way that a timer could end. Without a leader elections become due at short
    notice."""
    return (
        replica.engine.leader_id is not None
        and not replica.proposer.unanswered
        and not replica.forwarding.pauses
        and not replica.peer_set.requests.waiting
        and not replica.changes.handing_over
        and not replica.sender.sends
    )


class Ticks:
    """The timer of one member, on its event loop."""

    def __init__(self, replica: Replica, clock: Clock, tick: Callable[[], None]) -> None:
        """`tick` is called when it is time; it calls `again`."""
        self._replica = replica
        self._clock = clock
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None
        self._rests = False  # the member was quiet when the timer was set

    def again(self) -> None:
        """Sets the timer for the next tick."""
        if self._timer is not None:
            self._timer.cancel()
        wait_s, self._rests = next_tick(self._replica, self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def pumped(self) -> None:
        """Something has happened: a timer that was set for a quiet member may be too late now."""
        if self._rests and not is_quiet(self._replica):
            self.again()

    def stop(self) -> None:
        self._rests = False
        if self._timer is not None:
            self._timer.cancel()
