"""What an expression means, by hand, away from clock changes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from raftsched.schedule import TriggerError, next_nominal
from raftsched.schedule.expression import compiled
from tests.support.cron_times import cron, following, ms

PINNED = [((23,), (15,), (11,), [23], [4]), ((13,), (12,), (3,), [6], [3]), ((42,), (1,), (6,), [5], [6])]
START = ms("2026-09-21T14:13:20Z")  # a Monday


def times(expr: str, count: int = 3, dialect: str = "") -> list[str]:
    found = following(cron(expr, dialect=dialect), START, count)
    return [datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in found]


def days(expr: str, count: int = 4, dialect: str = "") -> list[str]:
    return [text[2:10] for text in times(expr, count, dialect)]


@pytest.mark.parametrize(
    "expr, expected",
    [
        ("* * * * *", ["2026-09-21 14:14:00", "2026-09-21 14:15:00", "2026-09-21 14:16:00"]),
        ("* * * * * *", ["2026-09-21 14:13:21", "2026-09-21 14:13:22", "2026-09-21 14:13:23"]),
        ("*/25 * * * * *", ["2026-09-21 14:13:25", "2026-09-21 14:13:50", "2026-09-21 14:14:00"]),
        ("*/25 * * * *", ["2026-09-21 14:25:00", "2026-09-21 14:50:00", "2026-09-21 15:00:00"]),
        ("5/25 * * * *", ["2026-09-21 14:30:00", "2026-09-21 14:55:00", "2026-09-21 15:05:00"]),
        ("50-10/10 * * * *", ["2026-09-21 14:50:00", "2026-09-21 15:00:00", "2026-09-21 15:10:00"]),
        ("5-5 * * * *", ["2026-09-21 15:05:00", "2026-09-21 16:05:00", "2026-09-21 17:05:00"]),
        ("5-5/10 * * * *", ["2026-09-21 15:05:00", "2026-09-21 16:05:00", "2026-09-21 17:05:00"]),
        ("*/90 * * * *", ["2026-09-21 15:00:00", "2026-09-21 16:00:00", "2026-09-21 17:00:00"]),
        ("0 22-1 * * *", ["2026-09-21 22:00:00", "2026-09-21 23:00:00", "2026-09-22 00:00:00"]),
        ("00 06 * * *", ["2026-09-22 06:00:00", "2026-09-23 06:00:00", "2026-09-24 06:00:00"]),
        ("13 14 * * *", ["2026-09-22 14:13:00", "2026-09-23 14:13:00", "2026-09-24 14:13:00"]),
        ("20 13 14 * * *", ["2026-09-22 14:13:20", "2026-09-23 14:13:20", "2026-09-24 14:13:20"]),
        ("0 0 7 1/1 * ? *", ["2026-09-22 07:00:00", "2026-09-23 07:00:00", "2026-09-24 07:00:00"]),
        ("0 0 12 1 1 ? 2030-2032/2", ["2030-01-01 12:00:00", "2032-01-01 12:00:00"]),
        ("@hourly", ["2026-09-21 15:00:00", "2026-09-21 16:00:00", "2026-09-21 17:00:00"]),
        ("@DAILY", ["2026-09-22 00:00:00", "2026-09-23 00:00:00", "2026-09-24 00:00:00"]),
        ("@midnight", ["2026-09-22 00:00:00", "2026-09-23 00:00:00", "2026-09-24 00:00:00"]),
        ("@weekly", ["2026-09-27 00:00:00", "2026-10-04 00:00:00", "2026-10-11 00:00:00"]),
        ("@monthly", ["2026-10-01 00:00:00", "2026-11-01 00:00:00", "2026-12-01 00:00:00"]),
        ("@yearly", ["2027-01-01 00:00:00", "2028-01-01 00:00:00", "2029-01-01 00:00:00"]),
        ("@annually", ["2027-01-01 00:00:00", "2028-01-01 00:00:00", "2029-01-01 00:00:00"]),
        ("  0\t0  1 jan  * ", ["2027-01-01 00:00:00", "2028-01-01 00:00:00", "2029-01-01 00:00:00"]),
    ],
)
def test_times(expr: str, expected: list[str]) -> None:
    assert times(expr, 3) == expected


@pytest.mark.parametrize(
    "expr, expected",
    [
        # neither day field starts with *: either will do
        ("0 0 13 * FRI", ["26-09-25", "26-10-02", "26-10-09", "26-10-13"]),
        ("0 0 1,15 * 1", ["26-09-28", "26-10-01", "26-10-05", "26-10-12"]),
        ("0 0 1-31 * MON", ["26-09-22", "26-09-23", "26-09-24", "26-09-25"]),
        ("0 0 L * MON#1", ["26-09-30", "26-10-05", "26-10-31", "26-11-02"]),
        # one of them starts with *: both must match
        ("0 0 */10 * MON", ["26-12-21", "27-01-11", "27-02-01", "27-03-01"]),
        ("0 0 *,13 * FRI", ["26-09-25", "26-10-02", "26-10-09", "26-10-16"]),
        ("0 0 13 * */5", ["26-11-13", "26-12-13", "27-06-13", "27-08-13"]),
        ("0 0 ? * FRI", ["26-09-25", "26-10-02", "26-10-09", "26-10-16"]),
        # weekdays
        ("0 0 * * 0", ["26-09-27", "26-10-04", "26-10-11", "26-10-18"]),
        ("0 0 * * 7", ["26-09-27", "26-10-04", "26-10-11", "26-10-18"]),
        ("0 0 * * MON-FRI", ["26-09-22", "26-09-23", "26-09-24", "26-09-25"]),
        ("0 0 * * 5-7", ["26-09-25", "26-09-26", "26-09-27", "26-10-02"]),
        ("0 0 * * FRI-MON", ["26-09-25", "26-09-26", "26-09-27", "26-09-28"]),
        ("0 0 * * 5-1", ["26-09-25", "26-09-26", "26-09-27", "26-09-28"]),
        ("0 0 * * 7-2", ["26-09-22", "26-09-27", "26-09-28", "26-09-29"]),
        ("0 0 * * SAT-SUN", ["26-09-26", "26-09-27", "26-10-03", "26-10-04"]),
        ("0 0 * * FRI-MON/2", ["26-09-25", "26-09-27", "26-10-02", "26-10-04"]),
        ("0 0 * * 5L", ["26-09-25", "26-10-30", "26-11-27", "26-12-25"]),
        ("0 0 * * L5", ["26-09-25", "26-10-30", "26-11-27", "26-12-25"]),
        ("0 0 * * friL", ["26-09-25", "26-10-30", "26-11-27", "26-12-25"]),
        ("0 0 * * MON#2", ["26-10-12", "26-11-09", "26-12-14", "27-01-11"]),
        ("0 0 * * 1#5", ["26-11-30", "27-03-29", "27-05-31", "27-08-30"]),
        ("0 0 * * 0#1,3L", ["26-09-30", "26-10-04", "26-10-28", "26-11-01"]),
        # days of the month
        ("0 0 31 * *", ["26-10-31", "26-12-31", "27-01-31", "27-03-31"]),
        ("0 0 L * *", ["26-09-30", "26-10-31", "26-11-30", "26-12-31"]),
        ("0 0 L 2 *", ["27-02-28", "28-02-29", "29-02-28", "30-02-28"]),
        ("0 0 L-2,1 * *", ["26-09-28", "26-10-01", "26-10-29", "26-11-01"]),
        ("0 0 LW * *", ["26-09-30", "26-10-30", "26-11-30", "26-12-31"]),
        ("0 0 WL * *", ["26-09-30", "26-10-30", "26-11-30", "26-12-31"]),
        ("0 0 1W * *", ["26-10-01", "26-11-02", "26-12-01", "27-01-01"]),  # 1 November is a Sunday
        ("0 0 1W MAY *", ["27-05-03", "28-05-01", "29-05-01", "30-05-01"]),  # 1 May 2027 is a Saturday
        ("0 0 15W * *", ["26-10-15", "26-11-16", "26-12-15", "27-01-15"]),
        ("0 0 31W * *", ["26-10-30", "26-12-31", "27-01-29", "27-03-31"]),
        ("0 0 29 2 *", ["28-02-29", "32-02-29", "36-02-29", "40-02-29"]),
        ("0 0 1 NOV-FEB *", ["26-11-01", "26-12-01", "27-01-01", "27-02-01"]),
    ],
)
def test_days(expr: str, expected: list[str]) -> None:
    assert days(expr) == expected


def test_quartz_dialect() -> None:
    assert days("0 0 12 ? * 2", dialect="quartz") == [
        "26-09-28",
        "26-10-05",
        "26-10-12",
        "26-10-19",
    ]  # Monday
    assert days("0 0 12 ? * 2-6 *", 2, dialect="quartz") == ["26-09-22", "26-09-23"]
    assert days("0 0 12 ? * 6#3", 2, dialect="quartz") == ["26-10-16", "26-11-20"]
    assert days("0 0 12 ? * 6L", 2, dialect="quartz") == ["26-09-25", "26-10-30"]
    assert days("0 0 12 ? * L", 2, dialect="quartz") == ["26-09-26", "26-10-03"]  # every Saturday
    assert days("0 0 12 ? * MON", dialect="quartz") == days("0 0 12 ? * MON")
    assert days("@weekly", dialect="quartz") == days("@weekly")
    with pytest.raises(TriggerError, match="1 is Sunday"):
        compiled("0 0 12 ? * 0", "quartz")


def test_monday_the_29th_of_february() -> None:
    """Up to 40 years apart: 2088 to 2128, but the calendar ends before."""
    found = following(cron("0 0 */28 2 1"), ms("2040-03-01T00:00Z"), 20)
    leap = [at for at in found if datetime.fromtimestamp(at / 1000, UTC).day == 29]
    assert [datetime.fromtimestamp(at / 1000, UTC).year for at in leap] == [2044, 2072]
    assert next_nominal(cron("0 0 */28 2 1"), ms("2094-01-01T00:00Z")) == ms("2094-03-01T00:00Z") - 28 * 86_400_000
    assert following(cron("0 0 * 2 1#5"), START, 3) == [ms("2044-02-29T00:00Z"), ms("2072-02-29T00:00Z")]


def test_years_end() -> None:
    trigger = cron("0 0 0 29 2 ? 2020-2030")
    assert following(trigger, START, 5) == [ms("2028-02-29T00:00Z")]
    assert next_nominal(cron("* * * * *"), ms("2099-12-31T23:59:00Z")) is None
    assert next_nominal(cron("* * * * *"), ms("2099-12-31T23:58:00Z")) == ms("2099-12-31T23:59:00Z")
    assert next_nominal(cron("* * * * *"), 2**62) is None
    assert next_nominal(cron("* * * * *"), -(2**62)) == 0


class TestHash:
    def test_same_job_same_time(self) -> None:
        trigger = cron("H H * * *")
        for job in (1, 77, 2**62):
            first = following(trigger, START, 3, hash_id=job)
            assert first == following(trigger, START, 3, hash_id=job)
            assert first[1] - first[0] == first[2] - first[1] == 86_400_000

    def test_pinned(self) -> None:
        """A change of the hash would move every stored job: these values are forever."""
        values = []
        for job in (1, 2, 3):
            t = compiled("H H H H H", "", job).times
            values.append((t.minutes, t.hours, t.months, sorted(t.days.day.values), sorted(t.days.weekday.values)))
        assert values == PINNED

    def test_spreads(self) -> None:
        minutes = [compiled("H * * * *", "", job).times.minutes[0] for job in range(1, 601)]
        assert set(minutes) == set(range(60))
        assert max(minutes.count(m) for m in range(60)) < 30

    def test_ranges_and_steps(self) -> None:
        for job in range(1, 200):
            times = compiled("H(10-20) H(0-7)/3 H H(6-8) H(MON-FRI)", "", job).times
            assert 10 <= times.minutes[0] <= 20
            assert times.hours in ((0, 3, 6), (1, 4, 7), (2, 5))
            assert times.days.day.values <= set(range(1, 29))
            assert times.days.weekday.values <= {1, 2, 3, 4, 5}
            quarters = compiled("H/15 * * * *", "", job).times.minutes
            assert len(quarters) == 4
            assert quarters[0] < 15
            assert 0 <= compiled("H/90 * * * *", "", job).times.minutes[0] < 60

    def test_only_where_there_is_an_h(self) -> None:
        """THU and MARCH-like names hold letters that mean something elsewhere."""
        assert not compiled("0 0 * MAR THU").hashed
        assert compiled("0 0 * MAR THU", "", 1) is compiled("0 0 * MAR THU", "", 2)
