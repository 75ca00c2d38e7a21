"""OnCalendar= of systemd, read into triggers, against a matcher of its own that looks at each second and each day."""

from __future__ import annotations

import calendar
import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from raftsched import schedule
from raftsched.api.jobs.parse import read_job
from raftsched.cluster_settings import Settings
from raftsched.core.model import Trigger
from raftsched.importers.foreign import Notes, Unmapped
from raftsched.importers.systemd.calendar import read_calendar
from raftsched.importers.wall_fields import wall_trigger
from tests.support.amounts import examples

NOW_MS = 1_795_183_656_000
DAYS = 800  # that are looked at, one by one
TIMES = 40  # that are compared
NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def component(low: int, high: int, *, back: bool = False) -> st.SearchStrategy[str]:
    """`back`: of days from the end, which a repetition counts down to the last one."""
    value = st.integers(low, high)
    step = st.integers(1, max(1, (high - low) // 2))

    def repeats(an: tuple[int, int]) -> bool:
        return an[0] - an[1] >= low if back else an[0] + an[1] <= high

    item = st.one_of(
        value.map(str),
        st.tuples(value, value).map(lambda ab: f"{min(ab)}..{max(ab)}"),
        st.tuples(value, step).filter(repeats).map(lambda an: f"{an[0]}/{an[1]}"),
        st.tuples(value, value, step).map(lambda abn: f"{min(abn[:2])}..{max(abn[:2])}/{abn[2]}"),
    )
    return st.one_of(st.just("*"), st.lists(item, min_size=1, max_size=3).map(",".join))


@st.composite
def expressions(draw: st.DrawFn) -> str:
    weekdays = draw(st.one_of(st.just(""), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(",".join),
                              st.tuples(st.integers(0, 6), st.integers(0, 6)).map(
                                  lambda ab: f"{NAMES[min(ab)]}..{NAMES[max(ab)]}")))  # fmt: skip
    month = draw(st.one_of(st.just("*"), component(1, 12)))
    separator = draw(st.sampled_from("--~"))
    day = draw(component(1, 31) if separator == "-" else component(1, 28, back=True))
    hour, minute = draw(component(0, 23)), draw(component(0, 59))
    second = draw(st.one_of(st.just("0"), component(0, 59)))
    return f"{weekdays} *-{month}{separator}{day} {hour}:{minute}:{second}".strip()


def matches(text: str, value: int) -> bool:
    """Whether a value is one of those that a component stands for."""
    if text == "*":
        return True
    for item in text.split(","):
        base, _, step = item.partition("/")
        first, _, last = base.partition("..")
        if int(first) == value or (value > int(first) and (last or step) and (not last or value <= int(last))
                                   and (value - int(first)) % int(step or 1) == 0):  # fmt: skip
            return True
    return False


def day_matches(text: str, day: date) -> bool:
    *weekdays, dated, _ = text.split()
    found = re.fullmatch(r"\*-(.*)([-~])(.*)", dated)
    assert found
    if weekdays:
        names = set()
        for part in weekdays[0].split(","):
            first, _, last = part.partition("..")
            names |= set(NAMES[NAMES.index(first) : NAMES.index(last or first) + 1])
        if NAMES[day.weekday()] not in names:
            return False
    if not matches(found[1], day.month):
        return False
    if found[2] == "-":
        return matches(found[3], day.day)
    if found[3] == "*":
        return True
    left = calendar.monthrange(day.year, day.month)[1] + 1 - day.day  # 1 on the last day
    return any(_counts_back(item, left) for item in found[3].split(","))


def _counts_back(item: str, left: int) -> bool:
    """Whether an item of days from the end holds the one with so many left, itself among them."""
    base, _, step = item.partition("/")
    first, _, last = base.partition("..")
    if last:
        return int(first) <= left <= int(last) and (left - int(first)) % int(step or 1) == 0
    return left <= int(first) and (int(first) - left) % int(step) == 0 if step else left == int(first)


def oracle(text: str, start: datetime) -> Iterator[datetime]:
    """The times after `start`, of all seconds of all days."""
    fields = zip(text.rsplit(maxsplit=1)[-1].split(":"), (24, 60, 60), strict=True)
    hours, minutes, seconds = ([value for value in range(end) if matches(part, value)] for part, end in fields)
    for number in range(DAYS):
        day = start.date() + timedelta(days=number)
        if not day_matches(text, day):
            continue
        for h, m, s in itertools.product(hours, minutes, seconds):
            at = datetime(day.year, day.month, day.day, h, m, s, tzinfo=UTC)
            if at > start:
                yield at


def trigger_of(text: str) -> Trigger | None:
    """What a node makes of it; None: it is refused."""
    try:
        fields, zone = read_calendar(text)
        made = wall_trigger(fields, zone or "UTC", NOW_MS, Notes())
    except Unmapped:
        return None
    job = {"name": "x", "trigger": made, "handler": {"shell": "x"}}
    return read_job(json.dumps(job).encode(), Settings(), NOW_MS).policy.trigger


@settings(max_examples=examples(100), deadline=None)
@given(expressions(), st.datetimes(datetime(2027, 1, 1), datetime(2032, 1, 1)))
def test_a_trigger_is_due_when_the_expression_matches(text: str, begin: datetime) -> None:
    trigger = trigger_of(text)
    if trigger is None:
        return
    start = begin.replace(microsecond=0, tzinfo=UTC)
    expected = [round(at.timestamp() * 1000) for at, _ in zip(oracle(text, start), range(TIMES), strict=False)]
    found: list[int] = []
    at_ms: int | None = round(start.timestamp() * 1000)
    end_ms = round((start + timedelta(days=DAYS - 1)).timestamp() * 1000)
    while len(found) < TIMES and at_ms is not None:
        at_ms = schedule.next_nominal(trigger, at_ms, anchor_ms=NOW_MS)
        if at_ms is None or at_ms >= end_ms:
            break
        found.append(at_ms)
    assert found == [at for at in expected if at < end_ms][: len(found)], text
    assert len(found) == TIMES or len(found) == len([at for at in expected if at < end_ms]), text


def test_most_expressions_can_be_said() -> None:
    texts = ["Mon..Fri *-*-* 2:30:0", "*-*~1 0:0:0", "Fri *-1/3-13 9..17/2:0/15:0", "Mon *-*~7/1 4:0:0",
             "*-2-29 0:0:0", "Sat,Sun *-*-* *:*:0/10", "*-*-1..7/2 23:59:59"]  # fmt: skip
    assert all(trigger_of(text) is not None for text in texts)
