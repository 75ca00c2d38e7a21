"""Recurrence rules: what they mean, in words and times, and what is refused. See also tests/property."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from raftsched.schedule import TriggerError, describe, missed, next_nominal, preview, validate
from raftsched.schedule.rule_text import parse_rule
from raftsched.schedule.rule_times import RuleTimes
from tests.support.cron_times import following, local, ms, rrule, within

NOW = ms("2026-11-22T06:00:05.123Z")
MADRID = "Europe/Madrid"


def madrid(rule: str, count: int = 3, **more: object) -> list[str]:
    return [local(at, MADRID) for at in following(rrule(rule, MADRID, **more), NOW, count, anchor_ms=NOW)]


def test_the_last_friday_of_the_month() -> None:
    assert madrid("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0") == [
        "2026-11-27T17:00:00+01:00",
        "2026-12-25T17:00:00+01:00",
        "2027-01-29T17:00:00+01:00",
    ]


def test_days_with_and_without_a_number_go_together() -> None:
    """The first Monday, and every Friday."""
    times = madrid("FREQ=MONTHLY;BYDAY=1MO,FR;BYHOUR=9", 6)
    assert [t[:10] for t in times] == [
        *("2026-11-27", "2026-12-04", "2026-12-07", "2026-12-11", "2026-12-18", "2026-12-25"),
    ]


@pytest.mark.parametrize(
    "rule, first",
    [
        ("FREQ=DAILY", "2026-11-23T07:00:05+01:00"),  # what is left open is that of the creation, to the second
        ("FREQ=DAILY;BYHOUR=17", "2026-11-22T17:00:00+01:00"),  # but nobody means 17:00:05
        ("FREQ=DAILY;BYMINUTE=30", "2026-11-22T07:30:00+01:00"),
        ("FREQ=DAILY;BYSECOND=7", "2026-11-22T07:00:07+01:00"),
        ("FREQ=HOURLY;INTERVAL=5", "2026-11-22T12:00:05+01:00"),
        ("RRULE:freq=hourly;interval=5;", "2026-11-22T12:00:05+01:00"),
    ],
)
def test_what_is_left_open(rule: str, first: str) -> None:
    assert madrid(rule, 1) == [first]


def test_a_start_is_taken_to_the_second() -> None:
    start = ms("2027-01-05T09:10:11.500+01:00")
    assert madrid("FREQ=WEEKLY;BYHOUR=9", starts_at_ms=start)[0] == "2027-01-05T09:10:11+01:00"
    assert madrid("FREQ=WEEKLY;INTERVAL=2", 2, starts_at_ms=start) == [
        "2027-01-05T09:10:11+01:00",
        "2027-01-19T09:10:11+01:00",
    ]


def test_the_distance_from_the_start_is_kept() -> None:
    """However long ago that was."""
    start = ms("1996-02-29T12:00:00+01:00")
    soon = date.fromisoformat(madrid("FREQ=DAILY;INTERVAL=10", 1, starts_at_ms=start)[0][:10])
    assert (soon - date(1996, 2, 29)).days % 10 == 0
    assert date(2026, 11, 22) <= soon < date(2026, 12, 2)
    assert madrid("FREQ=YEARLY;INTERVAL=4", 2, starts_at_ms=start) == [
        "2028-02-29T12:00:00+01:00",
        "2032-02-29T12:00:00+01:00",
    ]


def test_an_end_by_count_is_counted_from_the_start() -> None:
    assert [at[:10] for at in madrid("FREQ=DAILY;COUNT=3", 9)] == ["2026-11-23", "2026-11-24", "2026-11-25"]
    start = ms("2026-11-20T08:00:00+01:00")
    assert madrid("FREQ=DAILY;COUNT=4", 9, starts_at_ms=start) == [
        "2026-11-22T08:00:00+01:00",
        "2026-11-23T08:00:00+01:00",
    ]


@pytest.mark.parametrize(
    "until, last",
    [
        ("20261124", "2026-11-24T23:30:00+01:00"),  # that day too
        ("20261124T233000", "2026-11-24T23:30:00+01:00"),
        ("20261124T232959", "2026-11-23T23:30:00+01:00"),
        ("20261124T223000Z", "2026-11-24T23:30:00+01:00"),
        ("20261124T222959Z", "2026-11-23T23:30:00+01:00"),
    ],
)
def test_an_end_by_time(until: str, last: str) -> None:
    assert madrid(f"FREQ=DAILY;BYHOUR=23;BYMINUTE=30;UNTIL={until}", 9)[-1] == last


def test_notes_where_clocks_change() -> None:
    nightly = rrule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", MADRID)
    spring = preview(nightly, ms("2027-03-27T12:00Z"), 2, anchor_ms=NOW)
    assert [(local(o.at_ms, MADRID), o.note) for o in spring] == [
        ("2027-03-28T03:00:00+02:00", "DST: 02:30 does not exist on this day; runs at 03:00"),
        ("2027-03-29T02:30:00+02:00", None),
    ]
    autumn = preview(nightly, ms("2027-10-30T12:00Z"), 2, anchor_ms=NOW)
    assert [(local(o.at_ms, MADRID), o.note) for o in autumn] == [
        ("2027-10-31T02:30:00+02:00", "DST: 02:30 happens twice on this day; runs once, the first time"),
        ("2027-11-01T02:30:00+01:00", None),
    ]
    hourly = preview(rrule("FREQ=HOURLY;BYMINUTE=30", MADRID), ms("2027-10-31T00:00Z"), 2, anchor_ms=NOW)
    assert [o.note for o in hourly] == [
        "DST: 02:30 happens twice on this day; this is the first time",
        "DST: 02:30 happens twice on this day; this is the second time",
    ]


@pytest.mark.parametrize(
    "start, until, times",
    [
        ("2027-10-31T00:00:00Z", "023000", ["02:00:00+02:00", "02:15:00+02:00", "02:30:00+02:00"]),
        ("2027-10-31T00:30:00Z", "025959", ["02:30:00+02:00", "02:45:00+02:00"]),
        ("2027-10-31T01:15:00Z", "023000", ["02:15:00+01:00", "02:30:00+01:00"]),  # it starts in the second pass
        ("2027-10-31T01:30:00Z", "030000", ["02:30:00+01:00", "02:45:00+01:00", "03:00:00+01:00"]),
    ],
)
def test_a_local_end_in_the_hour_that_comes_twice(start: str, until: str, times: list[str]) -> None:
    """It is one instant, whoever asks: for the next time, from within the second pass too, and for what was missed."""
    trigger = rrule(f"FREQ=MINUTELY;INTERVAL=15;UNTIL=20271031T{until}", MADRID, starts_at_ms=ms(start))
    found = following(trigger, ms(start) - 1, 9)
    assert [local(at, MADRID)[11:] for at in found] == times
    after = missed(trigger, ms(start) - 1, ms("2027-10-31T06:00Z"), keep=9)
    assert (list(after.times), after.count) == (found, len(found))
    assert next_nominal(trigger, found[-1] + 1_800_000) is None


@pytest.mark.parametrize(
    "rule, detail",
    [
        ("", "the rule is empty"),
        ("FREQ=DAILY;" + "X" * 600, "at most 512"),
        ("FREQ=DAILY;é=1", "ASCII"),
        ("INTERVAL=2", "FREQ is missing"),
        ("FREQ=FORTNIGHTLY", "use one of YEARLY"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=DAILY;BYEASTER=1", "known are"),
        ("FREQ=DAILY;INTERVAL=0", "from 1 to"),
        ("FREQ=DAILY;INTERVAL=-1", "from 1 to"),
        ("FREQ=DAILY;INTERVAL=0.5", "from 1 to"),
        ("FREQ=DAILY;BYSECOND=60", "no leap seconds"),
        ("FREQ=DAILY;BYHOUR=24", "0 to 23"),
        ("FREQ=DAILY;BYHOUR=1,,2", "0 to 23"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20300101", "one of them"),
        ("FREQ=DAILY;UNTIL=tomorrow", "20301231T235959Z"),
        ("FREQ=DAILY;UNTIL=20300230", "20301231T235959Z"),
        ("FREQ=DAILY;BYDAY=2MO", "MONTHLY and YEARLY"),
        ("FREQ=MONTHLY;BYDAY=6MO", "1 to 5"),
        ("FREQ=MONTHLY;BYDAY=0MO", "the second"),
        ("FREQ=MONTHLY;BYDAY=MOO", "2MO"),
        ("FREQ=MONTHLY;BYWEEKNO=3;BYDAY=MO", "YEARLY"),
        ("FREQ=YEARLY;BYWEEKNO=3", "BYDAY"),
        ("FREQ=DAILY;BYYEARDAY=3", "YEARLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=3", "MONTHLY"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS chooses"),
        ("FREQ=DAILY;WKST=XX", "MO, TU"),
        ("FREQ=DAILY;RSCALE=GREGORIAN", "7529"),
        ("DTSTART:20260101T000000\nRRULE:FREQ=DAILY", "starts_at"),
        (
            "FREQ=DAILY;BYMINUTE="
            + ",".join(map(str, range(60)))
            + ";BYHOUR="
            + ",".join(map(str, range(24)))
            + ";BYSECOND=0,1",
            "at most 1,440",
        ),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=MO", "INTERVAL steps over"),  # from a Sunday on
        ("FREQ=SECONDLY;BYSETPOS=2;BYHOUR=1", "never fires"),
        ("FREQ=SECONDLY;INTERVAL=60;BYSECOND=7", "never fires"),
        ("FREQ=SECONDLY;INTERVAL=1202;BYSECOND=2;BYHOUR=3", "never fires"),  # from an odd second on, in even steps
        ("FREQ=MINUTELY;INTERVAL=1000000;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        ("FREQ=DAILY;UNTIL=20251231", "UNTIL comes before"),
    ],
)
def test_what_is_refused(rule: str, detail: str) -> None:
    with pytest.raises(TriggerError, match=detail) as error:
        validate(rrule(rule, MADRID), now_ms=NOW)
    assert error.value.pointer == "/trigger/rrule"


def test_bounds_that_leave_nothing() -> None:
    with pytest.raises(TriggerError, match="the next time after the start is 2026-11-23T06:00:05Z") as error:
        validate(rrule("FREQ=DAILY", MADRID, ends_at_ms=NOW + 60_000), now_ms=NOW)
    assert error.value.pointer == "/trigger/ends_at"
    with pytest.raises(TriggerError, match="is past") as error:
        validate(rrule("FREQ=DAILY", ends_at_ms=NOW), now_ms=NOW)
    assert error.value.pointer == "/trigger/ends_at"


@pytest.mark.parametrize(
    "rule, words",
    [
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0", "every month on the last Friday at 17:00"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU,WE,FR;BYHOUR=9,18",
         "every 2 weeks on Monday to Wednesday and Friday at 09:00 and 18:00"),
        ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;BYHOUR=8", "every year on the fourth Thursday in November at 08:00"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,15,-1;BYHOUR=0", "every month on days 1 and 15 and the last day at 00:00"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=9",
         "every month on Monday to Friday at 09:00, only the last of these in each month"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;BYHOUR=9", "every year on Monday in week 20 at 09:00"),
        ("FREQ=YEARLY;BYYEARDAY=100,-1;BYHOUR=9", "every year on days -1 and 100 of the year at 09:00"),
        ("FREQ=HOURLY;BYMINUTE=0,30;BYHOUR=9,10,11,14",
         "every hour at minutes 0 and 30 during 09:00-11:59 and 14:00-14:59"),
        ("FREQ=MINUTELY;INTERVAL=10;BYDAY=SA;BYSECOND=0", "every 10 minutes on Saturday"),
        ("FREQ=SECONDLY;INTERVAL=90", "every 90 seconds"),
        ("FREQ=DAILY", "every day, with the time of day of its creation"),
        ("FREQ=YEARLY", "every year, with the date and time of day of its creation"),
        ("FREQ=DAILY;BYHOUR=1;COUNT=10", "every day at 01:00, 10 times in all"),
        ("FREQ=DAILY;BYHOUR=1;UNTIL=20301231", "every day at 01:00, until 2030-12-31 23:59:59"),
    ],
)  # fmt: skip
def test_in_words(rule: str, words: str) -> None:
    assert describe(rrule(rule, MADRID)) == f"{words}, Europe/Madrid time"


def test_what_the_start_says_in_words() -> None:
    start = ms("2027-01-05T09:10:11+01:00")
    assert describe(rrule("FREQ=WEEKLY", MADRID, starts_at_ms=start)).startswith("every week on Tuesday at 09:10:11,")
    assert describe(rrule("FREQ=YEARLY", MADRID), anchor_ms=start).startswith(
        "every year on day 5 of the month in January at 09:10:11,"
    )


def test_a_search_costs_little_long_after_the_start() -> None:
    """A walk from the start would take a billion steps."""
    trigger = rrule("FREQ=SECONDLY;COUNT=1000000000", starts_at_ms=ms("1999-01-01T00:00Z"))
    assert next_nominal(trigger, NOW) == NOW - NOW % 1000 + 1000


@pytest.mark.parametrize("week", [1, 2, 26, 51, 52, 53, -1, -2, -52, -53])
def test_weeks_are_those_of_the_iso_calendar(week: int) -> None:
    """Also at the turn of the year, where a day may be in a week of another one."""
    everyday = "BYDAY=MO,TU,WE,TH,FR,SA,SU"
    start = ms("1999-12-31T12:00Z")
    rule = rrule(f"FREQ=YEARLY;BYWEEKNO={week};{everyday};BYHOUR=0", starts_at_ms=start)
    found = within(rule, start, ms("2041-01-01T00:00Z"))
    first = date(2000, 1, 1)
    days = [first + timedelta(n) for n in range((date(2041, 1, 1) - first).days)]

    def number(day: date) -> int:
        year, number, _ = day.isocalendar()
        return number if week > 0 else number - date(year, 12, 28).isocalendar().week - 1

    assert [datetime.fromtimestamp(at / 1000, UTC).date() for at in found] == [d for d in days if number(d) == week]


class TestTheHourThatComesTwice:
    """Madrid, 31 October 2027: 03:00 is 02:00 again at 01:00Z."""

    def utc(self, rule: str, start: str, count: int) -> list[str]:
        found = following(rrule(rule, MADRID, starts_at_ms=ms(start)), ms("2027-10-30T20:00Z"), count)
        return [datetime.fromtimestamp(at / 1000, UTC).strftime("%d %H:%M") for at in found]

    def test_a_start_in_the_first_pass(self) -> None:
        assert self.utc("FREQ=MINUTELY;INTERVAL=10", "2027-10-31T00:29:00Z", 8) == [
            *("31 00:29", "31 00:39", "31 00:49", "31 00:59", "31 01:09", "31 01:19", "31 01:29", "31 01:39"),
        ]

    def test_a_start_in_the_second_pass(self) -> None:
        """Nothing of the first."""
        assert self.utc("FREQ=MINUTELY;INTERVAL=30", "2027-10-31T01:10:00Z", 3) == ["31 01:10", "31 01:40", "31 02:10"]
        assert self.utc("FREQ=HOURLY;BYMINUTE=0", "2027-10-31T01:10:00Z", 1) == ["31 02:00"]

    def test_an_hourly_rule_made_in_the_first_pass(self) -> None:
        made = ms("2027-10-31T00:20:00.500Z")
        found = following(rrule("FREQ=HOURLY;BYMINUTE=0", MADRID), made, 2, anchor_ms=made)
        assert found == [ms("2027-10-31T01:00Z"), ms("2027-10-31T02:00Z")]

    def test_a_fixed_rule_runs_once(self) -> None:
        rule = "FREQ=DAILY;BYHOUR=2;BYMINUTE=30"
        assert self.utc(rule, "2027-10-31T00:10:00Z", 2) == ["31 00:30", "01 01:30"]
        assert self.utc(rule, "2027-10-31T01:10:00Z", 1) == ["01 01:30"]

    @pytest.mark.parametrize(
        "start", ["2027-10-30T23:00Z", "2027-10-31T00:00Z", "2027-10-31T00:30Z", "2027-10-31T01:00Z"]
    )
    def test_times_are_counted_as_they_come(self, start: str) -> None:
        times = self.utc("FREQ=MINUTELY;INTERVAL=30;COUNT=6", start, 20)
        assert times == self.utc("FREQ=MINUTELY;INTERVAL=30", start, 6)
        assert self.utc("FREQ=DAILY;BYHOUR=2;COUNT=3", start, 9) == self.utc("FREQ=DAILY;BYHOUR=2", start, 3)

    def test_what_is_missed_is_counted_alike(self) -> None:
        trigger = rrule("FREQ=MINUTELY;INTERVAL=10;COUNT=9", MADRID, starts_at_ms=ms("2027-10-31T00:29Z"))
        gone = missed(trigger, 0, ms("2027-11-01T00:00Z"), keep=2)
        assert (gone.count, gone.until_ms) == (9, ms("2027-10-31T01:49Z"))


class TestCount:
    def test_of_a_gap_all_is_one(self) -> None:
        """28 March 2027: 02:00 to 03:00 is left out; what is due in it is due at its end."""
        rule = "FREQ=DAILY;BYHOUR=2;BYMINUTE=10,50;COUNT=4"
        found = following(rrule(rule, MADRID, starts_at_ms=ms("2027-03-27T00:00Z")), ms("2027-03-26T00:00Z"), 9)
        assert [local(at, MADRID)[8:16] for at in found] == ["27T02:10", "27T02:50", "28T03:00", "29T02:10"]

    @pytest.mark.parametrize(
        "rule", ["FREQ=SECONDLY;INTERVAL=3", "FREQ=DAILY", "FREQ=HOURLY;BYMINUTE=0", "FREQ=DAILY;BYHOUR=7"]
    )
    @pytest.mark.parametrize("made", [NOW, NOW // 1000 * 1000, ms("2026-11-22T06:00:00Z")])
    def test_without_a_start_the_first_that_comes_is_the_first(self, rule: str, made: int) -> None:
        endless = following(rrule(rule, MADRID), made, 3, anchor_ms=made)
        assert following(rrule(f"{rule};COUNT=3", MADRID), made, 9, anchor_ms=made) == endless
        validate(rrule(f"{rule};COUNT=1", MADRID), now_ms=made)

    def test_with_a_start_what_is_past_counts(self) -> None:
        trigger = rrule("FREQ=DAILY;COUNT=3", starts_at_ms=ms("2026-11-20T09:00Z"))
        assert following(trigger, NOW, 9) == [ms("2026-11-22T09:00Z")]
        over = rrule("FREQ=DAILY;COUNT=3", starts_at_ms=ms("2026-11-19T09:00Z"))
        with pytest.raises(TriggerError, match="all of COUNT=3, counted from the start, lie before"):
            validate(over, now_ms=NOW)

    @pytest.mark.parametrize("count", [1, 59, 60, 4_000, 250_000, 1_000_000_000])
    def test_of_any_size(self, count: int) -> None:
        start = ms("2026-11-22T06:00Z")
        trigger = rrule(f"FREQ=MINUTELY;COUNT={count}", MADRID, starts_at_ms=start)
        last = start + (count - 1) * 60_000
        if last < ms("2099-01-01T00:00Z"):
            assert next_nominal(trigger, last - 1) == last
            assert next_nominal(trigger, last) is None
        else:
            assert next_nominal(trigger, ms("2099-01-01T00:00:30Z")) == ms("2099-01-01T00:01Z")

    def test_the_hour_before_a_creation_is_no_time_of_it(self) -> None:
        """Also for who asks about the past."""
        made = ms("2027-10-31T00:20:30Z")
        assert missed(rrule("FREQ=HOURLY;BYMINUTE=0", MADRID), 0, made, keep=5, anchor_ms=made).count == 0


@pytest.mark.parametrize(
    ("changed", "why"), [({"until": 0, "until_utc": True}, "in UTC"), ({"until": 0, "count": 1}, "COUNT and UNTIL")]
)
def test_the_times_of_a_rule_refuse_an_end_that_they_would_ignore(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RuleTimes(replace(parse_rule("FREQ=DAILY"), **changed), 0)
