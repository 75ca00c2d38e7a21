"""A local time that is written down becomes an instant by one rule, that of fixed times of cron."""

from __future__ import annotations

from datetime import datetime

import pytest

from raftsched.schedule import TriggerError, next_nominal
from raftsched.schedule.local_days import local_ms
from tests.support.cron_times import cron, ms

MADRID = "Europe/Madrid"


@pytest.mark.parametrize(
    ("local", "zone", "first", "last"),
    [
        ("2027-01-31T09:00:00", MADRID, "2027-01-31T08:00:00Z", "2027-01-31T08:00:00Z"),
        ("2027-01-31T09:00:00.250", MADRID, "2027-01-31T08:00:00.250Z", "2027-01-31T08:00:00.250Z"),
        ("2027-03-28T02:30:00", MADRID, "2027-03-28T01:00:00Z", "2027-03-28T01:00:00Z"),
        ("2027-03-28T02:30:00.250", MADRID, "2027-03-28T01:00:00Z", "2027-03-28T01:00:00Z"),
        ("2027-10-31T02:30:00", MADRID, "2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"),
        ("2011-12-30T12:00:00", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"),
        ("2027-10-03T02:15:00", "Australia/Lord_Howe", "2027-10-02T15:30:00Z", "2027-10-02T15:30:00Z"),
    ],
)
def test_local_times(local: str, zone: str, first: str, last: str) -> None:
    at = datetime.fromisoformat(local)
    assert (local_ms(at, zone), local_ms(at, zone, last=True)) == (ms(first), ms(last))


@pytest.mark.parametrize("zone", [MADRID, "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Cairo", "Asia/Beirut"])
def test_it_is_when_cron_is_due(zone: str) -> None:
    for month, day in ((1, 31), (3, 14), (3, 28), (4, 26), (10, 3), (10, 31), (11, 1)):
        for hour in (0, 1, 2, 3):
            at = datetime(2026, month, day, hour, 15)
            expression = f"0 15 {hour} {day} {month} * 2026"
            due = next_nominal(cron(expression, zone), ms("2025-12-01T00:00:00Z"))
            assert local_ms(at, zone) == due, (at, zone)


def test_no_such_zone() -> None:
    with pytest.raises(TriggerError, match="no time zone"):
        local_ms(datetime(2027, 1, 1), "Mars/Olympus")
