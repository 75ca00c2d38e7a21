"""Days and wall times of a time zone: which day an instant lies in, where each begins, when clocks show a time."""

from __future__ import annotations

from raftsched.schedule.cron import OFFSET_MAX
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.zones import Zone


def day_of(place: Zone, at: int) -> int:
    """Returns the local day, a number since 1970-01-01, of an instant (UTC seconds)."""
    return (at + place.stretch(at).offset) // DAY_S


def begin_of(place: Zone, at: int, day: int) -> int:
    """Returns the first instant from `at` (UTC seconds) on at which the clocks have come to the day, a later one."""
    return _first_from(place, max(at, day * DAY_S - OFFSET_MAX), day * DAY_S)


def first_shown(place: Zone, wall: int) -> int:
    """Returns the first instant (UTC seconds) at which clocks show this wall time; where they go forward over it, the
    one at which they do."""
    return _first_from(place, wall - OFFSET_MAX, wall)


def last_shown(place: Zone, wall: int) -> int:
    """Returns the last instant (UTC seconds) at which clocks show this wall time: the second, where they go back over
    it. Where they go forward over it, the one at which they do."""
    found = first_shown(place, wall)
    stretch = place.stretch(found)
    while stretch.end <= wall + OFFSET_MAX:
        stretch = place.stretch(stretch.end)
        if stretch.start <= wall - stretch.offset < stretch.end:
            found = wall - stretch.offset
    return found


def _first_from(place: Zone, at: int, wall: int) -> int:
    stretch = place.stretch(at)
    while wall - stretch.offset >= stretch.end:
        stretch = place.stretch(stretch.end)
    return max(wall - stretch.offset, stretch.start)
