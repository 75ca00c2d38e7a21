"""Calendars: which days they exclude, and what is left of a trigger's times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import (
    Missed,
    TriggerError,
    describe,
    is_excluded,
    missed,
    never_fires,
    next_nominal,
    preview,
)
from raftsched.schedule.exclusions import exclusion, parse_date, parse_month_day
from tests.support.amounts import examples
from tests.support.cron_times import cron, following, local, ms, rrule, within

MADRID = "Europe/Madrid"
DAY = 86_400_000


def content(**given: Any) -> bytes:
    return msgspec.json.encode(given)


HOLIDAYS = content(
    dates=["2026-12-24"],
    yearly=["12-25", "02-29"],
    ranges=[{"from": "2026-12-28", "to": "2027-01-01"}, {"from": "2026-12-30", "to": "2027-01-03"}],
    weekdays=["sat", "sun"],
)


def days(trigger: Trigger, after: str, count: int, calendar: bytes = HOLIDAYS, **more: Any) -> list[str]:
    return [local(at, MADRID)[:10] for at in following(trigger, ms(after), count, calendar=calendar, **more)]


def test_each_kind_of_day() -> None:
    daily = cron("0 9 * * *", MADRID, calendar="holidays")
    assert days(daily, "2026-12-22T00:00Z", 5) == [
        "2026-12-22",
        "2026-12-23",
        "2027-01-04",
        "2027-01-05",
        "2027-01-06",
    ]
    assert days(daily, "2027-12-23T00:00Z", 3) == ["2027-12-23", "2027-12-24", "2027-12-27"]
    assert days(daily, "2028-02-27T12:00Z", 2) == ["2028-02-28", "2028-03-01"]


@pytest.mark.parametrize(
    "trigger",
    [
        rrule("FREQ=DAILY;BYHOUR=9", MADRID, calendar="holidays"),
        Trigger(kind=TriggerKind.EVERY, period_ms=DAY, calendar="holidays", starts_at_ms=ms("2026-01-01T08:00Z")),
    ],
)
def test_rules_and_intervals_too(trigger: Trigger) -> None:
    found = days(trigger, "2026-12-22T00:00Z", 3, anchor_ms=ms("2026-01-01T08:00Z"))
    assert found == ["2026-12-22", "2026-12-23", "2027-01-04"]


def test_days_are_those_of_the_calendars_zone_else_of_the_trigger() -> None:
    hourly = cron("0 * * * *", "Asia/Tokyo", calendar="x")
    christmas = {"dates": ["2026-12-25"]}
    after = ms("2026-12-24T14:30Z")
    assert next_nominal(hourly, after, calendar=content(**christmas)) == ms("2026-12-26T00:00+09:00")
    there = content(timezone="America/New_York", **christmas)
    assert next_nominal(hourly, after, calendar=there) == ms("2026-12-24T15:00Z")
    assert next_nominal(hourly, ms("2026-12-25T04:30Z"), calendar=there) == ms("2026-12-26T00:00-05:00")
    every = Trigger(kind=TriggerKind.EVERY, period_ms=3_600_000, calendar="x")
    assert next_nominal(every, ms("2026-12-24T23:30Z"), calendar=content(**christmas)) == ms("2026-12-26T00:00Z")


def test_all_is_excluded() -> None:
    weekly = cron("0 9 * * SAT", MADRID, calendar="x")
    never = content(weekdays=["sat"])
    assert next_nominal(weekly, ms("2026-12-22T00:00Z"), calendar=never) is None
    assert never_fires(weekly, ms("2026-12-22T00:00Z"))
    everything = content(weekdays=["mon", "tue", "wed", "thu", "fri", "sat", "sun"])
    assert next_nominal(cron("* * * * * *", calendar="x"), ms("2026-12-22T00:00Z"), calendar=everything) is None
    over = cron("0 9 * * SAT", MADRID, calendar="x", ends_at_ms=ms("2026-12-20T00:00Z"))
    assert not never_fires(over, ms("2026-12-22T00:00Z"))
    assert not never_fires(cron("0 9 * * *"), 0)


def test_what_was_missed_is_counted_without_what_is_excluded() -> None:
    minutely = cron("* * * * *", MADRID, calendar="x")
    low, high = ms("2026-12-23T22:58Z"), ms("2027-01-03T23:02Z")
    found = missed(minutely, low, high, keep=4, calendar=HOLIDAYS)
    assert found.count == 4  # 22:59, 23:00 is midnight in Madrid; and 23:00, 23:01, 23:02 after
    assert [local(at, MADRID) for at in found.times] == [
        "2026-12-23T23:59:00+01:00",
        "2027-01-04T00:00:00+01:00",
        "2027-01-04T00:01:00+01:00",
        "2027-01-04T00:02:00+01:00",
    ]
    assert missed(minutely, low, high, keep=2, calendar=HOLIDAYS).times == found.times[-2:]
    assert missed(minutely, low, high, keep=0, calendar=HOLIDAYS) == Missed((), 4, found.until_ms)


def test_a_preview_says_what_is_left_out() -> None:
    daily = cron("0 9 * * *", MADRID, calendar="holidays")
    shown = preview(daily, ms("2026-12-23T00:00Z"), 3, calendar=HOLIDAYS)
    assert [o.note for o in shown] == [
        None,
        "holidays: left out before this: 2026-12-24 to 2027-01-03 (11 times)",
        None,
    ]
    twice = cron("0 9,10 * * *", MADRID, calendar="x")
    notes = [o.note for o in preview(twice, ms("2026-12-24T12:00Z"), 1, calendar=content(dates=["2026-12-25"]))]
    assert notes == ["x: left out before this: 2026-12-25 (2 times)"]
    assert (
        describe(daily)
        == "at 09:00 every day, Europe/Madrid time, but not in the time that the calendar holidays excludes"
    )


def test_a_note_about_clocks_stands_beside_it() -> None:
    nightly = cron("30 2 * * *", MADRID, calendar="x")
    shown = preview(nightly, ms("2027-03-26T12:00Z"), 1, calendar=content(dates=["2027-03-27"]))
    assert [o.note for o in shown] == [
        "x: left out before this: 2027-03-27; DST: 02:30 does not exist on this day; runs at 03:00"
    ]


def test_one_that_is_not_given_or_cannot_be_read() -> None:
    trigger = cron("0 9 * * *", calendar="holidays")
    for bad in (None, b"[", b'{"dates":["never"]}', b'{"weekdays":["mo"]}', b'{"timezone":"Mars/Olympus"}'):
        with pytest.raises(TriggerError):
            next_nominal(trigger, 0, calendar=bad)
    with pytest.raises(TriggerError):
        missed(trigger, 0, 1, keep=1)


def test_dates_are_read_strictly() -> None:
    assert parse_date("1970-01-02") == 1
    assert parse_month_day("02-29") == (2, 29)
    for text in (
        "2026-2-3",
        "2026-02-30",
        "26-02-03",
        "1969-12-31",
        "2100-01-01",
        "2026-02-03T00:00",
        "٢٠٢٦-٠٢-٠٣",
        "",
    ):
        with pytest.raises(ValueError, match="must be"):
            parse_date(text)
    for text in ("2-29", "02-30", "13-01", "00-10", "0229", ""):
        with pytest.raises(ValueError, match="must be"):
            parse_month_day(text)


ZONES = ["UTC", MADRID, "Australia/Lord_Howe", "America/St_Johns", "Asia/Beirut", "America/Havana"]
START = datetime(2010, 10, 20, tzinfo=UTC)  # St John's set its clocks at one past midnight then


@settings(max_examples=examples(300), deadline=None, print_blob=True)
@given(
    data=st.data(), zone=st.sampled_from(ZONES), begin=st.integers(0, 40 * 86_400), length=st.integers(1, 6 * 86_400)
)
def test_minute_by_minute(data: st.DataObject, zone: str, begin: int, length: int) -> None:
    """Against looking at each minute."""
    dates = data.draw(st.sets(st.integers(0, 50)))
    names = [(START + timedelta(days=n)).date().isoformat() for n in dates]
    given = content(timezone=zone, dates=names, weekdays=data.draw(st.sampled_from([[], ["sun"], ["mon", "tue"]])))
    low = round(START.timestamp()) + begin
    high = low + length
    place = ZoneInfo(zone)
    held = exclusion(given, "UTC")

    def free(at: int) -> bool:
        day = datetime.fromtimestamp(at, place).date()
        return day.isoformat() not in names and day.strftime("%a").lower() not in msgspec.json.decode(given)["weekdays"]

    stretches = list(held.stretches(low, high))
    for at in range(low, high, 60):
        inside = any(a <= at < b for a, b in stretches)
        assert inside == free(at) == (not held.holds(at)), at
    for a, b in stretches:
        assert free(a)
        assert free(b - 1)
        assert low <= a < b <= high
    first = held.free_from(low)
    assert first is None or (free(first) and (first == low or not free(first - 1)))
    trigger = cron("*/7 * * * *", zone, calendar="x")
    walked = [at for at in within(cron("*/7 * * * *", zone), low * 1000, high * 1000) if free(at // 1000)]
    assert within(trigger, low * 1000, high * 1000, calendar=given) == walked
    found = missed(trigger, low * 1000 - 1, high * 1000 - 1, keep=3, calendar=given)
    assert (found.count, found.times) == (len(walked), tuple(walked[-3:]))
    assert all(not is_excluded(trigger, at, given) for at in walked)


def test_an_hour_that_is_shown_again_is_that_of_the_day_before() -> None:
    """At 00:01 on 2010-11-07 clocks in St John's went back to 23:01, out of the day that is excluded."""
    held = exclusion(content(timezone="America/St_Johns", dates=["2010-11-07"]), "UTC")
    midnight = ms("2010-11-07T02:30Z") // 1000
    low, high = midnight - 120, midnight + 7200
    assert list(held.stretches(low, high)) == [(low, midnight), (midnight + 60, midnight + 60 + 3540)]
    assert held.free_from(midnight) == midnight + 60
