"""Cron expressions and recurrence rules in a time zone: instants, with daylight saving time as Vixie cron does it.

Let R(u) be the latest wall time that clocks of the zone have shown up to the instant u.

- A *fixed* expression (of cron: neither minute nor hour starts with `*`; of rules: see `rule`) fires when R first
  comes to a matching wall time, or past it. So a time inside the gap of spring fires at the first instant after the
  gap, all of a gap together once; a time in the overlap of autumn fires at its first occurrence only.
- Any other expression fires at every instant whose wall time matches: what lies in the gap does not happen, what lies
  in the overlap happens twice. `*/15 * * * *` runs every 15 minutes of elapsed time all the way through.

The same rule is applied to every change of a zone's offset, whatever its size and reason, and to expressions of five,
six and seven fields. (Vixie cron's daemon limits it to changes of less than three hours, because it cannot tell a
larger one from somebody setting the clock; a zone database can.)

Times here are UTC seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from raftsched.schedule.budget import spend
from raftsched.schedule.fields import LAST_YEAR
from raftsched.schedule.zones import Stretch, Zone

HORIZON = int(datetime(LAST_YEAR + 1, 1, 3, tzinfo=UTC).timestamp())  # no zone's LAST_YEAR lasts longer
OFFSET_MAX = 48 * 3600  # more than any offset, plus any single change of one
STRETCH_STEPS = 8  # of a search, for half a year of a zone


class Times(Protocol):
    """Wall-clock seconds (see `wall`)."""

    def next_from(self, wall: int) -> int | None: ...
    def matches(self, wall: int) -> bool: ...
    def count(self, low: int, high: int) -> int: ...


class Pattern(Protocol):
    """The interface that cron expressions and recurrence rules have in common."""

    @property
    def times(self) -> Times: ...
    @property
    def fixed(self) -> bool: ...
    @property
    def has_seconds(self) -> bool: ...


def next_after(expression: Pattern, zone: Zone, after: int) -> int | None:
    """The first fire strictly after `after`; None when there is none up to the end of fields.LAST_YEAR."""
    if after >= HORIZON:
        return None
    if expression.fixed:
        return _next_fixed(expression, zone, after)
    return _next_elapsed(expression, zone, after)


def _low(stretch: Stretch, at: int) -> int:
    """The first wall time that a fixed expression has not had its chance at before the instant `at`."""
    return stretch.reached if at <= stretch.start else max(at + stretch.offset, stretch.reached)


def _next_fixed(expression: Pattern, zone: Zone, after: int) -> int | None:
    at = after + 1
    stretch = zone.stretch(at)
    wall = expression.times.next_from(_low(stretch, at))
    if wall is None:
        return None
    # R never goes back, so this wall time stays the answer; what remains is to find the instant that reaches it.
    if wall - OFFSET_MAX > stretch.end:
        stretch = zone.stretch(wall - OFFSET_MAX)
    while wall - stretch.offset >= stretch.end:
        spend(STRETCH_STEPS)
        stretch = zone.stretch(stretch.end)
    return max(wall - stretch.offset, stretch.start)


def _next_elapsed(expression: Pattern, zone: Zone, after: int) -> int | None:
    at = after + 1
    stretch = zone.stretch(at)
    low = at + stretch.offset
    wall = expression.times.next_from(low)
    while wall is not None:
        if wall - stretch.offset < stretch.end:
            return wall - stretch.offset
        spend(STRETCH_STEPS)
        # two days behind the begin and two before the wall time no clock shows what lies before or after these
        stretch = zone.stretch(max(stretch.end, wall - OFFSET_MAX) if stretch.end > at + OFFSET_MAX else stretch.end)
        begin = stretch.start + stretch.offset
        if begin < low or begin > wall:
            # the clock went back behind where the search began, or jumped over what it found
            low = begin
            wall = expression.times.next_from(low)
    # Nothing further on the wall; but the clock may still go back over what was there. A year field ends like that, at
    # midnight of a New Year's night, and a zone that turned its clock back just then would be the first; and a rule
    # with a local UNTIL, which is the first of two times.
    return None


def count_between(expression: Pattern, zone: Zone, after: int, until: int) -> int:
    """Returns the number of fires in after < fire <= until, without walking through them."""
    times = expression.times
    count = 0
    at = after + 1
    until = min(until, HORIZON)
    while at <= until:
        stretch = zone.stretch(at)
        end = min(stretch.end, until + 1)
        begin = at + stretch.offset
        spend(2 if at == after + 1 else STRETCH_STEPS)
        if expression.fixed:
            count += gap_fires(expression, stretch, at)
            begin = max(begin, stretch.reached)
        count += times.count(begin, end + stretch.offset)
        at = end
    return count


def gap_fires(expression: Pattern, stretch: Stretch, at: int) -> bool:
    """Returns whether a fixed expression fires at the instant `at` for the gap before this stretch: all of the gap is
    one fire, at the same instant as the first wall time after it."""
    begin = stretch.start + stretch.offset
    if at != stretch.start or stretch.reached >= begin:
        return False
    return expression.times.count(stretch.reached, begin) > 0 and not expression.times.matches(begin)


def skipped_in_gap(expression: Pattern, stretch: Stretch) -> tuple[int, int, int] | None:
    """(first, last, how many) matching wall times lie in the gap before this stretch; None when none does."""
    begin = stretch.start + stretch.offset
    count = expression.times.count(stretch.reached, begin)
    if not count:
        return None
    first = last = expression.times.next_from(stretch.reached)
    if first is None or last is None:
        return None
    low, high = first, begin
    while high - low > 1:  # the last one: bisect on the count
        middle = (low + high) // 2
        if expression.times.count(middle, begin):
            low = middle
        else:
            high = middle
    return first, low, count
