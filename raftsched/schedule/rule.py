"""A recurrence rule with its start and zone, ready to be asked for times.

As for cron, daylight saving time is a matter of whether the rule is *fixed*: it is when hour and minute are named or
follow from the start (FREQ=DAILY and longer; shorter ones with BYHOUR, and BYMINUTE below an hour). `cron` says what
follows from that.

On the time line a rule begins with an instant, and `COUNT` counts instants: in the hour that comes twice a rule may
start in either pass, and one that is not fixed has times in both.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from raftsched.core.model import Trigger
from raftsched.schedule.cron import HORIZON, OFFSET_MAX, count_between, next_after
from raftsched.schedule.rule_text import Freq, Rule, parse_rule
from raftsched.schedule.rule_times import RuleTimes
from raftsched.schedule.wall import DAY_S
from raftsched.schedule.zones import Zone, zone


class Recurrence:
    """In UTC seconds: no time is before `first`; `until` is the last instant that UNTIL or COUNT allow, if that is
    known. An UNTIL on the wall is kept to by `times`, and where clocks show it twice it is the first time."""

    def __init__(self, rule: Rule, place: Zone, start: int, rounded: bool) -> None:
        self.rule = rule
        self.fixed = _fixed(rule)
        self.first = start
        if rounded and not rule.seconds and (rule.minutes or rule.hours):
            wall = start + place.offset(start)
            self.first -= wall % (60 if rule.minutes else 3600)
        wall = self.first + place.offset(start)
        self.times = RuleTimes(replace(rule, count=None), wall, wall if self.fixed else wall - 2 * DAY_S)
        self.has_seconds = rule.freq is Freq.SECONDLY or any(offset % 60 for offset in self.times.pattern)
        self.until = rule.until if rule.until is None or rule.until_utc else _shown(place, rule.until, self.first)
        if rule.count is not None:
            # what is in the second of a creation went by before the job was there
            self.until = _nth(self, place, start if rounded else start - 1, rule.count)


def recurrence(trigger: Trigger, anchor_ms: int) -> Recurrence:
    """The trigger's rule, from a cache. It starts at starts_at, to the second; without, at the anchor, and what is
    shorter than the shortest of BYHOUR, BYMINUTE and BYSECOND that is given is 0 then: BYHOUR=17 means 17:00:00.

    Raises:
        TriggerError: what is wrong with the rule or the zone, and what would be right.
    """
    start_ms = anchor_ms if trigger.starts_at_ms is None else trigger.starts_at_ms
    return _recurrence(trigger.expr, trigger.timezone, start_ms // 1000, trigger.starts_at_ms is None)


@lru_cache(maxsize=512)
def _recurrence(text: str, timezone: str, start: int, rounded: bool) -> Recurrence:
    return Recurrence(parse_rule(text), zone(timezone), start, rounded)


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
    while True:
        at = next_after(rule, place, after)
        if at is None:
            return None
        end = place.stretch(at).end - 1
        found = count_between(rule, place, at - 1, end)
        if found >= count:
            break
        count -= found
        after = end
    low = at - 1
    while end - low > 1:  # `end` has that many behind it, `low` has not
        middle = (low + end) // 2
        if count_between(rule, place, at - 1, middle) >= count:
            end = middle
        else:
            low = middle
    return end


def _fixed(rule: Rule) -> bool:
    if rule.freq <= Freq.DAILY:
        return True
    return bool(rule.hours) and (rule.freq is Freq.HOURLY or bool(rule.minutes))
