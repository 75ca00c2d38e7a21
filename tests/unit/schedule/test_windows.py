"""Calendars with hours: what they exclude, also where clocks change, and where what falls into them goes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import TriggerError, describe, due_days, is_excluded, missed, never_fires, next_nominal, preview
from raftsched.schedule.exclusions import exclusion
from raftsched.schedule.triggers import TRIES_MAX
from raftsched.schedule.windows import parse_clock, window
from tests.support.amounts import examples
from tests.support.cron_times import cron, following, local, ms, rrule, within

MADRID, ST_JOHNS, LORD_HOWE = "Europe/Madrid", "America/St_Johns", "Australia/Lord_Howe"
WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
HOUR = 3_600_000


def hours(begin: str, end: str, *weekdays: str) -> dict[str, Any]:
    return {"from": begin, "to": end, **({"weekdays": list(weekdays)} if weekdays else {})}


def content(**said: Any) -> bytes:
    return msgspec.json.encode(said)


NIGHT = content(hours=[hours("22:00", "06:00")])
OFFICE = content(only=[hours("09:00", "17:00", *WEEKDAYS[:5])])
UPGRADE = content(excludes=[{"from": "2026-12-22T10:15:30.500Z", "to": "2026-12-22T12:00:00Z"}])


def times(trigger: Trigger, after: str, count: int, calendar: bytes, zone: str = MADRID) -> list[str]:
    return [local(at, zone)[:16] for at in following(trigger, ms(after), count, calendar=calendar)]


def test_hours_over_midnight() -> None:
    hourly = cron("0 */2 * * *", MADRID, calendar="x")
    assert times(hourly, "2026-12-22T18:30Z", 3, NIGHT) == ["2026-12-22T20:00", "2026-12-23T06:00", "2026-12-23T08:00"]
    friday = content(hours=[hours("22:00", "06:00", "fri")])
    found = times(hourly, "2026-12-18T20:30Z", 2, friday)
    assert found == ["2026-12-19T06:00", "2026-12-19T08:00"], "the night from Friday, 2026-12-18, to Saturday"
    assert times(hourly, "2026-12-19T20:30Z", 2, friday) == ["2026-12-19T22:00", "2026-12-20T00:00"]


def test_all_but_business_hours() -> None:
    found = times(cron("0 */4 * * *", MADRID, calendar="x"), "2026-12-18T08:00Z", 4, OFFICE)
    assert found == ["2026-12-18T12:00", "2026-12-18T16:00", "2026-12-21T12:00", "2026-12-21T16:00"]
    both = content(only=[hours("09:00", "17:00")], hours=[hours("12:00", "13:00")], dates=["2026-12-21"])
    found = times(cron("30 8-17 * * *", MADRID, calendar="x"), "2026-12-20T14:40Z", 4, both)
    assert found == ["2026-12-20T16:30", "2026-12-22T09:30", "2026-12-22T10:30", "2026-12-22T11:30"]


def test_once() -> None:
    minutely = cron("* * * * * *", "UTC", calendar="x")
    before, after = ms("2026-12-22T10:15:29Z"), ms("2026-12-22T12:00:00Z")
    assert next_nominal(minutely, before, calendar=UPGRADE) == after, "the second in which it begins is excluded"
    assert next_nominal(minutely, before - 1, calendar=UPGRADE) == before
    assert not is_excluded(minutely, after, UPGRADE)


@pytest.mark.parametrize(
    "trigger",
    [
        cron("0 5,6 * * *", MADRID, calendar="x"),
        rrule("FREQ=DAILY;BYHOUR=5,6", MADRID, calendar="x"),
        Trigger(kind=TriggerKind.EVERY, period_ms=HOUR, calendar="x", starts_at_ms=ms("2026-12-20T04:00Z")),
    ],
)
def test_every_trigger_with_times_of_its_own(trigger: Trigger) -> None:
    night = content(timezone=MADRID, hours=[hours("22:00", "06:00")])
    found = next_nominal(trigger, ms("2026-12-22T21:00Z"), calendar=night, anchor_ms=ms("2026-12-20T04:00Z"))
    assert found == ms("2026-12-23T06:00+01:00")


CHANGES = [  # zone, window, its begin and end on the day of the change, and a time on that day
    (MADRID, "01:00", "02:30", "2027-03-28T01:00+01:00", "2027-03-28T03:00+02:00"),  # 02:30 is skipped
    (MADRID, "02:30", "04:00", "2027-03-28T03:00+02:00", "2027-03-28T04:00+02:00"),
    (MADRID, "22:00", "02:15", "2027-03-27T22:00+01:00", "2027-03-28T03:00+02:00"),
    (MADRID, "01:00", "02:30", "2026-10-25T01:00+02:00", "2026-10-25T02:30+01:00"),  # 02:30 comes twice
    (MADRID, "02:30", "04:00", "2026-10-25T02:30+02:00", "2026-10-25T04:00+01:00"),
    (MADRID, "02:10", "02:20", "2026-10-25T02:10+02:00", "2026-10-25T02:20+01:00"),
    (ST_JOHNS, "01:30", "02:30", "2027-03-14T01:30-03:30", "2027-03-14T03:00-02:30"),
    (ST_JOHNS, "01:15", "01:45", "2026-11-01T01:15-02:30", "2026-11-01T01:45-03:30"),
    (ST_JOHNS, "23:30", "00:30", "2010-11-06T23:30-02:30", "2010-11-07T00:30-03:30"),  # back over midnight, at 00:01
    (LORD_HOWE, "01:00", "02:15", "2026-10-04T01:00+10:30", "2026-10-04T02:30+11:00"),  # half an hour forward
    (LORD_HOWE, "01:45", "03:00", "2027-04-04T01:45+11:00", "2027-04-04T03:00+10:30"),  # and back
    (LORD_HOWE, "00:30", "01:45", "2027-04-04T00:30+11:00", "2027-04-04T01:45+10:30"),
]


@pytest.mark.parametrize(("zone", "begin", "end", "first", "last"), CHANGES)
def test_edges_where_clocks_change(zone: str, begin: str, end: str, first: str, last: str) -> None:
    day = (datetime.fromisoformat(first)).strftime("%a").lower()
    low, high = ms(first) // 1000, ms(last) // 1000
    held = exclusion(content(timezone=zone, hours=[hours(begin, end, day)]), "UTC")
    assert list(held.stretches(low - 7200, high + 7200)) == [(low - 7200, low), (high, high + 7200)]
    assert held.free_from(low) == high
    assert held.held_since(high - 1) == low
    only = exclusion(content(timezone=zone, only=[hours(begin, end, day)]), "UTC")
    assert list(only.stretches(low - 7200, high + 7200)) == [(low, high)], "the same window, the other way round"


def test_a_window_within_the_hour_that_is_skipped_is_none() -> None:
    nightly = cron("30 2 * * *", MADRID, calendar="x")
    shut = content(hours=[hours("02:15", "02:45")])
    assert times(nightly, "2027-03-26T12:00Z", 1, shut) == ["2027-03-28T03:00"], "the only day on which it is not 02:30"
    open_ = content(only=[hours("02:15", "02:45")])
    assert times(nightly, "2027-03-26T12:00Z", 2, open_) == ["2027-03-27T02:30", "2027-03-29T02:30"]


# ---------------------------------------------------------------- moved


def test_what_falls_in_comes_once_at_the_end() -> None:
    often = cron("*/20 * * * *", MADRID, calendar="x", calendar_moves=True)
    found = times(often, "2026-12-22T20:30Z", 3, NIGHT)
    assert found == ["2026-12-22T21:40", "2026-12-23T06:00", "2026-12-23T06:20"]
    nightly = cron("30 2 * * *", MADRID, calendar="x", calendar_moves=True)
    assert times(nightly, "2026-12-22T20:30Z", 2, NIGHT) == ["2026-12-23T06:00", "2026-12-24T06:00"]
    found = times(cron("0 20 * * FRI", MADRID, calendar="x", calendar_moves=True), "2026-12-18T12:00Z", 1, OFFICE)
    assert found == ["2026-12-21T09:00"]


def test_a_moved_time_is_there_whenever_it_is_asked_for() -> None:
    """A leader that computes within the excluded time finds what fell into it before."""
    nightly = cron("30 22 * * *", "UTC", calendar="x", calendar_moves=True)
    end = ms("2026-12-23T06:00Z")
    for after in ("2026-12-22T22:29Z", "2026-12-22T22:30Z", "2026-12-23T05:59Z"):
        assert next_nominal(nightly, ms(after), calendar=NIGHT) == end
    assert next_nominal(nightly, end - 1, calendar=NIGHT) == end
    assert next_nominal(nightly, end, calendar=NIGHT) == end + 24 * HOUR
    assert not is_excluded(nightly, end, NIGHT)


def test_what_was_before_the_job_is_not_moved() -> None:
    nightly = cron("30 22 * * *", "UTC", calendar="x", calendar_moves=True)
    made = ms("2026-12-22T23:00Z")
    assert next_nominal(nightly, made, anchor_ms=made, calendar=NIGHT) == ms("2026-12-24T06:00Z")
    every = Trigger(kind=TriggerKind.EVERY, period_ms=12 * HOUR, calendar="x", calendar_moves=True)
    assert next_nominal(every, made, anchor_ms=made, calendar=NIGHT) == made + 12 * HOUR
    starts = cron("30 22 * * *", "UTC", calendar="x", calendar_moves=True, starts_at_ms=ms("2026-12-22T22:30Z"))
    assert next_nominal(starts, made, anchor_ms=made, calendar=NIGHT) == ms("2026-12-23T06:00Z")


def test_a_time_before_the_job_was_is_where_it_would_have_been() -> None:
    """As a backfill asks for it."""
    nightly = cron("30 22 * * *", "UTC", calendar="x", calendar_moves=True)
    made = ms("2026-12-22T23:00Z")
    found = missed(nightly, ms("2026-12-19T12:00Z"), made, keep=9, anchor_ms=made, calendar=NIGHT)
    assert [local(at, "UTC")[:16] for at in found.times] == [f"2026-12-{day}T06:00" for day in (20, 21, 22)]


def test_the_end_of_a_trigger_holds_for_what_is_moved() -> None:
    ends = cron("30 22 * * *", "UTC", calendar="x", calendar_moves=True, ends_at_ms=ms("2026-12-23T05:00Z"))
    assert next_nominal(ends, ms("2026-12-22T12:00Z"), calendar=NIGHT) is None
    assert missed(ends, ms("2026-12-22T12:00Z"), ms("2026-12-24T12:00Z"), keep=3, calendar=NIGHT).count == 0
    kept = msgspec.structs.replace(ends, ends_at_ms=ms("2026-12-23T06:00Z"))
    assert next_nominal(kept, ms("2026-12-22T12:00Z"), calendar=NIGHT) == ms("2026-12-23T06:00Z")


def test_notes_say_what_was_left_out_or_moved() -> None:
    often = cron("*/20 * * * *", MADRID, calendar="night")
    span = "2026-12-22 22:00 to 2026-12-23 05:40 (24 times)"
    shown = preview(often, ms("2026-12-22T20:50Z"), 2, calendar=NIGHT)
    assert [o.note for o in shown] == [f"night: left out before this: {span}", None]
    moves = msgspec.structs.replace(often, calendar_moves=True)
    for after in ("2026-12-22T20:50Z", "2026-12-23T04:45Z"):
        shown = preview(moves, ms(after), 2, calendar=NIGHT)
        assert [o.note for o in shown] == [f"night: moved here: {span}", None]
    daily = cron("30 2 * * *", MADRID, calendar="night", calendar_moves=True)
    (shown_once,) = preview(daily, ms("2026-12-22T20:50Z"), 1, calendar=NIGHT)
    assert shown_once.note == "night: moved here: 2026-12-23 02:30"
    assert describe(daily).endswith("the calendar night excludes (what falls into it comes at its end, once)")


def test_days_count_what_runs_and_what_does_not_run_then() -> None:
    moves = cron("0 20-23 * * *", "UTC", calendar="x", calendar_moves=True)
    found = list(due_days(moves, ms("2026-12-22T00:00Z"), ms("2026-12-24T00:00Z"), "UTC", calendar=NIGHT))
    assert [(day.date, day.due, day.left_out) for day in found] == [("2026-12-22", 3, 2), ("2026-12-23", 3, 2)]


# ---------------------------------------------------------------- bounds


def test_what_never_comes_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    after = ms("2026-12-22T00:00Z")
    for always in (
        content(hours=[hours("00:00", "24:00")]),
        content(hours=[hours("00:00", "12:00"), hours("12:00", "00:00")]),
        content(only=[hours("09:00", "17:00", "sat")], weekdays=["sat"]),
        content(only=[hours("09:00", "17:00")], hours=[hours("08:00", "18:00")]),
    ):
        held = exclusion(always, MADRID)
        assert held.holds(after // 1000)
        assert held.free_from(after // 1000) is None
        assert list(held.stretches(after // 1000, after // 1000 + 10**7)) == []
        for moves in (False, True):
            secondly = cron("* * * * * *", MADRID, calendar="x", calendar_moves=moves)
            assert next_nominal(secondly, after, calendar=always) is None
            assert never_fires(secondly, after)
    looked = []
    real = exclusion(NIGHT, "UTC").free_from
    monkeypatch.setattr(exclusion(NIGHT, "UTC"), "free_from", lambda at: looked.append(at) or real(at))
    assert next_nominal(cron("0 3 * * *", calendar="x"), after, calendar=NIGHT) is None, "which is excluded each day"
    assert len(looked) == TRIES_MAX
    assert never_fires(cron("0 3 * * *", calendar="x"), after)


def test_one_that_cannot_be_read() -> None:
    trigger = cron("0 9 * * *", calendar="x")
    for bad in (
        {"hours": [hours("9:00", "17:00")]},
        {"hours": [hours("09:00", "09:00")]},
        {"only": [hours("09:00", "17:00", "monday")]},
        {"excludes": [{"from": "soon", "to": "later"}]},
    ):
        with pytest.raises(TriggerError):
            next_nominal(trigger, 0, calendar=content(**bad))


def test_times_of_day_are_read_strictly() -> None:
    assert (parse_clock("00:00"), parse_clock("23:59"), parse_clock("24:00", end=True)) == (0, 86_340, 86_400)
    assert window("22:00", "06:00", [4]) == (frozenset({4}), 79_200, 108_000)
    assert window("00:00", "24:00", [4]) == (frozenset({4}), 0, 86_400)
    for text in ("24:00", "9:00", "09:60", "09:00:00", "٠٩:٠٠", "", "0900"):
        with pytest.raises(ValueError, match="must be a time of day"):
            parse_clock(text)
    with pytest.raises(ValueError, match="the same as from"):
        window("00:00", "00:00", [1])


# ---------------------------------------------------------------- against looking at each minute

STARTS = {  # some days before clocks change
    MADRID: [date(2026, 10, 20), date(2027, 3, 23)],
    ST_JOHNS: [date(2010, 11, 2), date(2026, 10, 28), date(2027, 3, 10)],
    LORD_HOWE: [date(2026, 9, 30), date(2027, 3, 31)],
    "UTC": [date(2026, 12, 20)],
}
CLOCKS = ["00:00", "00:30", "01:15", "01:45", "02:00", "02:30", "03:00", "06:00", "12:00", "17:00", "22:00", "23:45"]


class Minutes:
    """A zone's wall, minute by minute, and what windows of it hold. Shares no code with raftsched."""

    def __init__(self, zone: str) -> None:
        self.zone = ZoneInfo(zone)
        self.wall = cache(self._wall)

    def _wall(self, at: int) -> datetime:
        return datetime.fromtimestamp(at, self.zone).replace(tzinfo=None, fold=0)

    def _near(self, wall: datetime) -> range:
        guess = int(wall.replace(tzinfo=self.zone).timestamp()) // 60 * 60
        return range(guess - 3 * 3600, guess + 3 * 3600, 60)

    def spans(self, one: dict[str, Any], begin: date, days: int) -> list[tuple[int, int]]:
        """From the first minute that shows its begin, or more, to the last that shows its end, or after the last that
        shows less."""
        found = []
        for n in range(-2, days):
            day = begin + timedelta(n)
            if day.strftime("%a").lower() not in one.get("weekdays", WEEKDAYS):
                continue
            first, last = (datetime.combine(day, datetime.min.time()) + _clock(one[name]) for name in ("from", "to"))
            last += timedelta(last <= first)
            low = min(at for at in self._near(first) if self.wall(at) >= first)
            high = max(at for at in self._near(last) if self.wall(at) < last) + 60
            high = max([high, *(at for at in self._near(last) if self.wall(at) == last)])
            found.append((low, high))
        return found


def _clock(text: str) -> timedelta:
    return timedelta(hours=int(text[:2]), minutes=int(text[3:]))


def windows() -> st.SearchStrategy[list[dict[str, Any]]]:
    days = st.one_of(st.none(), st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=7, unique=True))
    edges = st.tuples(st.sampled_from(CLOCKS), st.sampled_from([*CLOCKS[1:], "24:00"]), days)
    said = edges.filter(lambda e: e[0] != e[1]).map(lambda e: hours(e[0], e[1], *(e[2] or ())))
    return st.lists(said, max_size=2)


@settings(max_examples=examples(50), deadline=None, print_blob=True)
@given(
    data=st.data(),
    zone=st.sampled_from(list(STARTS)),
    length=st.integers(1, 5 * 1_440),
    before=st.integers(0, 3 * 1_440),
    shut=windows(),
    only=windows(),
    days=st.sampled_from([[], ["sun"], ["mon", "sat"]]),
    every=st.sampled_from(["*/7 * * * *", "0 */3 * * *", "30 2 * * *", "15 0,1,23 * * *"]),
)
def test_minute_by_minute(
    data: st.DataObject,
    zone: str,
    length: int,
    before: int,
    shut: list[dict[str, Any]],
    only: list[dict[str, Any]],
    days: list[str],
    every: str,
) -> None:
    begin = data.draw(st.sampled_from(STARTS[zone]))
    oracle = Minutes(zone)
    midnight = int(datetime.combine(begin, datetime.min.time(), UTC).timestamp())
    low = midnight + before * 60
    high = low + length * 60
    once = (low + length // 3 * 60, low + length // 2 * 60)
    shown = [datetime.fromtimestamp(at, UTC).isoformat() for at in once]
    excludes = [{"from": shown[0], "to": shown[1]}] if once[0] < once[1] and data.draw(st.booleans()) else []
    given = content(timezone=zone, hours=shut, only=only, weekdays=days, excludes=excludes)
    held = exclusion(given, "UTC")
    spans = [span for one in shut for span in oracle.spans(one, begin, 16)]
    allowed = [span for one in only for span in oracle.spans(one, begin, 16)]

    def free(at: int) -> bool:
        inside = any(a <= at < b for a, b in spans) or (bool(excludes) and once[0] <= at < once[1])
        outside = bool(only) and not any(a <= at < b for a, b in allowed)
        return not (inside or outside or oracle.wall(at).strftime("%a").lower() in days)

    minutes = range(low, high, 60)
    stretches = list(held.stretches(low, high))
    inside = {at for a, b in stretches for at in range(a + -a % 60, b, 60)}
    assert inside == {at for at in minutes if free(at)}
    assert all(held.holds(at) != (at in inside) for at in minutes)
    plain, trigger = cron(every, zone), cron(every, zone, calendar="x")
    raw = [at // 1000 for at in within(plain, low * 1000, high * 1000)]
    walked = [at for at in raw if free(at)]
    assert within(trigger, low * 1000, high * 1000, calendar=given) == [at * 1000 for at in walked]
    found = missed(trigger, low * 1000 - 1, high * 1000 - 1, keep=3, calendar=given)
    assert (found.count, found.times) == (len(walked), tuple(at * 1000 for at in walked[-3:]))
    ends: dict[int, int | None] = {}  # of each minute: the first from there on that is free
    following_free: int | None = None
    for at in reversed(minutes):
        following_free = ends[at] = at if free(at) else following_free
    moved = sorted({at for at in (ends[one] for one in raw) if at is not None})
    moves = msgspec.structs.replace(trigger, calendar_moves=True)
    # what fell in before `low` is not known to the oracle: the trigger begins there
    moves = msgspec.structs.replace(moves, starts_at_ms=low * 1000)
    assert within(moves, low * 1000, high * 1000, calendar=given) == [at * 1000 for at in moved]
    found = missed(moves, low * 1000 - 1, high * 1000 - 1, keep=3, calendar=given)
    assert (found.count, found.times) == (len(moved), tuple(at * 1000 for at in moved[-3:]))
    middle = low + (high - low) // 120 * 60
    assert within(moves, middle * 1000, high * 1000, calendar=given) == [at * 1000 for at in moved if at >= middle]
