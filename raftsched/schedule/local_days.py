"""Days of a time zone: which one an instant lies in, and where each begins."""

from __future__ import annotations

from raftsched.schedule.cron import OFFSET_MAX
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.zones import Zone


def day_of(place: Zone, at: int) -> int:
    """Returns the local day, a number since 1970-01-01, of an instant (UTC seconds)."""
    return (at + place.stretch(at).offset) // DAY_S


def begin_of(place: Zone, at: int, day: int) -> int:
    """Returns the first instant from `at` (UTC seconds) on at which the clocks have come to the day, a later one."""
    wall = day * DAY_S
    stretch = place.stretch(max(at, wall - OFFSET_MAX))
    while wall - stretch.offset >= stretch.end:
        stretch = place.stretch(stretch.end)
    return max(wall - stretch.offset, stretch.start)
