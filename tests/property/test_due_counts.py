"""Due times that are counted by steps, against walking from each time to the next: random triggers, one or several,
with calendars and bounds, over nights in which clocks change."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule import TriggerError, due_counts, next_nominal, validate
from raftsched.schedule.due_counts import LISTED_SEVERAL, Due, Source, Window, due_in, runs_of
from tests.property.cron_strategies import five_fields
from tests.property.rule_strategies import rules
from tests.support.amounts import examples
from tests.support.cron_times import cron, ms

HOUR_MS = 3_600_000
# Clocks change there in the night before, or between the hours.
NIGHTS = [ms("2027-03-27T22:10Z"), ms("2027-10-30T22:00Z"), ms("2027-04-03T12:30Z"), ms("2018-11-03T22:00Z")]
ZONES = ["UTC", "Europe/Madrid", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata"]
CALENDARS = [
    {"weekdays": ["sun"]},
    {"dates": ["2027-03-28", "2027-10-31"], "weekdays": ["sat"]},
]


@st.composite
def sources(draw: st.DrawFn, start_ms: int) -> Source:
    zone = draw(st.sampled_from(ZONES))
    kind = draw(st.sampled_from(["cron", "cron", "cron", "rrule", "every", "every", "at"]))
    anchor_ms = start_ms - draw(st.integers(0, 100 * HOUR_MS))
    fields: dict[str, object] = {}
    if kind == "cron":
        trigger = cron(draw(five_fields()), zone)
    elif kind == "rrule":
        rule = draw(rules().filter(lambda text: "SECONDLY" not in text))  # walked through, it takes long
        trigger = Trigger(kind=TriggerKind.RRULE, expr=rule, timezone=zone)
    elif kind == "every":
        period_ms = draw(st.sampled_from([60_000, 90_000, HOUR_MS, 300_000])) + draw(st.sampled_from([0, 0, 1, 7_001]))
        trigger = Trigger(kind=TriggerKind.EVERY, period_ms=period_ms, mode=EveryMode.FIXED_RATE)
    else:
        trigger = Trigger(kind=TriggerKind.AT, at_ms=start_ms + draw(st.integers(-HOUR_MS, 30 * HOUR_MS)))
    if kind != "at":
        if draw(st.integers(0, 3)) == 0:
            fields["starts_at_ms"] = start_ms + draw(st.integers(-HOUR_MS, 10 * HOUR_MS))
        if draw(st.integers(0, 3)) == 0:
            fields["ends_at_ms"] = start_ms + draw(st.integers(-HOUR_MS, 20 * HOUR_MS))
        if draw(st.integers(0, 3)) == 0:
            fields |= {"calendar": "c", "calendar_moves": draw(st.booleans())}
    trigger = msgspec.structs.replace(trigger, **fields)
    try:
        validate(trigger, now_ms=start_ms)
    except TriggerError:
        assume(False)
    if trigger.starts_at_ms is not None and kind != "at":
        anchor_ms = trigger.starts_at_ms  # as of any job: its grid begins there
    content = msgspec.json.encode(draw(st.sampled_from(CALENDARS))) if trigger.calendar else None
    from_ms = start_ms + draw(st.sampled_from([0, 0, 1, 17 * 60_000]))
    return Source(trigger, from_ms, anchor_ms, draw(st.integers(1, 9)), content)


def walked(source: Source, window: Window) -> set[int]:
    found: set[int] = set()
    at_ms: int | None = max(window.low_ms, source.from_ms) - 1
    while at_ms is not None:
        at_ms = next_nominal(
            source.trigger,
            at_ms,
            anchor_ms=source.anchor_ms,
            hash_id=source.hash_id,
            calendar=source.calendar,
        )
        if at_ms is None or at_ms >= window.high_ms:
            break
        found.add(at_ms)
    return found


def spread(due: tuple[Due, ...]) -> Counter[int]:
    return Counter({step: times for first, end, times in due for step in range(first, end)})


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_counted_as_walked(data: st.DataObject) -> None:
    start_ms = data.draw(st.sampled_from(NIGHTS))
    step_ms = data.draw(st.sampled_from([60_000, 300_000, 900_000, HOUR_MS]))
    window = Window(start_ms - start_ms % step_ms, step_ms, data.draw(st.integers(1, 8 * HOUR_MS // step_ms)))
    several = [data.draw(sources(window.low_ms)) for _ in range(data.draw(st.integers(1, 3)))]
    times = set().union(*(walked(source, window) for source in several))
    counted = runs_of(due_in(several, window))
    assert spread(counted) == Counter(window.bucket(at_ms) for at_ms in times)
    assert all(one.times for one in counted)
    assert [one.first for one in counted] == sorted(one.first for one in counted)


def test_of_several_that_are_due_each_second_a_shared_time_is_one() -> None:
    """More than are listed at once lie in one step: it is parted until they are."""
    window = Window(ms("2027-03-28T00:00Z"), HOUR_MS, 1)
    several = [Source(cron(expr), window.low_ms, 0, 0) for expr in ("* * * * * *", "*/2 * * * * *")]
    assert LISTED_SEVERAL < 3_600
    assert runs_of(due_in(several, window)) == (Due(0, 1, 3_600),)


def test_too_many_of_several_count_for_each() -> None:
    window = Window(ms("2027-03-28T00:00Z"), HOUR_MS, 24)
    several = [Source(cron("* * * * * *"), window.low_ms, 0, 0)] * 2
    assert runs_of(due_in(several, window)) == (Due(0, 24, 7_200),)


@pytest.mark.parametrize("period_ms", [1_000, 61_000, 2 * HOUR_MS])
def test_a_fixed_rate_costs_a_piece_for_each_step(period_ms: int) -> None:
    window = Window(ms("2027-03-28T00:00Z"), HOUR_MS, 1_000)
    trigger = Trigger(kind=TriggerKind.EVERY, period_ms=period_ms)
    pieces = list(due_in([Source(trigger, window.low_ms, window.low_ms - 1, 0)], window))
    assert len(pieces) <= 1_000
    assert sum(count for _, count in pieces) == 1_000 * HOUR_MS // period_ms


def test_what_is_due_each_second_is_not_walked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_counts, "next_nominal", None)  # nothing can be listed
    window = Window(ms("2027-03-27T00:00Z"), HOUR_MS, 48)
    source = Source(cron("* * * * * *", "Europe/Madrid"), window.low_ms, 0, 0)
    assert runs_of(due_in([source], window)) == (Due(0, 48, 3_600),)
