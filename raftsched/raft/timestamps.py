"""What a leader stamps on its entries: the log's time.

Retry delays, fixed delays and `in` count from it, so a wrong clock must not get into the log for a moment: the times
made of it would be waited for. A leader shows the log's time in its heartbeats; a new leader whose wall clock says
something else goes on from there, by boot clock, until its own was compared with the others'. So does a leader whose
wall clock was set.
"""

from __future__ import annotations

from raftsched.clock import Clock

CLOCK_JUMP_MS = 500  # a wall clock that moved this far against the boot clock was set by somebody


class Timestamps:
    """Where the own wall clock is further off than CLOCK_JUMP_MS, the time goes on from where it is known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known_ms: int | None = None  # the log's time minus the boot clock, of this leadership
        self._heard_ms: int | None = None  # the same, as the last leader showed it

    def begin(self) -> None:
        """A leadership begins: nothing is known of its clock but what the earlier leader showed."""
        self._known_ms = self._heard_ms

    def heard(self, now_ms: int) -> None:
        """A leader's heartbeat came with the log's time. It was on its way for a while, which is no matter here."""
        self._heard_ms = now_ms - self._clock.boot_ms()

    def trust(self) -> None:
        """The wall clock of this moment was compared with the others'."""
        self._known_ms = self._heard_ms = self._clock.wall_ms() - self._clock.boot_ms()

    def ahead_ms(self) -> int:
        """How far the wall clock is ahead of the time that the last leader showed, if one did."""
        if self._known_ms is None:
            return 0
        return self._clock.wall_ms() - self._clock.boot_ms() - self._known_ms

    def now_ms(self) -> int:
        """The time of a new entry."""
        wall, boot = self._clock.wall_ms(), self._clock.boot_ms()
        if self._known_ms is not None and abs(wall - boot - self._known_ms) > CLOCK_JUMP_MS:
            return boot + self._known_ms
        return wall

    def shown_ms(self) -> int:
        """For heartbeats; 0 while nothing is known."""
        return 0 if self._known_ms is None else self.now_ms()
