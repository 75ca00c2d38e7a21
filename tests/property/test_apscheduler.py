"""Triggers of APScheduler, as it computes them, and what the importer makes of them: they are due at the same times.

Around changes of clocks the two differ, which the import notes: these days are left out, and looked at by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raftsched.apscheduler.describing import described_trigger
from raftsched.importers.apscheduler.due_times import triggers_of
from raftsched.importers.due import as_trigger
from raftsched.importers.foreign import Notes, Unmapped
from raftsched.schedule import TriggerError, next_nominal
from tests.support.amounts import examples

NOW = datetime(2027, 5, 3, 9, 17, 31, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
UNTIL = NOW + timedelta(days=5 * 366)
COUNT = 6
STEPS_MAX = 10_000  # of APScheduler's search; one takes it about 0.1 ms
ZONES = ("UTC", "Europe/Madrid", "Asia/Kathmandu", "America/New_York")
# Why a trigger may be refused; anything else is a gap of the importer.
MAY_BE_REFUSED = (
    "matches no time", "a week of the year beside", "at most", "no such date", "never", "there is no day",
    "years have gaps", "takes too long", "which is past", "not among", "none of its weekdays", "steps to search",
    "days from the end of the month", "only time", "too far", "no time",
)  # fmt: skip


def listed(low: int, high: int) -> st.SearchStrategy[str]:
    """Values, ranges and steps as cron has them."""
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda two: f"{min(two)}-{max(two)}")
    stepped = st.tuples(number, st.integers(1, 7)).map(lambda two: (low, high, *two))
    return st.lists(
        st.one_of(
            number.map(str),
            ranges,
            st.integers(1, max(1, high - low)).map(lambda step: f"*/{step}"),
            stepped.filter(lambda four: four[2] + four[3] <= four[1]).map(
                lambda four: f"{four[2]}-{four[1]}/{four[3]}"
            ),
            stepped.filter(lambda four: four[3] <= four[1] - four[2]).map(lambda four: f"{four[2]}/{four[3]}"),
        ),
        min_size=1,
        max_size=2,
    ).map(",".join)


WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
POSITIONS = st.tuples(st.sampled_from(["1st", "2nd", "3rd", "4th", "5th", "last"]), st.sampled_from(WEEKDAYS)).map(
    " ".join
)
DAY = st.one_of(
    listed(1, 31), st.just("last"), POSITIONS, st.tuples(listed(1, 31), POSITIONS).map(",".join), st.just("*")
)
DAY_OF_WEEK = st.one_of(listed(0, 6), st.sampled_from(["mon-fri", "sat,sun", "wed", "*"]))
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "year": st.sampled_from(["2027-2030", "*/2", "*", "2028"]),
        "month": st.one_of(listed(1, 12), st.sampled_from(["jan-mar", "dec", "*"])),
        "day": DAY,
        "week": listed(1, 53),
        "day_of_week": DAY_OF_WEEK,
        "hour": listed(0, 23),
        "minute": listed(0, 59),
        "second": st.sampled_from(["0", "30", "*/20", "*"]),
    },
).filter(bool)


@st.composite
def crons(draw: st.DrawFn, zone: str | None = None) -> CronTrigger:
    given_zone = draw(st.sampled_from(ZONES)) if zone is None else zone
    more: dict[str, Any] = {"end_date": UNTIL}
    if draw(st.booleans()):
        more["start_date"] = NOW + timedelta(seconds=draw(st.integers(-86_400, 90 * 86_400)))
    return CronTrigger(**draw(FIELDS), **more, timezone=given_zone)


@st.composite
def intervals(draw: st.DrawFn) -> IntervalTrigger:
    seconds = draw(st.integers(1, 40 * 86_400))
    start = NOW + timedelta(seconds=draw(st.integers(-400 * 86_400, 86_400)), milliseconds=draw(st.integers(0, 999)))
    return IntervalTrigger(seconds=seconds, start_date=start, end_date=UNTIL, timezone=draw(st.sampled_from(ZONES)))


class Counted(BaseTrigger):  # type: ignore[misc]
    """A trigger that is asked for no more times than there are steps; an example that needs more is left out."""

    def __init__(self, trigger: BaseTrigger, steps: Iterator[int]) -> None:
        self._trigger = trigger
        self._steps = steps

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        assume(next(self._steps, None) is not None)
        return self._trigger.get_next_fire_time(previous, now)


def theirs(trigger: BaseTrigger) -> list[int]:
    """The next times, each asked for as after a start of the scheduler, in UTC milliseconds."""
    found: list[int] = []
    after = NOW
    while len(found) < COUNT:
        at = trigger.get_next_fire_time(None, after + timedelta(microseconds=1))
        if at is None or at > UNTIL:
            break
        found.append(round(at.timestamp() * 1000))
        after = at
    return found


def ours(trigger: BaseTrigger) -> list[int]:
    """The next times of what the importer makes of it. Raises Unmapped, TriggerError."""
    made = [
        as_trigger(one) for one in triggers_of(described_trigger(trigger), "UTC", NOW_MS, Notes()) if "at" not in one
    ]
    once = [
        round(datetime.fromisoformat(one["at"]).timestamp() * 1000)
        for one in triggers_of(described_trigger(trigger), "UTC", NOW_MS, Notes())
        if "at" in one
    ]
    found: list[int] = []
    after = NOW_MS
    while len(found) < COUNT:
        nexts = [
            at for one in made if (at := next_nominal(one, after, anchor_ms=one.starts_at_ms or NOW_MS)) is not None
        ]
        nexts += [at for at in once if at > after]
        if not nexts or min(nexts) > UNTIL.timestamp() * 1000:
            break
        after = min(nexts)
        found.append(after)
    return found


def calm(times: list[int], zones: set[str]) -> list[int]:
    """Those within a day of which no clock changes."""

    def steady(ms: int) -> bool:
        at = datetime.fromtimestamp(ms / 1000, UTC)
        day = timedelta(days=1)
        return all(
            (at - day).astimezone(ZoneInfo(zone)).utcoffset() == (at + day).astimezone(ZoneInfo(zone)).utcoffset()
            for zone in zones
        )

    return [ms for ms in times if steady(ms)]


def zones_of(trigger: Any) -> set[str]:
    parts = getattr(trigger, "triggers", None) or [trigger]
    return {str(part.timezone) for part in parts}


def agree(trigger: BaseTrigger, there: list[int] | None = None) -> None:
    """`there`: the times of `theirs`, where they are known."""
    there = theirs(trigger) if there is None else there
    try:
        here = ours(trigger)
    except (Unmapped, TriggerError) as error:
        why = error.detail if isinstance(error, TriggerError) else str(error)
        assert any(reason in why for reason in MAY_BE_REFUSED), (str(trigger), why)
        assert not there or "no time" not in why, (str(trigger), why)
        return
    until = int(UNTIL.timestamp() * 1000)
    last = min([*there[-1:], *here[-1:]], default=0) if COUNT in (len(there), len(here)) else until
    zones = zones_of(trigger)
    there, here = ([at for at in calm(times, zones) if at <= last] for times in (there, here))
    assert set(there) <= set(here), str(trigger)
    # APScheduler adds days of 24 hours to get on, and so passes over a time behind a change of clocks, now and then.
    before = dict(zip(here, [NOW_MS, *here], strict=False))
    passed_over = {at for at in here if any(offset(before[at], zone) != offset(at, zone) for zone in zones)}
    assert set(here) - set(there) <= passed_over, str(trigger)


def offset(ms: int, zone: str) -> timedelta | None:
    return datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).utcoffset()


@settings(max_examples=examples(180))
@given(crons())
def test_cron(trigger: CronTrigger) -> None:
    agree(trigger)


@settings(max_examples=examples(45))
@given(intervals())
def test_interval(trigger: IntervalTrigger) -> None:
    agree(trigger)


@settings(max_examples=examples(60))
@given(st.lists(st.one_of(crons(), intervals()), min_size=1, max_size=3))
def test_any_of_several(triggers: list[BaseTrigger]) -> None:
    agree(OrTrigger(triggers))


@settings(max_examples=examples(60))
@given(st.sampled_from(ZONES), st.data())
def test_all_of_several(zone: str, data: st.DataObject) -> None:
    """Only where APScheduler finds in time when they agree: it goes from one's time to the other's, for years."""
    triggers = [data.draw(crons(zone)) for _ in range(data.draw(st.integers(1, 2)))]
    steps = iter(range(STEPS_MAX))
    agree(AndTrigger(triggers), theirs(AndTrigger([Counted(one, steps) for one in triggers])))


@settings(max_examples=examples(60))
@given(
    st.one_of(
        st.fixed_dictionaries({"days": st.integers(0, 20), "weeks": st.integers(0, 3)}),
        st.fixed_dictionaries({"months": st.integers(0, 14), "years": st.integers(0, 2)}),
    ),
    st.dates(NOW.date() - timedelta(days=400), NOW.date() + timedelta(days=60)),
    st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59)),
    st.sampled_from(ZONES),
)
def test_calendar_interval(every: dict[str, int], start: Any, clock: tuple[int, int, int], zone: str) -> None:
    assume(any(every.values()))
    hour, minute, second = clock
    trigger = CalendarIntervalTrigger(
        **every, start_date=start, end_date=UNTIL.date(), timezone=zone, hour=hour, minute=minute, second=second
    )
    there: list[int] = []
    at = trigger.get_next_fire_time(None, NOW)
    while at is not None and len(there) < COUNT:
        if at > NOW:
            there.append(round(at.timestamp() * 1000))
        at = trigger.get_next_fire_time(at, NOW)
    here = ours(trigger)
    last = min([*there[-1:], *here[-1:]], default=0)
    assert [at for at in calm(here, {zone}) if at <= last] == [at for at in calm(there, {zone}) if at <= last]


@pytest.mark.parametrize("start, hours", [("2027-03-27", (3, 2)), ("2027-10-30", (2, 2))])
def test_clocks_that_change_are_where_they_differ(start: str, hours: tuple[int, int]) -> None:
    """A fixed time that clocks skip is run at once after, here; the notes of an import say what happens there."""
    trigger = CronTrigger(hour=2, minute=30, timezone="Europe/Madrid")
    (made,) = triggers_of(described_trigger(trigger), "UTC", NOW_MS, Notes())
    after = round(datetime.fromisoformat(f"{start}T12:00:00+00:00").timestamp() * 1000)
    here = [next_nominal(as_trigger(made), after)]
    here.append(next_nominal(as_trigger(made), here[0] or 0))
    local = [datetime.fromtimestamp((at or 0) / 1000, ZoneInfo("Europe/Madrid")) for at in here]
    assert tuple(at.hour for at in local) == hours
    assert len({at.date() for at in local}) == 2, "once a day, whatever clocks do"
