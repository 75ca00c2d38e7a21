"""The log's time: the timestamps that a leader gives its entries.

Retry delays, fixed delays and `in` count from it, so a wrong clock must not get into the log for a moment: jobs would
wait for the wrong times. A leader shows the log's time in its heartbeats; a new leader whose wall clock disagrees goes
on from there, by boot clock, until its own was compared with the others'. So does a leader whose wall clock was set.
"""

from __future__ import annotations

from raftsched.system.clock import Clock

CLOCK_JUMP_MS = 500  # a wall clock that moved this far against the boot clock was set by somebody


class Timestamps:
    """The log's time on one node. Where the wall clock is further off than CLOCK_JUMP_MS, time goes on from the known
    one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known_ms: int | None = None  # the log's time minus the boot clock, of this leadership
        self._heard_ms: int | None = None  # the same, as the last leader showed it

    def begin(self) -> None:
        """Begins a leadership: of its clock only the earlier leader's time is known."""
        self._known_ms = self._heard_ms

    def heard(self, now_ms: int) -> None:
        """Takes the log's time from a leader's heartbeat. Its way here took a while, which does not matter."""
        self._heard_ms = now_ms - self._clock.boot_ms()

    def trust(self, ahead_of_boot_ms: int) -> None:
        """Takes the wall clock as right that was so far ahead of the boot clock: it was compared with the others'. It
        may have been set again since."""
        self._known_ms = self._heard_ms = ahead_of_boot_ms

    def ahead_ms(self) -> int:
        """Returns the lead of the wall clock over the time that the last leader showed; 0 if none did."""
        if self._known_ms is None:
            return 0
        return self._clock.wall_ms() - self._clock.boot_ms() - self._known_ms

    def now_ms(self) -> int:
        """Returns the time of a new entry."""
        wall, boot = self._clock.wall_ms(), self._clock.boot_ms()
        if self._known_ms is not None and abs(wall - boot - self._known_ms) > CLOCK_JUMP_MS:
            return boot + self._known_ms
        return wall

    def shown_ms(self) -> int:
        """Returns the time for heartbeats; 0 while nothing is known."""
        return 0 if self._known_ms is None else self.now_ms()
