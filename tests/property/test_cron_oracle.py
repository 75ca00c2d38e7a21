"""Around clock changes and everywhere else: the minute-by-minute oracle must agree, and nothing may be skipped."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache, lru_cache
from itertools import islice, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raftsched.schedule import TriggerError, missed, next_nominal
from tests.property.cron_strategies import day_fields, many_fields
from tests.support.amounts import examples
from tests.support.cron_oracle import Oracle, clock_changes
from tests.support.cron_times import cron, ms, within
from tests.support.crontab_lines import Line, schedules

ZONES = [
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",  # UTC+5:45, no daylight saving time
    "Africa/Casablanca",  # turned back for Ramadan
    "America/St_Johns",
    "Pacific/Chatham",
    "America/Santiago",  # at midnight
    "Antarctica/Troll",  # by two hours
    "UTC",
]
HOUR = 3600
LIMIT = 4000  # fires looked at in one window


@lru_cache
def changes(zone: str) -> list[int]:
    return clock_changes(zone, 2025, 2028)


def check(expr: str, zone: str, low: int, high: int) -> None:
    """Every fire of the window, one by one and counted."""
    trigger = cron(expr, zone)
    expected = [at * 1000 for at in islice(Oracle(expr, zone).fires(low, high), LIMIT)]
    end = high * 1000 if len(expected) < LIMIT else expected[-1] + 1
    found = within(trigger, low * 1000, end)
    assert found == expected
    assert all(a < b for a, b in pairwise(found))
    gone = missed(trigger, low * 1000 - 1, end - 1, keep=7)
    assert gone.count == len(expected)
    assert gone.times == tuple(expected[-7:])
    assert gone.until_ms == (expected[-1] if expected else None)


@settings(max_examples=examples(250), deadline=None, print_blob=True)
@given(expr=many_fields(), zone=st.sampled_from(ZONES), data=st.data())
def test_around_a_clock_change(expr: str, zone: str, data: st.DataObject) -> None:
    moments = changes(zone) or [1_790_000_000]
    change = data.draw(st.sampled_from(moments)) // HOUR * HOUR
    try:
        check(expr, zone, change - 5 * HOUR, change + 6 * HOUR)
    except TriggerError as error:
        assume("no such date" in error.detail)
        assert not list(Oracle(expr, zone).fires(change - 5 * HOUR, change + 6 * HOUR))


@settings(max_examples=examples(120), deadline=None, print_blob=True)
@given(
    expr=many_fields(),
    zone=st.sampled_from(ZONES),
    start=st.integers(1_000_000_000 // HOUR, 4_000_000_000 // HOUR),
    days=st.integers(1, 20),
)
def test_any_other_time(expr: str, zone: str, start: int, days: int) -> None:
    try:
        check(expr, zone, start * HOUR, start * HOUR + days * 24 * HOUR)
    except TriggerError as error:
        assume("no such date" in error.detail)
        assert not list(islice(Oracle(expr, zone).fires(start * HOUR, start * HOUR + days * 24 * HOUR), 1))


@settings(max_examples=examples(80), deadline=None, print_blob=True)
@given(days=day_fields(), start=st.integers(1_700_000_000 // HOUR, 3_500_000_000 // HOUR))
def test_days_through_a_year(days: str, start: int) -> None:
    low, high = start * HOUR, start * HOUR + 366 * 86_400
    expected = [at * 1000 for at in Oracle(f"0 12 {days}", "UTC").fires(low, high)]
    try:
        assert within(cron(f"0 12 {days}"), low * 1000, high * 1000) == expected
    except TriggerError as error:
        assume("no such date" in error.detail)
        assert not expected


@settings(max_examples=examples(150), deadline=None, print_blob=True)
@given(
    weekday=st.sampled_from(["1", "2-4", "7", "6#3", "4L", "L2", "7L", "SUN", "6-2", "L", "1/3", "*/2", "MON-FRI"]),
    day=st.sampled_from(["?", "*", "13", "*/3", "1-7"]),
    start=st.integers(1_700_000_000 // HOUR, 2_000_000_000 // HOUR),
)
def test_quartz_weekdays(weekday: str, day: str, start: int) -> None:
    expr = f"0 30 12 {day} * {weekday} *"
    low = start * HOUR
    expected = [at * 1000 for at in Oracle(expr, "UTC", "quartz").fires(low, low + 60 * 86_400)]
    assert within(cron(expr, dialect="quartz"), low * 1000, (low + 60 * 86_400) * 1000) == expected


@settings(max_examples=examples(150), deadline=None, print_blob=True)
@given(expr=many_fields(), zone=st.sampled_from(ZONES), data=st.data())
def test_the_answer_does_not_depend_on_where_one_asks_from(expr: str, zone: str, data: st.DataObject) -> None:
    """From any instant, also within a second, the next time is the first of all times behind it."""
    change = data.draw(st.sampled_from(changes(zone) or [1_790_000_000]))
    low, high = (change - 4 * HOUR) * 1000, (change + 4 * HOUR) * 1000
    trigger = cron(expr, zone)
    try:
        times = within(trigger, low, high)
    except TriggerError:
        assume(False)
    near = st.integers(change - HOUR, change + HOUR).map(lambda at: at * 1000)
    for after in data.draw(st.lists(near | st.integers(low - 1, high - 1), min_size=5, max_size=30)):
        at = bisect_right(times, after)
        found = next_nominal(trigger, after)
        if at < len(times):
            assert found == times[at]
        else:
            assert found is None or found >= high


WINDOWS = [
    (ms("2027-03-13T00:00Z"), ms("2027-03-15T00:00Z")),  # New York goes forward
    (ms("2027-03-27T12:00Z"), ms("2027-03-29T06:00Z")),  # Madrid goes forward
    (ms("2026-10-24T12:00Z"), ms("2026-10-26T06:00Z")),  # Madrid goes back
    (ms("2026-10-28T12:00Z"), ms("2026-10-30T12:00Z")),  # Cairo goes back
    (ms("2026-10-31T12:00Z"), ms("2026-11-02T12:00Z")),  # New York goes back
]


@cache  # many lines say the same
def check_real(expr: str, zone: str) -> None:
    oracle = Oracle(expr, zone)
    trigger = cron(expr, zone)
    for low, high in WINDOWS:
        expected = [at * 1000 for at in islice(oracle.fires(low // 1000, high // 1000), 400)]
        end = high if len(expected) < 400 else expected[-1] + 1
        assert within(trigger, low, end) == expected
    year = ms("2026-09-21T14:13Z")
    first = [at * 1000 for at in islice(oracle.fires(year // 1000, year // 1000 + 370 * 86_400), 3)]
    assert first
    assert within(trigger, year, first[-1] + 1) == first


@pytest.mark.parametrize("line", schedules(), ids=lambda line: line.label)
def test_real_crontabs(line: Line) -> None:
    check_real(line.expr, line.zone)
