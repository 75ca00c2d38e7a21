"""The least time between two times of a trigger, and what is said of a jitter that is longer."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule import describe, next_nominal, preview
from raftsched.schedule.gaps import least_gap_ms
from tests.support.memory_view import T0, at, cron, every

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
CRON = ["* * * * *", "*/7 * * * *", "0 9,17 * * *", "0 22,23,1 * * *", "30 2 * * 1", "*/20 3 * * * *", "0 0 12 1/5 * *"]
CRON += ["0 9 * * MON,THU", "0 9 * * SAT,SUN", "0 9 1,15 * *", "0 9 L * *", "0 9 13 * FRI", "0 9 */10 * MON", "@weekly"]
RULES = ["FREQ=MINUTELY;INTERVAL=3", "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=30", "FREQ=HOURLY;BYMINUTE=5,6", "FREQ=WEEKLY"]
RULES += ["FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=9", "FREQ=MONTHLY;BYMONTHDAY=-1", "FREQ=MONTHLY;BYDAY=MO"]


def rule(text: str) -> Trigger:
    return Trigger(kind=TriggerKind.RRULE, expr=text)


@pytest.mark.parametrize("trigger", [*map(cron, CRON), *map(rule, RULES), every(90 * SECOND)], ids=lambda one: one.expr)
def test_no_two_times_are_closer(trigger: Trigger) -> None:
    least = least_gap_ms(trigger)
    assert least is not None
    at_ms, times = T0 + random.Random(3).randrange(HOUR), []
    for _ in range(200):
        found = next_nominal(trigger, at_ms, anchor_ms=T0)
        assert found is not None
        times.append(at_ms := found)
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) >= least
    assert min(gaps) <= 366 * DAY


@pytest.mark.parametrize(
    ("trigger", "days"),
    [
        (cron("30 2 * * MON"), 7),
        (cron("30 2 * * MON,THU"), 3),
        (cron("30 2 * * SAT,SUN"), 1),
        (cron("30 2 1 * *"), 28),
        (cron("30 2 1,15 * ?"), 14),
        (cron("@weekly"), 7),
        (rule("FREQ=WEEKLY;BYDAY=MO;BYHOUR=2"), 7),
        (rule("FREQ=MONTHLY;BYMONTHDAY=1"), 28),
        (rule("FREQ=MONTHLY;BYDAY=MO,TU"), 1),
    ],
    ids=lambda one: getattr(one, "expr", one),
)
def test_the_days_that_are_named_count(trigger: Trigger, days: int) -> None:
    """A jitter of a day, the longest, is in nobody's way where the job is due once a week."""
    assert least_gap_ms(trigger) == days * DAY - HOUR


def test_where_there_are_no_two() -> None:
    assert least_gap_ms(at(T0)) is None
    assert least_gap_ms(every(MINUTE, mode=EveryMode.FIXED_DELAY)) is None


@pytest.mark.parametrize(
    ("trigger", "end"),
    [
        (cron("0 2 * * *", jitter_ms=5 * MINUTE), "each delayed by up to 5m"),
        (cron("0 * * * *", jitter_ms=12 * HOUR), "each delayed by up to 12h, but to before the next time"),
        (every(MINUTE, jitter_ms=59 * SECOND), "each delayed by up to 59s"),
        (every(MINUTE, jitter_ms=MINUTE), "each delayed by up to 1m, but to before the next time"),
        (every(MINUTE, jitter_ms=HOUR, mode=EveryMode.FIXED_DELAY), "each delayed by up to 1h"),
        (at(T0, jitter_ms=HOUR), "each delayed by up to 1h"),
    ],
)
def test_in_words(trigger: Trigger, end: str) -> None:
    assert describe(trigger).endswith(end)


def test_the_preview_says_what_is_effective() -> None:
    notes = [time.note for time in preview(cron("0,10 * * * *", jitter_ms=20 * MINUTE), T0, 3)]
    assert notes.count("jitter: less than 10m, for the next time comes then") >= 1
    assert None in notes
    assert {time.note for time in preview(every(5 * SECOND, jitter_ms=9 * SECOND), T0, 3, anchor_ms=T0)} == {
        "jitter: less than 5s, for the next time comes then"
    }
    assert {time.note for time in preview(every(5 * SECOND, jitter_ms=4 * SECOND), T0, 3, anchor_ms=T0)} == {None}
