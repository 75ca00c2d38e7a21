"""Keeps time zones as stretches of constant offset, learnt from zoneinfo.

zoneinfo answers what the offset of one instant is; firing needs to know where it changes. Each zone is probed once a
day over the stretch of time somebody asks about, and the change itself is found by bisection.
"""

from __future__ import annotations

import difflib
import re
import struct
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from raftsched.schedule.errors import TriggerError, shown

POINTER = "/trigger/timezone"
NAME_MAX = 64  # characters
_NOT_ALIKE = frozenset({"Factory", "Local", "local", "localtime", "posixrules"})  # places that each machine fills

_FIXED = re.compile(r"(?:(?:Etc/)?(?:GMT|UTC|UT))?([+-])([0-9]{1,2})(?::?([0-5][0-9]))?", re.ASCII | re.IGNORECASE)
_EAST_MAX, _WEST_MAX = 14, 12  # hours of the zones of IANA with a fixed offset

_CHUNK_BITS = 25  # 2**25 s: about a year
_CHUNK_S = 1 << _CHUNK_BITS
_PROBE_S = 86_400
_OVERLAP_S = 2 * 86_400  # how far a clock may have been turned back before a chunk and still matter in it
_CHUNKS_KEPT = 160  # of one zone: more than 1970-2099
_FIRST, _LAST = -62_000_000_000, 253_402_000_000  # the years 5 and 9999


class Stretch(NamedTuple):
    """From `start` to before `end` (UTC seconds) the wall shows UTC + `offset`.

    `reached` is the wall time that clocks had come up to before `start`: below start + offset there is a gap between
    them, above it an overlap (wall times shown for the second time until `reached`).
    """

    start: int
    end: int
    offset: int
    reached: int


class Zone:
    """One zone's stretches, found on demand."""

    def __init__(self, info: ZoneInfo) -> None:
        self._info = info
        always = info.utcoffset(None)  # of a zone that has one offset
        self._only = None if always is None else Stretch(_FIRST, _LAST, _seconds(always), _FIRST + _seconds(always))
        self._chunks: dict[int, tuple[list[int], list[Stretch]]] = {}

    def stretch(self, at: int) -> Stretch:
        """The stretch that holds this instant (UTC seconds). A stretch may end without a change of offset."""
        if self._only is not None:
            return self._only
        number = at >> _CHUNK_BITS
        chunk = self._chunks.get(number)
        if chunk is None:
            if len(self._chunks) >= _CHUNKS_KEPT:
                self._chunks.clear()
            chunk = self._chunks[number] = self._explore(number << _CHUNK_BITS)
        starts, stretches = chunk
        return stretches[bisect_right(starts, at) - 1]

    def offset(self, at: int) -> int:
        """Seconds east of UTC at this instant (UTC seconds)."""
        delta = datetime.fromtimestamp(at, self._info).utcoffset()
        if delta is None:  # never: a ZoneInfo always knows
            raise AssertionError("a zone without an offset")
        return _seconds(delta)

    def _explore(self, begin: int) -> tuple[list[int], list[Stretch]]:
        end = begin + _CHUNK_S
        found: list[Stretch] = []
        start = begin - _OVERLAP_S
        offset = self.offset(start)
        reached = start + offset
        for change, after in self._changes(start, end, offset):
            found.append(Stretch(start, change, offset, reached))
            reached = max(reached, change + offset)
            start, offset = change, after
        found.append(Stretch(start, end, offset, reached))
        inside = [stretch for stretch in found if stretch.end > begin]
        first = inside[0]
        if first.start < begin:
            inside[0] = Stretch(begin, first.end, first.offset, max(first.reached, begin + first.offset))
        return [stretch.start for stretch in inside], inside

    def _changes(self, low: int, high: int, offset: int) -> list[tuple[int, int]]:
        """(instant, new offset) of each change in low < instant < high."""
        changes = []
        for begin, end in self._unsteady(low, high):
            left = begin
            while left < end:
                right = min(left + _PROBE_S, end)
                if self.offset(right) != offset:
                    below, above = left, right
                    while above - below > 1:
                        middle = (below + above) // 2
                        if self.offset(middle) == offset:
                            below = middle
                        else:
                            above = middle
                    offset = self.offset(above)
                    changes.append((above, offset))
                    right = above
                left = right
        return changes

    def _unsteady(self, low: int, high: int) -> list[tuple[int, int]]:
        """Some days of low <= instant < high each, which hold all changes: of a look at each day's wall it is not known
        at which instant it was, but it is quick."""
        shown = list(map(self._info.utcoffset, _daily(low, high)))
        found: list[tuple[int, int]] = []
        for place, (before, after) in enumerate(pairwise(shown)):
            if before != after:
                begin = max(low, low + place * _PROBE_S - _OVERLAP_S)
                end = min(high - 1, low + (place + 1) * _PROBE_S + _OVERLAP_S)
                if found and begin <= found[-1][1]:
                    begin = found.pop()[0]
                found.append((begin, end))
        return found


@lru_cache(maxsize=_CHUNKS_KEPT)
def _daily(low: int, high: int) -> tuple[datetime, ...]:
    """Wall times, a day apart, from `low` up to beyond `high`, as if they were UTC."""
    first, day = datetime.fromtimestamp(low, UTC).replace(tzinfo=None), timedelta(seconds=_PROBE_S)
    return tuple(first + day * n for n in range((high - low) // _PROBE_S + 2))


def _seconds(delta: timedelta) -> int:
    return delta.days * 86_400 + delta.seconds


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """The zone of an IANA name.

    Raises:
        TriggerError: no such zone.
    """
    return Zone(zone_info(name))


def is_zone(name: str) -> bool:
    """Returns whether a trigger may name this time zone."""
    try:
        zone_info(name)
    except TriggerError:
        return False
    return True


def zone_info(name: str) -> ZoneInfo:
    """zoneinfo's own object. Errors as `zone`."""
    if not name or len(name) > NAME_MAX:
        raise TriggerError(
            POINTER,
            f"a zone name has 1-{NAME_MAX} characters, this one {len(name)}; write one like Europe/Madrid",
            "unknown-reference",
        )
    if name.startswith("/"):
        raise TriggerError(
            POINTER,
            f"no time zone {shown(name)}: that is a file; use an IANA name like Europe/Madrid",
            "unknown-reference",
        )
    if name in _NOT_ALIKE or name.startswith(("posix/", "right/")):
        raise TriggerError(
            POINTER,
            f"{shown(name)} may differ from node to node; name the zone itself, like Europe/Madrid",
            "unknown-reference",
        )
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, struct.error, AssertionError):  # the last two: a damaged file
        raise TriggerError(POINTER, f"no time zone {shown(name)}; {_hint(name)}", "unknown-reference") from None


def _hint(name: str) -> str:
    fixed = fixed_offset(name)
    if fixed is not None:
        place = "a place, like Europe/Madrid"
        known = fixed.zone
        if known is None:
            return f"no zone of IANA is always {fixed.text}; name the place, like Asia/Kolkata"
        return "write UTC" if known == "UTC" else f"for {fixed.text} write {known}, whose sign is turned, or {place}"
    if name in _names():
        return "its file on this host is damaged: install the package tzdata anew, and restart"
    near = difflib.get_close_matches(name, _names(), n=1, cutoff=0.75)
    near = [known for known in _names() if known.lower() == name.lower()] or near
    if near:
        return f"did you mean {near[0]}?"
    return "use an IANA name like Europe/Madrid or UTC; a fixed offset is Etc/GMT-2 (which is UTC+2)"


class FixedOffset(NamedTuple):
    """An offset that is written as a name. `zone`: that of IANA which always has it, None where there is none."""

    text: str  # such as UTC+5:30
    zone: str | None


def fixed_offset(name: str) -> FixedOffset | None:
    """Reads `GMT+2`, `UTC+02:00`, `-0300`: hours east of UTC, as Java, ISO 8601 and people write them. (The zones of
    IANA that are called Etc/GMT+2 count the other way round.) None: the name is none of them."""
    found = _FIXED.fullmatch(name)
    if found is None:
        return None
    hours, minutes = int(found[2]), int(found[3] or 0)
    if not hours and not minutes:
        return FixedOffset("UTC", "UTC")
    east = found[1] == "+"
    text = f"UTC{found[1]}{hours}" + (f":{minutes:02}" if minutes else "")
    exists = not minutes and hours <= (_EAST_MAX if east else _WEST_MAX)
    return FixedOffset(text, f"Etc/GMT{'-' if east else '+'}{hours}" if exists else None)


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))


def local_text(at: int, offset: int, *, seconds: bool = False, form: str = "") -> str:
    """HH:MM on the wall, or HH:MM:SS, or as `form` says (strftime)."""
    wall = datetime.fromtimestamp(at + offset, UTC)
    return wall.strftime(form or ("%H:%M:%S" if seconds else "%H:%M"))
