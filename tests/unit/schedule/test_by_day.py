"""Times counted by day: against the times themselves, in zones whose days are odd, and with calendars."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec.structs import replace

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import DueDay, TriggerError, due_days, next_nominal
from tests.support.cron_times import cron, ms

HOUR_MS = 3_600_000
HOLIDAYS = msgspec.json.encode({"weekdays": ["sat", "sun"], "dates": ["2027-03-30"]})


def walked(trigger: Trigger, from_ms: int, to_ms: int, zone: str, calendar: bytes | None = None) -> Counter[str]:
    """The same by walking from one time to the next."""
    found: Counter[str] = Counter()
    at = next_nominal(trigger, from_ms - 1, calendar=calendar)
    while at is not None and at < to_ms:
        found[datetime.fromtimestamp(at / 1000, UTC).astimezone(ZoneInfo(zone)).date().isoformat()] += 1
        at = next_nominal(trigger, at, calendar=calendar)
    return found


@pytest.mark.parametrize(
    ("expr", "zone", "viewer", "start", "end"),
    [
        ("*/30 * * * *", "Europe/Madrid", "Europe/Madrid", "2027-03-26T23:00Z", "2027-03-30T00:00Z"),
        ("*/30 * * * *", "Europe/Madrid", "Europe/Madrid", "2027-10-29T13:17Z", "2027-11-02T00:00Z"),
        ("30 2 * * *", "Europe/Madrid", "Asia/Kolkata", "2027-03-20T00:00Z", "2027-04-02T00:00Z"),
        ("15 * * * *", "UTC", "America/Sao_Paulo", "2018-11-02T00:00Z", "2018-11-06T00:00Z"),
        ("0 */3 * * *", "UTC", "Australia/Lord_Howe", "2027-04-01T00:00Z", "2027-04-06T00:00Z"),
        ("0 12 * * *", "UTC", "Pacific/Apia", "2011-12-27T00:00Z", "2012-01-03T00:00Z"),
    ],
)
def test_counted_as_walked(expr: str, zone: str, viewer: str, start: str, end: str) -> None:
    trigger = cron(expr, zone)
    days = list(due_days(trigger, ms(start), ms(end), viewer))
    assert {day.date: day.due for day in days} == dict(walked(trigger, ms(start), ms(end), viewer))
    assert [day.date for day in days] == sorted(day.date for day in days)
    assert not any(day.left_out for day in days)


def test_a_calendar_leaves_out_and_that_is_counted_apart() -> None:
    trigger = replace(cron("0 9,18 * * *", "Europe/Madrid"), calendar="holidays")
    start, end = ms("2027-03-26T00:00Z"), ms("2027-04-01T00:00Z")
    days = list(due_days(trigger, start, end, "Europe/Madrid", calendar=HOLIDAYS))
    assert {day.date: day.due for day in days if day.due} == walked(trigger, start, end, "Europe/Madrid", HOLIDAYS)
    assert [day.date for day in days if day.left_out == 2] == ["2027-03-27", "2027-03-28", "2027-03-30"]


def test_the_edges_are_from_and_before_to() -> None:
    trigger = cron("0 * * * *", "UTC")
    start = ms("2027-01-01T00:00Z")
    assert list(due_days(trigger, start, start, "UTC")) == []
    assert list(due_days(trigger, start, start + HOUR_MS, "UTC")) == [DueDay("2027-01-01", 1, 0)]
    assert list(due_days(trigger, start + 1, start + HOUR_MS, "UTC")) == []


def test_no_more_than_there_are() -> None:
    trigger = Trigger(kind=TriggerKind.EVERY, period_ms=HOUR_MS)
    start = ms("2027-01-01T00:00Z")
    days = list(due_days(trigger, start, start + 100 * HOUR_MS, "UTC", anchor_ms=start, most=30))
    assert days == [DueDay("2027-01-01", 24, 0), DueDay("2027-01-02", 6, 0)]


def test_a_zone_that_is_none_is_refused() -> None:
    with pytest.raises(TriggerError, match="Europe/Madrit"):
        list(due_days(cron("0 * * * *", "UTC"), 0, HOUR_MS, "Europe/Madrit"))
