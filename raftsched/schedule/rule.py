"""Computes the times of a recurrence rule with its start and zone.

As for cron, daylight saving time is a matter of whether the rule is *fixed*: it is when hour and minute are named or
follow from the start (FREQ=DAILY and longer; shorter ones with BYHOUR, and BYMINUTE below an hour). `cron` says what
follows from that.

On the time line a rule begins with an instant, and `COUNT` counts instants: in the hour that comes twice a rule may
start in either pass, and one that is not fixed has times in both.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import lru_cache

from raftsched.core.model import Trigger
from raftsched.schedule.budget import STEPS_MAX, Steps, pay
from raftsched.schedule.cron import HORIZON, OFFSET_MAX, count_between, gap_fires, next_after
from raftsched.schedule.errors import RULE_POINTER
from raftsched.schedule.rule_text import Freq, Rule, parse_rule
from raftsched.schedule.rule_times import RuleTimes
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.zones import Zone, zone

COUNTED_S = 8 * 366 * DAY_S  # counted at once for the end of a COUNT, in a zone without changes
RULES_KEPT = 512
COUNTS_KEPT = 16_384  # to find the end of a COUNT is dear


class Recurrence:
    """Gives the times of a rule in UTC seconds: no time is before `first`; `until` is the last instant that UNTIL
    allows, or COUNT (see `recurrence`), if that is known. An UNTIL on the wall is kept to by `times`, and where clocks
    show it twice it is the first time."""

    def __init__(self, rule: Rule, place: Zone, start: int, rounded: bool) -> None:
        self.rule = rule
        self.fixed = _fixed(rule)
        self.first = start
        if rounded and not rule.seconds and (rule.minutes or rule.hours):
            wall = start + place.offset(start)
            self.first -= wall % (60 if rule.minutes else 3600)
        wall = self.first + place.offset(start)
        on_the_wall = replace(rule, count=None)  # its times; that COUNT and a UTC UNTIL end them is kept to here
        if rule.until_utc:
            on_the_wall = replace(on_the_wall, until=None, until_utc=False)
        with Steps(kept=True) as steps:
            self.times = RuleTimes(on_the_wall, wall, wall if self.fixed else wall - 2 * DAY_S)
        self.steps = steps.spent  # to make the times
        self.steps_of_count = 0  # to find the end of a COUNT
        self.has_seconds = rule.freq is Freq.SECONDLY or any(offset % 60 for offset in self.times.pattern)
        self.until = rule.until if rule.until is None or rule.until_utc else _shown(place, rule.until, self.first)


def recurrence(trigger: Trigger, anchor_ms: int) -> Recurrence:
    """The trigger's rule, from a cache. It starts at starts_at, to the second; without, at the anchor, and what is
    shorter than the shortest of BYHOUR, BYMINUTE and BYSECOND that is given is 0 then: BYHOUR=17 means 17:00:00.

    Raises:
        TriggerError: what is wrong with the rule or the zone, and what would be right.
    """
    start_ms = anchor_ms if trigger.starts_at_ms is None else trigger.starts_at_ms
    key = (trigger.expr, trigger.timezone, start_ms // 1000, trigger.starts_at_ms is None)
    found = _recurrence(*key)
    pay(key, found.steps)
    if found.steps_of_count:
        pay((*key, "COUNT"), found.steps_of_count, apart=True)
    return found


@lru_cache(maxsize=RULES_KEPT)
def _recurrence(text: str, timezone: str, start: int, rounded: bool) -> Recurrence:
    found = _endless(text, timezone, start, rounded)
    if found.rule.count is not None:
        found = copy(found)
        found.until, found.steps_of_count = _last(text, timezone, start, rounded)
    return found


@lru_cache(maxsize=RULES_KEPT)
def _endless(text: str, timezone: str, start: int, rounded: bool) -> Recurrence:
    return Recurrence(parse_rule(text), zone(timezone), start, rounded)


@lru_cache(maxsize=COUNTS_KEPT)
def _last(text: str, timezone: str, start: int, rounded: bool) -> tuple[int | None, int]:
    """The instant of the last time that COUNT allows, None when no more than these come; and the steps to find it."""
    with Steps(STEPS_MAX, RULE_POINTER, kept=True) as steps:  # of its own: a search is not refused for them
        rule = _endless(text, timezone, start, rounded)
        # what is in the second of a creation went by before the job was there
        last = _nth(rule, zone(timezone), start if rounded else start - 1, rule.rule.count or 0)
    return last, steps.spent


def _shown(place: Zone, wall: int, since: int) -> int | None:
    """The first instant from `since` on at which the clocks show it; None when they never do."""
    at = max(since, wall - OFFSET_MAX)
    while at <= min(wall + OFFSET_MAX, HORIZON):
        stretch = place.stretch(at)
        if at <= wall - stretch.offset < stretch.end:
            return wall - stretch.offset
        at = stretch.end
    return None


def _nth(rule: Recurrence, place: Zone, after: int, count: int) -> int | None:
    """The instant of that many times after `after`; None when there are fewer."""
    if count > rule.times.most * (1 if rule.fixed else 2):  # a clock that is turned back shows some twice
        return None
    at = after + 1
    while at < HORIZON:
        end = min(place.stretch(at).end, at + COUNTED_S, HORIZON)
        found = count_between(rule, place, at - 1, end - 1)
        if found >= count:
            return _nth_of_stretch(rule, place, at, count)
        count -= found
        following = end if found else next_after(rule, place, end - 1)
        if following is None:
            return None
        at = following
    return None


def _nth_of_stretch(rule: Recurrence, place: Zone, at: int, count: int) -> int | None:
    """The same from the instant `at` on, of a stretch that has so many."""
    stretch = place.stretch(at)
    begin = at + stretch.offset
    if rule.fixed:
        if gap_fires(rule, stretch, at):
            count -= 1
            if not count:
                return at
        begin = max(begin, stretch.reached)
    wall = rule.times.nth(begin, count)
    return None if wall is None else wall - stretch.offset


def _fixed(rule: Rule) -> bool:
    if rule.freq <= Freq.DAILY:
        return True
    return bool(rule.hours) and (rule.freq is Freq.HOURLY or bool(rule.minutes))
