"""The only module that reads time. Everything else receives a Clock, or a `now_ms` as a parameter."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The interface by which everything reads time. The simulator has a virtual one."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC. May jump."""

    def monotonic(self) -> float:
        """Seconds, never backwards, origin unspecified; may stand still while the machine is suspended."""

    def boot_ms(self) -> int:
        """Milliseconds of CLOCK_BOOTTIME: never backwards, and runs on while the machine is suspended.

        Leases are counted on this clock only, read afresh each time (never an event loop's cached time).
        """


class SystemClock:
    """The clocks of this machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def boot_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def thread_s() -> float:
    """Returns the seconds of processor time that this thread has had: what it did, not what it waited for."""
    return time.thread_time()


def passed_s() -> float:
    """Returns the seconds that have passed, from an origin of no meaning. Of them a thread had at most as many of
    processor time; to ask takes a tenth of what `thread_s` takes, which is a call of the system."""
    return time.monotonic()
