"""Lists how far clocks of all zones are ahead of UTC, for some time to come. By it times that were computed with one
version of the time zone data are read with another one.

A cluster keeps the offsets of the data that its times were computed with. A leader with other data sees by them which
zones changed, and what clocks would have shown at a stored time. That is what the time stands for: 09:00 in a zone
stays 09:00, though another instant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from raftsched.schedule.errors import TriggerError
from raftsched.schedule.zones import Zone, zone, zone_info

DAY_S = 86_400
BEHIND_S, AHEAD_S = 30 * DAY_S, 800 * DAY_S  # kept: of times that are overdue, and of what is due once a year

Steps = tuple[tuple[int, int], ...]  # (first second, seconds ahead of UTC) of each stretch, in order


class _Same(msgspec.Struct, array_like=True):
    """Zones with the same offsets."""

    names: list[str]
    steps: Steps


class _Kept(msgspec.Struct, array_like=True):
    begin: int
    end: int
    zones: list[_Same]


_decode = msgspec.json.Decoder(_Kept).decode
_encode = msgspec.json.Encoder().encode


def steps_of(place: Zone, begin: int, end: int) -> Steps:
    """Returns the offsets of a zone for begin <= second < end."""
    found: list[tuple[int, int]] = []
    at = begin
    while at < end:
        stretch = place.stretch(at)
        if not found or found[-1][1] != stretch.offset:
            found.append((at, stretch.offset))
        at = stretch.end
    return tuple(found)


class Gathering:
    """Gathers the offsets of this host's zones, one zone after the other: all of them take most of a second."""

    def __init__(self, names: Iterable[str], now_s: int) -> None:
        self._begin, self._end = now_s - BEHIND_S, now_s + AHEAD_S
        self._same: dict[Steps, list[str]] = {}
        self._rest: Iterator[str] = iter(sorted(names))

    def go_on(self, zones: int) -> bool:
        """Looks at so many zones. Returns whether it is done."""
        for _ in range(zones):
            name = next(self._rest, None)
            if name is None:
                return True
            try:
                place = Zone(zone_info(name))
            except TriggerError:  # one that no trigger may name
                continue
            self._same.setdefault(steps_of(place, self._begin, self._end), []).append(name)
        return False

    def encoded(self) -> bytes:
        """Returns what `Offsets` reads."""
        return _encode(_Kept(self._begin, self._end, [_Same(names, steps) for steps, names in self._same.items()]))


class Offsets:
    """Offsets of other data than this host's, or of the same."""

    def __init__(self, raw: bytes) -> None:
        kept = _decode(raw)
        self._begin, self._end = kept.begin, kept.end
        self.ends_soon_s = kept.end - AHEAD_S // 2  # from then on they are to be gathered anew
        self._steps = {name: same.steps for same in kept.zones for name in same.names}
        self._changed: dict[str, bool] = {}

    def changed(self, name: str) -> bool:
        """Returns whether this host's data differs for the zone, or whether that is not known.

        Raises:
            TriggerError: this host knows no such zone.
        """
        found = self._changed.get(name)
        if found is None:
            found = self._steps.get(name) != steps_of(zone(name), self._begin, self._end)
            self._changed[name] = found
        return found

    def knows(self, name: str, at: int) -> bool:
        """Returns whether it has the offset of the zone at a second."""
        return self._begin < at < self._end and name in self._steps

    def moved(self, name: str, at: int) -> int:
        """Returns when clocks show by this host's data what they showed at a second by these offsets, which has to be
        known: the first time, where they show it twice. What is due as clocks go forward stands for the time that they
        leave out."""
        wall = at + min(self._at(name, at), self._at(name, at - 1))
        place = zone(name)
        guess = wall - place.stretch(at).offset
        better = wall - place.stretch(guess).offset
        found = [guess, better]
        found += [wall - place.stretch(place.stretch(one).start - 1).offset for one in (guess, better)]
        showing = [one for one in found if one + place.stretch(one).offset == wall]
        return min(showing, default=max(guess, better))

    def _at(self, name: str, at: int) -> int:
        steps = self._steps[name]
        return steps[max(0, bisect_right(steps, (at, 1 << 30)) - 1)][1]
