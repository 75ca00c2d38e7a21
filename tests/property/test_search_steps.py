"""Whatever a rule or a cron expression asks for: to say whether it is ever due takes a bounded number of steps, and the
steps stand for the work that is done."""

from __future__ import annotations

import sys
from contextlib import suppress
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import Steps, TriggerError, next_nominal, rule, rule_times, validate
from raftsched.schedule.budget import STEPS_MAX
from raftsched.schedule.rule_text import RULE_MAX
from tests.support.amounts import examples

NOW_MS = 1_795_000_000_000
ZONES = ["UTC", "Europe/Madrid", "Australia/Lord_Howe", "Africa/Casablanca"]
DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
INTERVALS = st.one_of(
    st.sampled_from([1, 2, 7, 13, 59, 61, 90, 1_439, 1_441, 9_973, 86_399, 86_401, 604_801, 999_983, 1_000_000]),
    st.integers(1, 1_000_000),
)
COUNTS = st.one_of(st.sampled_from([1, 100, 5_000, 100_000, 10**6, 999_999_999]), st.integers(1, 10**9))
CALLS_A_STEP = 12  # of Python, and of what is written in C
CALLS_APART = 25_000  # to read the text, find the changes of a zone, and what is done once for a rule


def _some(draw: st.DrawFn, values: list[int]) -> str:
    few = st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)
    most = st.lists(st.sampled_from(values), max_size=3, unique=True).map(
        lambda left_out: [value for value in values if value not in left_out][:60]
    )
    return ",".join(str(value) for value in draw(st.one_of(few, most)))


@st.composite
def dear_rules(draw: st.DrawFn) -> str:
    """Rules that the format allows, of any interval and count, and lists as long as they can be."""
    freq = draw(st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]))
    parts = [f"INTERVAL={draw(INTERVALS)}"]
    for name, values in (
        ("BYMONTH", list(range(1, 13))),
        ("BYMONTHDAY", [1, 29, 30, 31, -1, -29, -30, -31]),
        ("BYYEARDAY", [1, 60, 365, 366, -1, -366]),
        ("BYHOUR", list(range(24))),
        ("BYMINUTE", list(range(60))),
        ("BYSECOND", list(range(60))),
        ("BYSETPOS", [1, -1, 8, 366, -366]),
    ):
        if draw(st.integers(1, 3)) == 1:
            parts.append(f"{name}={_some(draw, values)}")
    if draw(st.integers(1, 3)) == 1:
        days = draw(st.lists(st.sampled_from(DAYS), min_size=1, unique=True))
        if freq in ("YEARLY", "MONTHLY") and draw(st.booleans()):
            days = [f"{draw(st.sampled_from([1, 5, -1, -5]))}{day}" for day in days]
        parts.append("BYDAY=" + ",".join(days))
        if freq == "YEARLY" and draw(st.booleans()):
            parts.append("BYWEEKNO=" + _some(draw, [1, 52, 53, -1, -53]))
    if draw(st.booleans()):
        parts.append(f"COUNT={draw(COUNTS)}")
    return ";".join([f"FREQ={freq}", *parts])[:RULE_MAX]


def forget() -> None:
    for cached in (rule._recurrence, rule._endless, rule._last, rule_times._allowed):
        cached.cache_clear()


def calls_of(trigger: Trigger) -> tuple[int, int]:
    """How many calls it takes to say whether a trigger is valid, of which nothing is known; and how many steps. What is
    known makes no difference to these."""
    with suppress(TriggerError):
        validate(trigger, now_ms=NOW_MS)  # what a zone's clocks do is read once in a process, whatever the rule
    forget()
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    refused = False
    with Steps() as steps:
        sys.setprofile(count)
        try:
            validate(trigger, now_ms=NOW_MS)
        except TriggerError:
            refused = True
        finally:
            sys.setprofile(before)
    # What ends in the middle may not have paid yet for what it had made.
    assert steps.done >= steps.total if refused else steps.done == steps.total
    warm = searched(trigger)
    forget()
    assert searched(trigger) == warm
    with Steps() as again, suppress(TriggerError):
        validate(trigger, now_ms=NOW_MS)
    assert again.total == steps.total
    return calls, steps.total


def searched(trigger: Trigger) -> tuple[int, int]:
    """The steps of a search: its own, and all."""
    with Steps(STEPS_MAX) as steps, suppress(TriggerError):
        next_nominal(trigger, NOW_MS, anchor_ms=NOW_MS)
    return steps.spent, steps.total


@settings(max_examples=examples(300), deadline=None, print_blob=True)
@given(
    text=dear_rules(),
    zone=st.sampled_from(ZONES),
    starts_at_ms=st.one_of(st.none(), st.integers(0, NOW_MS), st.just(0), st.integers(NOW_MS, 4 * 10**12)),
)
def test_each_rule_is_read_in_bounded_steps(text: str, zone: str, starts_at_ms: int | None) -> None:
    calls, steps = calls_of(Trigger(kind=TriggerKind.RRULE, expr=text, timezone=zone, starts_at_ms=starts_at_ms))
    # its COUNT and its next time are searches of their own, and so is the reason why there is none
    assert steps <= 3 * STEPS_MAX
    assert calls <= CALLS_A_STEP * steps + CALLS_APART


FIELDS = st.tuples(
    st.sampled_from(["0", "*", "59", "*/7", "0-58", "H"]),
    st.sampled_from(["0", "*", "2", "*/5", "23"]),
    st.sampled_from(["*", "29", "30", "31", "L", "LW", "L-30", "1W", "31W", "?", "29,30"]),
    st.sampled_from(["*", "2", "4", "2,4", "JAN"]),
    st.sampled_from(["*", "MON", "MON#5", "FRI#5", "SUNL", "?", "SAT"]),
)


@settings(max_examples=examples(150), deadline=None, print_blob=True)
@given(fields=FIELDS, year=st.sampled_from([None, "2099", "1970-2099/7", "2096"]), zone=st.sampled_from(ZONES))
def test_so_is_each_cron_expression(fields: tuple[str, ...], year: str | None, zone: str) -> None:
    text = " ".join(fields if year is None else ("0", *fields, year))
    calls, steps = calls_of(Trigger(kind=TriggerKind.CRON, expr=text, timezone=zone))
    assert steps <= STEPS_MAX
    assert calls <= CALLS_A_STEP * steps + CALLS_APART
