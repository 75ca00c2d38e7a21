"""Days and wall times of a time zone: which day an instant lies in, where each begins, when clocks show a time.

A local time that is written down becomes an instant here and nowhere else, by the rule that fixed times of cron have
(`cron`): where clocks go forward over it, it is the instant at which they do; where they show it twice, the first.
"""

from __future__ import annotations

from datetime import datetime

from raftsched.schedule.cron import OFFSET_MAX
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.zones import Zone, zone

_EPOCH = datetime(1970, 1, 1)


def local_ms(local: datetime, name: str, *, last: bool = False) -> int:
    """Returns the instant, UTC milliseconds, of a local time in the zone of this IANA name. `last`: the second one,
    where clocks show it twice.

    Raises:
        TriggerError: no such zone.
        ValueError, OverflowError: too near to the end of years.
    """
    place, wall = zone(name), _wall_of(local)
    at = last_shown(place, wall) if last or local.fold else first_shown(place, wall)
    return at * 1000 + (local.microsecond // 1000 if _shows(place, at, wall) else 0)


def is_shown(local: datetime, name: str) -> bool:
    """Returns whether clocks of the zone ever show the time, which they do not where they go forward over it. Errors as
    `local_ms`."""
    place, wall = zone(name), _wall_of(local)
    return _shows(place, first_shown(place, wall), wall)


def _wall_of(local: datetime) -> int:
    since = local.replace(tzinfo=None) - _EPOCH
    return since.days * DAY_S + since.seconds


def _shows(place: Zone, at: int, wall: int) -> bool:
    return at + place.stretch(at).offset == wall


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
