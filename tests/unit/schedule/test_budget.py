"""What one search may look at: whoever writes a rule does not choose how long the others wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime

import pytest

from raftsched.schedule import Steps, TriggerError, missed, next_nominal, preview, rule, validate
from raftsched.schedule.budget import CALENDAR_STEPS_MAX, COUNT_STEPS_MAX, STEPS_MAX, TooLong
from raftsched.schedule.exclusions import exclusion
from tests.support.cron_times import cron, following, ms, rrule

NOW = ms("2026-11-22T06:00:05.123Z")
MADRID = "Europe/Madrid"
BUT_THREE = ",".join(str(minute) for minute in range(60) if minute not in (3, 5, 8))
DRIFTING = f"FREQ=SECONDLY;INTERVAL=86399;BYMINUTE={BUT_THREE};COUNT=20000"


def forget() -> None:
    for cached in (rule._recurrence, rule._endless, rule._last):
        cached.cache_clear()


class Over(Exception):
    """All times of the trigger are past."""


@contextmanager
def known_as_over() -> Iterator[None]:
    try:
        yield
    except TriggerError as error:
        raise Over if error.meaning == "never-due" else error from None


@pytest.mark.parametrize(
    "text, starts_at",
    [
        (DRIFTING, "1971-01-01T00:00:00Z"),
        ("FREQ=SECONDLY;INTERVAL=86401;BYHOUR=3;BYMINUTE=7;BYSECOND=11", "2026-11-22T04:00:00Z"),
        ("FREQ=MINUTELY;INTERVAL=1441;BYHOUR=3;BYMINUTE=7;BYDAY=MO;COUNT=9000", "1971-01-01T00:00:00Z"),
    ],
)
def test_what_takes_too_long_is_refused_with_what_would_be_right(text: str, starts_at: str) -> None:
    trigger = rrule(text, starts_at_ms=ms(starts_at))
    for _ in range(2):  # also when some of it is cached
        with pytest.raises(TriggerError, match=r"takes too long to search: .*use an INTERVAL") as error:
            validate(trigger, now_ms=NOW)
        assert (error.value.pointer, error.value.meaning) == ("/trigger/rrule", "out-of-range")
    for read in (
        lambda: next_nominal(trigger, NOW),
        lambda: preview(trigger, NOW, 1),
    ):
        with pytest.raises(TooLong):
            read()


SENSIBLE = [
    "FREQ=YEARLY",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=YEARLY;INTERVAL=4;COUNT=20",
    "FREQ=YEARLY;BYYEARDAY=-1,1,100,200",
    "FREQ=YEARLY;BYWEEKNO=1,20,53,-1;BYDAY=MO",
    "FREQ=YEARLY;BYMONTH=3;BYDAY=FR;BYMONTHDAY=13",
    "FREQ=YEARLY;BYMONTH=3,4;BYDAY=SU;BYYEARDAY=81,82,83,84,85,86,87,88,89,90",
    "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=9,17;COUNT=600",
    "FREQ=MONTHLY;INTERVAL=18;BYMONTHDAY=10,11,12,13,14,15",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,FR;BYSETPOS=1,-1;COUNT=1000",
    "FREQ=WEEKLY;COUNT=2500",
    "FREQ=DAILY;COUNT=10000",
    "FREQ=DAILY;INTERVAL=10;BYMONTH=2",
    "FREQ=DAILY;BYHOUR=9,12,15;BYMINUTE=0,30;COUNT=100000",
    "FREQ=HOURLY;INTERVAL=5;COUNT=50000",
    "FREQ=HOURLY;INTERVAL=36;BYHOUR=9;BYDAY=MO;COUNT=500",
    "FREQ=MINUTELY;INTERVAL=7;BYHOUR=9,10,11,12;BYDAY=MO,TU,WE,TH,FR;COUNT=100000",
    "FREQ=MINUTELY;INTERVAL=15;COUNT=1000000",
    "FREQ=MINUTELY;INTERVAL=90;BYDAY=SA",
    "FREQ=SECONDLY;INTERVAL=10;BYHOUR=2;COUNT=1000000",
    "FREQ=SECONDLY;COUNT=1000000000",
    "FREQ=SECONDLY;INTERVAL=999983",
    f"FREQ=SECONDLY;INTERVAL=61;BYMINUTE={BUT_THREE};COUNT=999999999",
]


@pytest.mark.parametrize("text", SENSIBLE)
@pytest.mark.parametrize("zone", ["UTC", MADRID])
@pytest.mark.parametrize("starts_at", [None, "1970-01-02T09:00:00Z", "1996-02-29T12:00:00+01:00"])
def test_what_is_sensible_is_far_from_the_bound(text: str, zone: str, starts_at: str | None) -> None:
    """Also where it began decades ago, and has all its times behind it."""
    trigger = rrule(text, zone, starts_at_ms=None if starts_at is None else ms(starts_at))
    forget()
    with suppress(Over), Steps() as steps, known_as_over():
        validate(trigger, now_ms=NOW)
    assert steps.done <= STEPS_MAX


def test_a_large_count_is_computed_not_walked_through() -> None:
    start = ms("1971-01-01T00:00:00Z")
    every_other = "FREQ=SECONDLY;INTERVAL=2;BYHOUR=0,6,12,18;BYMINUTE=0,1,2,3,4,5,6,7,8,9"
    per_day = 4 * 10 * 30
    forget()
    with Steps() as steps:
        trigger = rrule(f"{every_other};COUNT={20_000 * per_day + 3}", starts_at_ms=start)
        last = start + 20_000 * 86_400_000 + 4_000
        assert next_nominal(trigger, last - 1) == last
        assert next_nominal(trigger, last) is None
    assert steps.done < 2_500


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=HOURLY;INTERVAL=61;BYMONTHDAY=-9,-2;COUNT=30",
        "FREQ=SECONDLY;INTERVAL=7;BYSECOND=3",
        "FREQ=SECONDLY;INTERVAL=61;BYHOUR=3;BYMINUTE=3;BYSECOND=3",
    ],
)
def test_it_does_not_matter_what_is_cached(text: str) -> None:
    trigger = rrule(text, MADRID, starts_at_ms=ms("2020-01-01T00:00Z"))
    forget()
    seen = []
    for _ in range(3):
        with Steps(STEPS_MAX) as steps:
            next_nominal(trigger, NOW)
        seen.append((steps.spent, steps.total))
    assert seen[0] == seen[1] == seen[2]
    assert steps.done < steps.total


def test_more_rules_than_are_kept_are_not_counted_anew() -> None:
    many = [
        rrule(f"FREQ=MINUTELY;INTERVAL=7;BYHOUR=9;BYDAY=MO;COUNT={10_000 + n}", starts_at_ms=ms("2001-01-01T00:00Z"))
        for n in range(rule.RULES_KEPT + 50)
    ]
    for trigger in many:
        next_nominal(trigger, NOW)
    with Steps() as steps:
        for trigger in many:
            next_nominal(trigger, NOW)
    assert steps.done < 20 * len(many)


def content(**lists: object) -> bytes:
    return json.dumps(lists).encode()


NIGHTS = content(hours=[{"from": "22:00", "to": "06:00"}])
HALVES = content(
    hours=[{"from": f"{n // 2:02}:{n % 2 * 30:02}", "to": f"{n // 2:02}:{n % 2 * 30 + 29:02}"} for n in range(48)]
)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("calendar", [NIGHTS, HALVES])
@pytest.mark.parametrize("text", ["0 3 * * *", "5 3 29 2 *", "5,35 * * * *", "* * * * * *"])
def test_calendars_are_bounded_too(text: str, calendar: bytes, moves: bool) -> None:
    trigger = cron(text, MADRID, calendar="x", calendar_moves=moves)
    with Steps() as steps, suppress(TooLong):
        next_nominal(trigger, NOW, calendar=calendar)
    assert steps.total <= CALENDAR_STEPS_MAX + 4_000  # one more look, of which none is longer
    with Steps() as steps, pytest.raises(TooLong, match="the calendar begins and ends to exclude too often") as error:
        missed(trigger, 0, ms("2099-01-01T00:00Z"), keep=5, calendar=calendar)
    assert error.value.pointer == "/trigger/calendar"
    assert steps.total <= COUNT_STEPS_MAX + 4_000


@pytest.mark.parametrize("zone", ["UTC", MADRID, "Africa/Casablanca"])
@pytest.mark.parametrize("excludes", [[], [{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"}]])
def test_a_calendar_is_searched_in_the_same_steps_cold_and_warm(excludes: list[object], zone: str) -> None:
    """The first of a quarter, if it is at a weekend."""
    days = ["mon", "tue", "wed", "thu", "fri"]
    hours = [
        {"from": f"{n // 2:02}:{n % 2 * 30:02}", "to": f"{(n + 1) // 2:02}:{(n + 1) % 2 * 30:02}", "weekdays": days}
        for n in range(48)
    ]
    calendar = content(hours=hours, excludes=excludes)
    trigger = cron("0 12 1 */3 *", zone, calendar="x")
    exclusion.cache_clear()
    seen = []
    for _ in range(3):
        with Steps(CALENDAR_STEPS_MAX) as steps:
            found = next_nominal(trigger, ms("2026-01-01T00:00Z"), calendar=calendar)
        seen.append((found, steps.spent))
    assert found is not None
    assert datetime.fromtimestamp(found // 1000, UTC).date() == date(2028, 1, 1)
    assert seen[0] == seen[1] == seen[2]


def test_a_week_that_was_missed_is_counted_whatever_the_calendar() -> None:
    trigger = cron("15 * * * *", MADRID, calendar="x")
    assert missed(trigger, NOW - 7 * 86_400_000, NOW, keep=5, calendar=NIGHTS).count == 7 * 16
    assert missed(cron("29 * * * *", MADRID, calendar="x"), NOW - 30 * 86_400_000, NOW, keep=5, calendar=HALVES).count


def test_years_are_found_at_once_where_nothing_lies_between() -> None:
    """29 February on a Monday: 28 years, minute by minute."""
    trigger = cron("* * 29 2 *", MADRID)
    with Steps() as steps:
        found = following(trigger, ms("2028-03-01T00:00Z"), 1)
    assert datetime.fromtimestamp(found[0] // 1000, UTC) == datetime(2032, 2, 28, 23, 0, tzinfo=UTC)
    assert steps.total < 50
