from __future__ import annotations

import pytest

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule import Occurrence, next_nominal, preview
from tests.support.cron_times import cron, ms

MADRID = "Europe/Madrid"


def notes(expr: str, zone: str, start: str, count: int) -> list[str | None]:
    return [occurrence.note for occurrence in preview(cron(expr, zone), ms(start), count)]


@pytest.mark.parametrize(
    "expr, zone, start, expected",
    [
        (
            "30 2 * * *", MADRID, "2027-03-27T12:00Z",
            ["DST: 02:30 does not exist on this day; runs at 03:00", None],
        ),
        (
            "0,30 2-3 * * *", MADRID, "2027-03-27T12:00Z",
            ["DST: 02:00 and 02:30 do not exist on this day; runs at 03:00", None],
        ),
        (
            "0-50/10 2 * * *", MADRID, "2027-03-27T12:00Z",
            ["DST: 02:00 to 02:50 do not exist on this day; runs at 03:00", None],
        ),
        (
            "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z",
            ["DST: 02:15 does not exist on this day; runs at 02:30", None],
        ),
        (
            "20 30 2 * * *", MADRID, "2027-03-27T12:00Z",
            ["DST: 02:30:20 does not exist on this day; runs at 03:00:00", None],
        ),
        (
            "30 2 * * *", MADRID, "2026-10-24T12:00Z",
            ["DST: 02:30 happens twice on this day; runs once, the first time", None],
        ),
        (
            "*/30 * * * *", MADRID, "2026-10-24T23:59Z",
            [
                "DST: 02:00 happens twice on this day; this is the first time",
                "DST: 02:30 happens twice on this day; this is the first time",
                "DST: 02:00 happens twice on this day; this is the second time",
                "DST: 02:30 happens twice on this day; this is the second time",
                None,
            ],
        ),
        (
            "*/30 * * * *", MADRID, "2027-03-28T00:15Z",
            [None, "DST: 02:00 and 02:30 do not exist on this day; nothing runs for that", None],
        ),
        (
            "*/20 2 * * *", MADRID, "2027-03-27T12:00Z",
            ["DST: 02:00 to 02:40 do not exist on the day the clocks went forward; nothing runs for that", None],
        ),
        ("0 3 * * *", MADRID, "2027-03-27T12:00Z", [None, None]),
        ("0 3 * * *", MADRID, "2026-10-24T12:00Z", [None, None]),
        ("30 1 * * *", MADRID, "2026-10-24T12:00Z", [None, None]),
        ("30 2 * * *", "UTC", "2027-03-27T12:00Z", [None, None]),
        ("30 2 * * *", "Asia/Kathmandu", "2027-03-27T12:00Z", [None, None]),
    ],
)  # fmt: skip
def test_notes(expr: str, zone: str, start: str, expected: list[str | None]) -> None:
    assert notes(expr, zone, start, len(expected)) == expected


def test_times_are_those_of_next_nominal() -> None:
    trigger = cron("H */6 * * *", MADRID)
    at: int | None = ms("2026-10-20T00:00Z")
    assert at is not None
    for occurrence in preview(trigger, at, 100, hash_id=9):
        at = next_nominal(trigger, at, hash_id=9)
        assert occurrence.at_ms == at


def test_other_kinds_and_ends() -> None:
    assert preview(Trigger(kind=TriggerKind.AT, at_ms=500), 0, 10) == [Occurrence(500, None)]
    assert preview(Trigger(kind=TriggerKind.AT, at_ms=500), 500, 10) == []
    assert preview(Trigger(kind=TriggerKind.MANUAL), 0, 10) == []
    every = Trigger(kind=TriggerKind.EVERY, period_ms=1000, max_runs=2)
    assert preview(every, 0, 10) == [Occurrence(1000, None), Occurrence(2000, None)]
    assert len(preview(cron("* * * * *"), 0, 10_000)) == 100
    assert preview(cron("* * * * *"), 0, 0) == []
    assert len(preview(cron("*/5 * * * *", MADRID), -(2**61), 2)) == 2
    assert preview(cron("* * * * *"), 2**61, 2) == []
