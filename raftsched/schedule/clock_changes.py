"""Finds when a change of clocks first bears on a trigger: some of its times are skipped then, or come twice."""

from __future__ import annotations

from typing import NamedTuple

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import cron
from raftsched.schedule.expression import compiled
from raftsched.schedule.rule import recurrence
from raftsched.schedule.zones import local_text, zone


class Change(NamedTuple):
    """`moved`: its times are run all the same, once (see `cron`); else those that are skipped are not, and those that
    come twice are run twice."""

    at_ms: int  # UTC
    moved: bool


def first_change(trigger: Trigger, after_ms: int, until_ms: int) -> Change | None:
    """The first change of clocks in after_ms < time <= until_ms that skips or repeats times of a cron expression or a
    rule; None: there is none. What is due in every hour has none: it follows the clock.

    Raises:
        TriggerError: the trigger is not valid.
    """
    if trigger.kind is TriggerKind.CRON:
        pattern: cron.Pattern = compiled(trigger.expr, trigger.dialect)
    elif trigger.kind is TriggerKind.RRULE:
        pattern = recurrence(trigger, after_ms)
    else:
        return None
    place = zone(trigger.timezone)
    stretch = place.stretch(after_ms // 1000)
    while stretch.end <= until_ms // 1000:
        stretch = place.stretch(stretch.end)
        begin = stretch.start + stretch.offset
        low, high = sorted((begin, stretch.reached))
        if low < high and pattern.times.count(low, high) and not _hourly(pattern, low):
            return Change(stretch.start * 1000, pattern.fixed)
    return None


def _hourly(pattern: cron.Pattern, wall: int) -> bool:
    """Returns whether it is due in each hour around this wall time, and follows the clock."""
    hour = wall - wall % 3600
    return not pattern.fixed and all(
        pattern.times.count(begin, begin + 3600) for begin in range(hour - 3 * 3600, hour + 4 * 3600, 3600)
    )


def day_text(trigger: Trigger, at_ms: int) -> str:
    """The local day of an instant, such as 2027-03-28."""
    at = at_ms // 1000
    return local_text(at, zone(trigger.timezone).stretch(at).offset, form="%Y-%m-%d")
