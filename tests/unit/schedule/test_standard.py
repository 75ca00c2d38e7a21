"""What croniter reads of a cron expression, and what it does not: each difference, with what it alone makes of it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import product
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadCronError, croniter

from raftsched.schedule import TriggerError, fields, standard
from raftsched.schedule.expression import EXPR_MAX, parse
from raftsched.schedule.fields import parse_field
from tests.support.cron_times import cron, following

KINDS = [fields.SECOND, fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, fields.WEEKDAY]


def alone(expr: str, place: int, *, seconds: bool = False) -> list[int | str]:
    return list(croniter.expand(expr, second_at_beginning=seconds)[0][place])


def given_to_croniter(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    real = croniter.expand

    def expand(text: str, **options: Any) -> Any:
        texts.append(text)
        return real(text, **options)

    standard.numbers.cache_clear()
    monkeypatch.setattr(standard.croniter, "expand", expand)
    return texts


@pytest.mark.parametrize(
    "expr, given",
    [
        ("*/5 2-4 1,15 JAN MON-FRI", "0 */5 2-4 1,15 JAN MON-FRI"),
        ("30 */5 2-4 1,15 * 7", "30 */5 2-4 1,15 * 7"),
        ("@daily", "0 0 0 * * *"),
        ("22-4 23-2 * NOV-FEB FRI-MON", "0 22-4 23-2 * NOV-FEB FRI-MON"),
        # field by field
        ("5-5 2 L-2,15W 10-3/4 MON#2", "0 - 2 - - -"),
        ("H H(0-7) * * *", "0 - - * * *"),
        ("0 0 */10 * 2/3", "0 0 0 */10 * -"),
        ("0 0 * * 7-0", "0 0 0 * * -"),
    ],
)
def test_what_is_cron_everywhere_goes_to_croniter(expr: str, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field in its place; `-`: it does not."""
    texts = given_to_croniter(monkeypatch)
    parse(expr, "", 7)
    stars = ["*"] * 6
    wanted = [(place, text) for place, text in enumerate(given.split()) if text != "-"]
    assert texts == [" ".join([*stars[:place], text, *stars[place + 1 :]]) for place, text in wanted]


@pytest.mark.parametrize(
    "expr, dialect", [("0 0 12 * * MON 2030", ""), ("0 0 12 * * 2", "quartz"), ("0 12 ? * MON", "")]
)
def test_what_quartz_writes_does_not(expr: str, dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = given_to_croniter(monkeypatch)
    parse(expr, dialect, 7)
    assert texts == []


def test_the_numbers_are_those_of_croniter(monkeypatch: pytest.MonkeyPatch) -> None:
    standard.numbers.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(standard.croniter, "expand", lambda *_, **__: ([[7], [8], ["*"], ["*"], [1, 2], [9]], {}))
        found = parse("1 2 * * 3", "", 0)
    standard.numbers.cache_clear()
    times = found.times
    assert (times.seconds, times.minutes, times.hours, times.months) == ((9,), (7,), (8,), tuple(range(1, 13)))
    assert times.days.weekday.values == {1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_both_readers_agree_on_what_croniter_is_given(kind: fields.Kind) -> None:
    """Every value and range, with steps: `fields` reads all of it too, and says what is wrong."""
    values = range(kind.high + 2)
    texts = ["*", *(f"*/{step}" for step in range(kind.high + 3)), *(f"{a}/{s}" for a in values for s in (0, 1, 5, 7))]
    texts += [f"{a}-{b}" for a, b in product(values, values)]
    texts += [f"{a}-{b}/{s}" for a, b in product(values, values) for s in (0, 2, 3, 7, kind.span)]
    texts += [*kind.names, *(f"{a}-{b}" for a, b in product(kind.names, kind.names))]
    read = 0
    for text in texts:
        if not standard.understands(kind, text):
            continue
        try:
            expected = parse_field(kind, text, 0).values
        except TriggerError:
            with pytest.raises(standard.NotCron):
                standard.numbers(kind, text)
        else:
            assert standard.numbers(kind, text) == expected, text
            read += 1
    assert read > len(texts) // 3


class TestWhatIsOurs:
    """What croniter alone does, and what is done here."""

    @pytest.mark.parametrize(
        "text, place, theirs, ours",
        [
            ("5-5 * * * *", 0, ["*"], {5}),
            ("* 5-5/10 * * *", 1, [0, 10, 20], {5}),
            ("0 0 1 * MON-MON", 4, [0, 1, 2, 3, 4, 5, 6], {1}),
            ("0 0 * JAN-JAN *", 3, ["*"], {1}),
            ("0 0 1 * 7-0", 4, [0, 1, 2, 3, 4, 5, 6], {0}),
            ("0 0 * 10-3/4 *", 3, [3, 10], {2, 10}),
            ("0 0 * * 2/3", 4, [2, 5], {2, 5}),
            ("0 0 * * 1/3", 4, [1, 4], {0, 1, 4}),
            ("0 0 * * 7/2", 4, [0, 2, 4, 6], {0}),
        ],
    )
    def test_ranges(self, text: str, place: int, theirs: list[int | str], ours: set[int]) -> None:
        assert alone(text, place) == theirs
        times = parse(text, "", 0).times
        assert (times.minutes, times.hours, (), times.months, times.days.weekday.values)[place] in (ours, tuple(ours))

    def test_days_of_the_month_that_end_before_they_begin(self) -> None:
        assert alone("0 0 30-2 * *", 2) == [1, 2, 30, 31]
        with pytest.raises(TriggerError, match="write two, like 30-31,1-2"):
            parse("0 0 30-2 * *", "", 0)

    def test_steps_in_a_day_field(self) -> None:
        """`*/10` and Monday: croniter takes either, crontab(5) both."""
        start = datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
        theirs = croniter("0 0 */10 * MON", start, ret_type=datetime)
        assert [theirs.get_next().day for _ in range(3)] == [28, 1, 5]
        ours = following(cron("0 0 */10 * MON"), round(start.timestamp() * 1000), 3)
        days = [datetime.fromtimestamp(at / 1000, UTC) for at in ours]
        assert [(at.month, at.day) for at in days] == [(12, 21), (1, 11), (2, 1)]

    def test_a_range_that_ends_with_month_zero(self) -> None:
        assert alone("0 0 * 7-0 *", 3) == [7, 8, 9, 10, 11, 12]
        with pytest.raises(TriggerError, match="out of range"):
            parse("0 0 * 7-0 *", "", 0)

    @pytest.mark.parametrize("expr", ["0 0 L-2 * *", "0 0 LW * *", "0 0 1W,15W * *", "0 0 * * 5L", "0 0 * * FRIL"])
    def test_forms_of_quartz(self, expr: str) -> None:
        with pytest.raises(CroniterBadCronError):
            croniter.expand(expr)
        parse(expr, "", 0)

    def test_weekdays_of_quartz(self) -> None:
        assert alone("0 0 12 * * 2", 4, seconds=True) == [2]  # Tuesday
        assert parse("0 0 12 ? * 2", "quartz", 0).times.days.weekday.values == {1}
        assert alone("0 12 ? * 2", 4) == [2]
        with pytest.raises(TriggerError, match="two different days"):
            parse("0 12 ? * 2", "", 0)

    def test_a_year(self) -> None:
        assert alone("0 0 12 1 1 2 2030", 6, seconds=True) == [2030]
        with pytest.raises(TriggerError, match="two different days"):
            parse("0 0 12 1 1 2 2030", "", 0)

    def test_hashes(self) -> None:
        """A number of the job here, of any text there; and croniter draws lots for R, anew each time."""
        with pytest.raises(CroniterBadCronError):
            croniter.expand("H * * * *")
        assert parse("H * * * *", "", 1).times.minutes == (23,)
        assert croniter.is_valid("R * * * *")
        with pytest.raises(TriggerError, match=r"R .random. is not supported"):
            parse("R * * * *", "", 0)

    def test_seconds_are_first(self) -> None:
        assert croniter.expand("10 20 * * * *")[0][0] == [10]  # minutes
        found = parse("10 20 * * * *", "", 0).times
        assert (found.seconds, found.minutes) == ((10,), (20,))

    def test_the_hour_that_comes_twice(self) -> None:
        """What is fixed runs once."""
        madrid = ZoneInfo("Europe/Madrid")
        start = datetime(2026, 10, 25, 0, 0, tzinfo=madrid)
        theirs = croniter("30 2 * * *", start, ret_type=datetime)
        assert [theirs.get_next().astimezone(UTC).hour for _ in range(2)] == [0, 1]
        ours = following(cron("30 2 * * *", "Europe/Madrid"), round(start.timestamp() * 1000), 2)
        assert [datetime.fromtimestamp(at / 1000, UTC).day for at in ours] == [25, 26]

    def test_the_hour_that_is_left_out(self) -> None:
        """What repeats stays on its grid."""
        madrid = ZoneInfo("Europe/Madrid")
        start = datetime(2027, 3, 28, 1, 0, tzinfo=madrid)
        found = croniter("0 */2 * * *", start, ret_type=datetime)
        assert [found.get_next().strftime("%H:%M") for _ in range(2)] == ["03:00", "04:00"]
        ours = following(cron("0 */2 * * *", "Europe/Madrid"), round(start.timestamp() * 1000), 2)
        assert [datetime.fromtimestamp(at / 1000, madrid).strftime("%H:%M") for at in ours] == ["04:00", "06:00"]


@pytest.mark.parametrize(
    "expr, words",
    [
        ("60 * * * *", "out of range; allowed are 0-59"),
        ("* * * * 8", "allowed are 0-7"),
        ("* * 0 * *", "allowed are 1-31"),
        ("* * * 0 *", "allowed are 1-12 and JAN-DEC"),
        ("*/0 * * * *", "the step after / must be a whole number from 1"),
        ("1-99 * * * *", "out of range; allowed are 0-59"),
        ("00 61 * * * *", "minute field"),
    ],
)
def test_what_it_refuses_is_said_in_our_words(expr: str, words: str) -> None:
    assert not croniter.is_valid(expr, second_at_beginning=True)
    with pytest.raises(TriggerError) as caught:
        parse(expr, "", 0)
    assert words in caught.value.detail
    assert "acceptable" not in caught.value.detail


def test_what_only_croniter_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise CroniterBadCronError("[whatever] is not acceptable")

    standard.numbers.cache_clear()
    monkeypatch.setattr(standard.croniter, "expand", refuse)
    with pytest.raises(TriggerError) as caught:
        parse("1 2 3 4 5", "", 0)
    assert caught.value.detail == (
        'second field "0": not a cron field; write values, ranges and steps, like 1-5, */10 or 0,30'
    )


@pytest.mark.parametrize(
    "field",
    [",".join(["0-59"] * 49), ",".join(["*/1"] * 61), ",".join(["59-58"] * 41), "9" * 246, "0-" * 123, "*," * 123],
)
def test_the_longest_expression_is_cheap(field: str) -> None:
    """Counted in calls: some thousands, whatever the text."""
    expr = f"{field} * * * *"
    assert len(expr) <= EXPR_MAX
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += 1

    standard.numbers.cache_clear()
    sys.setprofile(count)
    try:
        parse(expr, "", 0)
    except TriggerError:
        pass
    finally:
        sys.setprofile(None)
    assert calls < 20_000


def test_a_field_is_expanded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands beside it."""
    texts = given_to_croniter(monkeypatch)
    for job in range(1, 50):
        parse("H 2 * * MON", "", job)
        parse(f"{job} 2 * * MON", "", 0)
    assert len(texts) == 49 + len(("second", "hour", "day", "month", "weekday"))
