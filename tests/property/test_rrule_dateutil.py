"""Recurrence rules: dateutil, another implementation, walks through all of a rule's times from its start; ours must
find the same from anywhere in between, in zones with clock changes too."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import TriggerError, missed, next_nominal
from raftsched.schedule.budget import TooLong
from raftsched.schedule.rule import _fixed
from raftsched.schedule.rule_text import parse_rule
from raftsched.schedule.rule_times import RuleTimes
from tests.property.rule_strategies import rules
from tests.support.amounts import examples

EPOCH = datetime(1970, 1, 1)
ZONES = [
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Asia/Kathmandu",
    "Africa/Casablanca",
]
WALKED = 60
STEPS_MAX = 200_000  # of a walk of dateutil's: it tries each second of a rule by seconds, also where months lie between
STEP_S = {"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600, "DAILY": 86_400, "WEEKLY": 7 * 86_400}
STARTS = st.datetimes(datetime(1995, 1, 1), datetime(2050, 1, 1))


def seconds(at: datetime) -> int:
    return round((at - EPOCH) / timedelta(seconds=1))


def walked(rule: str, start: datetime) -> list[datetime]:
    """The first times by dateutil."""
    found = []
    try:
        for at in islice(rrulestr(rule, dtstart=start), WALKED):
            if at.year > 2099:
                break
            found.append(at)
    except ValueError:  # it knows some of what never comes
        return []
    return found


def never(rule: str, start: datetime) -> bool:
    """Dateutil would look until the year 9999."""
    return RuleTimes(parse_rule(rule), seconds(start)).next_from(seconds(start)) is None


def steps(rule: str, start: datetime) -> int:
    """About how many times dateutil tries until it has found as many as are compared."""
    ours = RuleTimes(parse_rule(rule), seconds(start))
    last = seconds(start)
    for _ in range(WALKED):
        at = ours.next_from(last + 1)
        if at is None:
            break
        last = at
    parts = dict(part.split("=") for part in rule.split(";"))
    every = STEP_S.get(parts["FREQ"], 28 * 86_400) * int(parts.get("INTERVAL", 1))
    return (last - seconds(start)) // every


@settings(max_examples=examples(400), deadline=None, print_blob=True)
@given(rule=rules(), start=STARTS, data=st.data())
@example("FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO", datetime(2026, 1, 1), None)
@example("FREQ=MONTHLY;BYMONTHDAY=31;INTERVAL=2", datetime(2026, 1, 31, 9, 0, 1), None)
def test_on_the_wall(rule: str, start: datetime, data: st.DataObject | None) -> None:
    start = start.replace(microsecond=0)
    ours = RuleTimes(parse_rule(rule), seconds(start))
    assume(not never(rule, start))
    assume(steps(rule, start) < STEPS_MAX)
    theirs = [seconds(at) for at in walked(rule, start)]
    assume(theirs)
    at: int | None = -(10**9)
    for expected in theirs:
        at = ours.next_from(at)
        assert at == expected
        at += 1
    if "COUNT" in rule and len(theirs) < WALKED and theirs[-1] < seconds(datetime(2090, 1, 1)):
        assert ours.next_from(theirs[-1] + 1) is None
    picked = (
        range(0, len(theirs), 7) if data is None else [data.draw(st.integers(0, len(theirs) - 1)) for _ in range(3)]
    )
    for index in picked:  # from anywhere, without what was before
        fresh = RuleTimes(parse_rule(rule), seconds(start))
        assert fresh.next_from(theirs[index]) == theirs[index]
        assert fresh.matches(theirs[index])
        assert fresh.count(theirs[index], theirs[-1] + 1) == len(theirs) - index
        assert fresh.count(0, theirs[index]) == index


def instants(wall: datetime, place: ZoneInfo, fixed: bool) -> list[int]:
    """When the wall time is reached: by a fixed rule once, in the gap at its end; by others whenever it is shown."""
    shown = []
    for fold in (0, 1):
        at = wall.replace(tzinfo=place, fold=fold)
        if at.astimezone(UTC).astimezone(place).replace(tzinfo=None) == wall:
            shown.append(round(at.timestamp()))
    if shown:
        return sorted(set(shown))[:1] if fixed else sorted(set(shown))
    if not fixed:
        return []
    low, high = (round((wall + timedelta(days=d)).replace(tzinfo=place).timestamp()) for d in (-1, 1))
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, place).replace(tzinfo=None) >= wall:
            high = middle
        else:
            low = middle
    return [high]


# around the nights in which clocks change
NIGHTS = [
    datetime(2026, 3, 28),
    datetime(2026, 10, 24),
    datetime(2026, 3, 7),
    datetime(2026, 10, 31),
    datetime(2026, 4, 4),
]


@settings(max_examples=examples(250), deadline=None, print_blob=True)
@given(
    rule=rules().filter(lambda text: "COUNT" not in text),
    night=st.sampled_from(NIGHTS),
    zone=st.sampled_from(ZONES),
    back=st.integers(0, 30 * 86_400),
)
def test_in_zones(rule: str, night: datetime, zone: str, back: int) -> None:
    start = night - timedelta(seconds=back)
    assume(not never(rule, start))
    place = ZoneInfo(zone)
    begin = round(start.replace(tzinfo=place).timestamp())
    if datetime.fromtimestamp(begin, place).replace(tzinfo=None) != start:
        return  # it starts in a gap
    low, high = (round((night + timedelta(days=d)).replace(tzinfo=UTC).timestamp()) for d in (-1, 4))
    fixed = _fixed(parse_rule(rule))
    expected: set[int] = set()
    theirs = rrulestr(rule, dtstart=start)
    for count, wall in enumerate(theirs.xafter(max(start, night - timedelta(days=2)), inc=True)):
        if wall > night + timedelta(days=6) or wall.year > 2099:
            break
        assume(count < 3_000)
        expected.update(at for at in instants(wall, place, fixed) if low < at <= high)
    trigger = Trigger(kind=TriggerKind.RRULE, expr=rule, timezone=zone, starts_at_ms=begin * 1000)
    times = []
    try:
        at_ms = next_nominal(trigger, low * 1000)
    except TooLong:  # one that hardly ever comes
        return
    while at_ms is not None and at_ms <= high * 1000:
        times.append(at_ms // 1000)
        at_ms = next_nominal(trigger, at_ms)
    assert times == sorted(expected)
    found = missed(trigger, low * 1000, high * 1000, keep=5)
    assert found.count == len(times)
    assert found.times == tuple(at * 1000 for at in times[-5:])


@settings(max_examples=examples(200), deadline=None)
@given(text=st.one_of(rules(), st.text(alphabet="FREQ=DAILYHOURBNTWKSM;,0123456789-+:", max_size=80)))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    trigger = Trigger(kind=TriggerKind.RRULE, expr=text, timezone="Europe/Madrid")
    with suppress(TriggerError):
        next_nominal(trigger, 1_800_000_000_000, anchor_ms=1_700_000_000_000)


@settings(max_examples=examples(120), deadline=None, print_blob=True)
@given(
    rule=rules().filter(lambda text: "COUNT" not in text and "UNTIL" not in text),
    night=st.sampled_from(NIGHTS),
    zone=st.sampled_from(ZONES),
    ahead=st.integers(0, 6 * 3600),
    count=st.integers(1, 40),
    given=st.booleans(),
)
def test_a_count_is_the_beginning_of_the_endless_rule(
    rule: str, night: datetime, zone: str, ahead: int, count: int, given: bool
) -> None:
    """From any second of a night in which clocks change, in either pass of an hour that comes twice."""
    start_ms = (round(night.replace(tzinfo=ZoneInfo(zone)).timestamp()) + ahead) * 1000
    bounds = {"starts_at_ms": start_ms} if given else {}
    endless = Trigger(kind=TriggerKind.RRULE, expr=rule, timezone=zone, **bounds)
    counted = Trigger(kind=TriggerKind.RRULE, expr=f"{rule};COUNT={count}", timezone=zone, **bounds)
    at: int | None = start_ms - given
    for _ in range(count):
        assert at is not None
        expected = next_nominal(endless, at, anchor_ms=start_ms)
        try:
            at = next_nominal(counted, at, anchor_ms=start_ms)
        except TooLong:  # one that hardly ever comes
            return
        assert at == expected
        if at is None:
            return
        assert at >= start_ms + (not given)
    assert at is not None
    assert next_nominal(counted, at, anchor_ms=start_ms) is None
    after = start_ms - given
    assert missed(counted, after, at, keep=count, anchor_ms=start_ms).count == count
