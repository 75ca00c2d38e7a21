"""A recurrence rule with its start and zone, ready to be asked for times.

As for cron, daylight saving time is a matter of whether the rule is *fixed*: it is when hour and minute are named or
follow from the start (FREQ=DAILY and longer; shorter ones with BYHOUR, and BYMINUTE below an hour). `cron` says what
follows from that.
"""

from __future__ import annotations

from functools import lru_cache

from raftsched.core.model import Trigger
from raftsched.schedule.rule_text import Freq, Rule, parse_rule
from raftsched.schedule.rule_times import RuleTimes
from raftsched.schedule.zones import zone


class Recurrence:
    """`until` is the last instant that UNTIL allows, when it names one (UTC seconds)."""

    def __init__(self, rule: Rule, times: RuleTimes) -> None:
        self.rule = rule
        self.times = times
        self.fixed = _fixed(rule)
        self.has_seconds = rule.freq is Freq.SECONDLY or any(offset % 60 for offset in times.pattern)
        self.until = rule.until if rule.until_utc else None


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
    rule = parse_rule(text)
    wall = start + zone(timezone).offset(start)
    if rounded and not rule.seconds and (rule.minutes or rule.hours):
        wall -= wall % (60 if rule.minutes else 3600)
    return Recurrence(rule, RuleTimes(rule, wall))


def _fixed(rule: Rule) -> bool:
    if rule.freq <= Freq.DAILY:
        return True
    return bool(rule.hours) and (rule.freq is Freq.HOURLY or bool(rule.minutes))
