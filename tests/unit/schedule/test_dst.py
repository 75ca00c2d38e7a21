"""Both clock changes of zones that do it differently, by hand. Source of the rule: cron(8) of Vixie cron."""

from __future__ import annotations

import pytest

from raftsched.schedule import missed, next_nominal
from tests.support.cron_times import cron, local, ms, within

MADRID, NEW_YORK, LORD_HOWE, KATHMANDU = (
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
)

# (zone, expression, first instant, last instant, local times of the fires)
CASES = [
    # Madrid, 2027-03-28: 02:00 becomes 03:00
    (MADRID, "30 2 * * *", "2027-03-27T12:00Z", "2027-03-29T12:00Z", ["28T03:00+02:00", "29T02:30+02:00"]),
    (MADRID, "0 3 * * *", "2027-03-27T12:00Z", "2027-03-28T12:00Z", ["28T03:00+02:00"]),
    (MADRID, "0,30 2-3 * * *", "2027-03-27T12:00Z", "2027-03-28T12:00Z", ["28T03:00+02:00", "28T03:30+02:00"]),
    (MADRID, "15 2 28 3 *", "2027-01-01T00:00Z", "2027-12-31T00:00Z", ["28T03:00+02:00"]),
    (MADRID, "59 1 * * *", "2027-03-28T00:00Z", "2027-03-28T12:00Z", ["28T01:59+01:00"]),
    (MADRID, "*/30 * * * *", "2027-03-28T00:30Z", "2027-03-28T01:30Z",
     ["28T01:30+01:00", "28T03:00+02:00", "28T03:30+02:00"]),
    (MADRID, "*/30 2 * * *", "2027-03-27T12:00Z", "2027-03-28T12:00Z", []),
    (MADRID, "0 */2 * * *", "2027-03-27T23:00Z", "2027-03-28T04:00Z",
     ["28T00:00+01:00", "28T04:00+02:00", "28T06:00+02:00"]),
    (MADRID, "20 30 2 * * *", "2027-03-27T12:00Z", "2027-03-28T12:00Z", ["28T03:00+02:00"]),
    (MADRID, "*/30 30 2 * * ? *", "2027-03-27T12:00Z", "2027-03-28T12:00Z", ["28T03:00+02:00"]),
    (MADRID, "0 30 2 28 3 ? 2027", "2026-01-01T00:00Z", "2036-01-01T00:00Z", ["28T03:00+02:00"]),
    (MADRID, "@daily", "2027-03-27T12:00Z", "2027-03-29T00:00Z", ["28T00:00+01:00", "29T00:00+02:00"]),
    (MADRID, "@hourly", "2027-03-28T00:00Z", "2027-03-28T02:00Z",
     ["28T01:00+01:00", "28T03:00+02:00", "28T04:00+02:00"]),
    # Madrid, 2026-10-25: 03:00 becomes 02:00
    (MADRID, "30 2 * * *", "2026-10-24T12:00Z", "2026-10-26T12:00Z", ["25T02:30+02:00", "26T02:30+01:00"]),
    (MADRID, "0 3 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z", ["25T03:00+01:00"]),
    (MADRID, "0,20 1-2 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z",
     ["25T01:00+02:00", "25T01:20+02:00", "25T02:00+02:00", "25T02:20+02:00"]),
    (MADRID, "*/30 * * * *", "2026-10-25T00:00Z", "2026-10-25T02:00Z",
     ["25T02:00+02:00", "25T02:30+02:00", "25T02:00+01:00", "25T02:30+01:00", "25T03:00+01:00"]),
    (MADRID, "*/30 2 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z",
     ["25T02:00+02:00", "25T02:30+02:00", "25T02:00+01:00", "25T02:30+01:00"]),
    (MADRID, "30 */2 * * *", "2026-10-24T23:00Z", "2026-10-25T04:00Z",
     ["25T02:30+02:00", "25T02:30+01:00", "25T04:30+01:00"]),
    (MADRID, "*/30 30 2 * * *", "2026-10-24T12:00Z", "2026-10-25T12:00Z", ["25T02:30+02:00", "25T02:30:30+02:00"]),
    # New York, 2027-03-14: 02:00 becomes 03:00; 2026-11-01: 02:00 becomes 01:00
    (NEW_YORK, "5 2 * * *", "2027-03-13T12:00Z", "2027-03-15T12:00Z", ["14T03:00-04:00", "15T02:05-04:00"]),
    (NEW_YORK, "*/20 * * * *", "2027-03-14T06:40Z", "2027-03-14T07:20Z",
     ["14T01:40-05:00", "14T03:00-04:00", "14T03:20-04:00"]),
    (NEW_YORK, "30 1 * * *", "2026-10-31T12:00Z", "2026-11-02T12:00Z", ["01T01:30-04:00", "02T01:30-05:00"]),
    (NEW_YORK, "30 * * * *", "2026-11-01T05:00Z", "2026-11-01T08:00Z",
     ["01T01:30-04:00", "01T01:30-05:00", "01T02:30-05:00"]),
    # Lord Howe, 2026-10-04: 02:00 becomes 02:30; 2027-04-04: 02:00 becomes 01:30
    (LORD_HOWE, "15 2 * * *", "2026-10-03T00:00Z", "2026-10-05T00:00Z", ["04T02:30+11:00", "05T02:15+11:00"]),
    (LORD_HOWE, "45 2 * * *", "2026-10-03T00:00Z", "2026-10-04T00:00Z", ["04T02:45+11:00"]),
    (LORD_HOWE, "*/15 * * * *", "2026-10-03T15:15Z", "2026-10-03T15:45Z",
     ["04T01:45+10:30", "04T02:30+11:00", "04T02:45+11:00"]),
    (LORD_HOWE, "0 * * * *", "2026-10-03T14:00Z", "2026-10-03T16:30Z", ["04T01:00+10:30", "04T03:00+11:00"]),
    (LORD_HOWE, "45 1 * * *", "2027-04-03T00:00Z", "2027-04-05T00:00Z", ["04T01:45+11:00", "05T01:45+10:30"]),
    (LORD_HOWE, "*/15 1 * * *", "2027-04-03T14:00Z", "2027-04-03T15:30Z",
     ["04T01:00+11:00", "04T01:15+11:00", "04T01:30+11:00", "04T01:45+11:00", "04T01:30+10:30", "04T01:45+10:30"]),
    # Kathmandu has no daylight saving time; on 1986-01-01 it went from UTC+5:30 to UTC+5:45
    (KATHMANDU, "30 2 * * *", "2027-03-28T00:00Z", "2027-03-29T00:00Z", ["29T02:30+05:45"]),
    (KATHMANDU, "*/15 * * * *", "2026-10-25T00:00Z", "2026-10-25T00:20Z", ["25T05:45+05:45", "25T06:00+05:45"]),
    (KATHMANDU, "10 0 * * *", "1985-12-31T12:00Z", "1986-01-02T00:00Z", ["01T00:15+05:45", "02T00:10+05:45"]),
    (KATHMANDU, "*/5 0 * * *", "1985-12-31T12:00Z", "1985-12-31T18:40Z",
     ["01T00:15+05:45", "01T00:20+05:45", "01T00:25+05:45"]),
]  # fmt: skip


@pytest.mark.parametrize("zone, expr, low, high, expected", CASES)
def test_by_hand(zone: str, expr: str, low: str, high: str, expected: list[str]) -> None:
    found = within(cron(expr, zone), ms(low), ms(high) + 1)
    assert [_short(local(at, zone)) for at in found] == expected
    assert missed(cron(expr, zone), ms(low) - 1, ms(high), keep=100).times == tuple(found)


def _short(text: str) -> str:
    """2027-03-28T03:00:00+02:00 as 28T03:00+02:00."""
    return text[8:16] + text[19:] if text[16:19] == ":00" else text[8:]


@pytest.mark.parametrize("after", ["2026-10-25T00:30Z", "2026-10-25T01:00Z", "2026-10-25T01:10Z", "2026-10-25T01:59Z"])
def test_asked_from_within_the_overlap(after: str) -> None:
    """The second 02:30 is not a fixed time's, wherever the search begins; an elapsed one's it is."""
    assert next_nominal(cron("30 2 * * *", MADRID), ms(after)) == ms("2026-10-26T02:30+01:00")
    elapsed = next_nominal(cron("*/30 2 * * *", MADRID), ms("2026-10-25T01:10Z"))
    assert elapsed == ms("2026-10-25T02:30+01:00")


def test_a_skipped_day() -> None:
    """Apia left out 2011-12-30: what was fixed for that day runs when the 31st begins, with its own midnight."""
    apia = "Pacific/Apia"
    low, high = ms("2011-12-29T12:00-10:00"), ms("2012-01-01T12:00+14:00")
    assert [_short(local(at, apia)) for at in within(cron("0 0 * * *", apia), low, high)] == [
        "31T00:00+14:00",
        "01T00:00+14:00",
    ]
    assert [_short(local(at, apia)) for at in within(cron("0 9 30 12 *", apia), low, high)] == ["31T00:00+14:00"]


@pytest.mark.parametrize("zone", [MADRID, NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("minute", [0, 1, 29, 30, 59])
@pytest.mark.parametrize("hour", range(5))
def test_a_fixed_daily_time_runs_once_on_each_day(zone: str, minute: int, hour: int) -> None:
    times = within(cron(f"{minute} {hour} * * *", zone), ms("2026-01-01T12:00Z"), ms("2028-01-01T12:00Z"))
    days = [local(at, zone)[:10] for at in times]
    assert len(times) == 730
    assert len(set(days)) == 730
