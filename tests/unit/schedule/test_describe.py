from __future__ import annotations

import pytest

from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule import describe
from raftsched.schedule.describe import describe_cron, duration_text
from tests.support.cron_times import cron, ms
from tests.support.crontab_lines import schedules


@pytest.mark.parametrize(
    "expr, expected",
    [
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/15 * * * *", "every 15 minutes"),
        ("7-59/10 * * * *", "every 10 minutes from minute 7"),
        ("*/6 * * * * *", "every 6 seconds"),
        ("0,30 * * * * *", "at seconds 0 and 30 of every minute"),
        ("@hourly", "every hour"),
        ("0 */2 * * *", "every 2 hours"),
        ("3 * * * *", "at minute 3 of every hour"),
        ("5,20 * * * *", "at minutes 5 and 20 of every hour"),
        ("*/7 * * * *", "at minutes 0, 7, .. 56 of every hour"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("*/15 9-16 * * 1-5", "every 15 minutes during 09:00-16:59 on Monday to Friday"),
        ("@daily", "at 00:00 every day"),
        ("0 2 * * 1-5", "at 02:00 on Monday to Friday"),
        ("30 4 * * 0,6", "at 04:30 on Saturday and Sunday"),
        ("0 0,12 1 * *", "at 00:00 and 12:00 on day 1 of the month"),
        ("10 30 2 * * *", "at 02:30:10 every day"),
        ("0 0 */10 * MON", "at 00:00 on days 1, 11, .. 31 of the month if it is on Monday"),
        ("0 0 1,15 * MON", "at 00:00 on days 1 and 15 of the month and also on Monday"),
        ("0 0 1-31 * MON", "at 00:00 every day"),
        (
            "0 0 L-2,15W * *",
            "at 00:00 on the last day but 2 and the working day nearest to day 15 of the month",
        ),
        ("0 0 LW JAN-MAR *", "at 00:00 on the last working day of the month in January to March"),
        ("0 0 * * 5L", "at 00:00 on the last Friday of the month"),
        ("0 0 * * MON#2", "at 00:00 on the second Monday of the month"),
        ("0 0 0 1 1 ? 2030", "at 00:00 on day 1 of the month in January in 2030"),
    ],
)
def test_cron(expr: str, expected: str) -> None:
    assert describe_cron(expr) == expected


def test_hashed_says_so() -> None:
    assert "example" in describe(cron("H H * * *"))
    assert "example" not in describe(cron("H H * * *"), hash_id=3)


def test_other_kinds() -> None:
    every = Trigger(
        kind=TriggerKind.EVERY,
        period_ms=90_000,
        jitter_ms=5000,
        max_runs=3,
        ends_at_ms=ms("2027-01-01T00:00Z"),
    )
    assert describe(every) == "every 1m30s, each delayed by up to 5s, until 2027-01-01 00:00:00 UTC, 3 times at most"
    delay = Trigger(kind=TriggerKind.EVERY, period_ms=90_000, mode=EveryMode.FIXED_DELAY)
    assert describe(delay) == "1m30s after the end of each run"
    assert describe(Trigger(kind=TriggerKind.IN, period_ms=1_800_000)) == "once, 30m after it is accepted"
    assert describe(Trigger(kind=TriggerKind.AT, at_ms=0)) == "once, at 1970-01-01 00:00:00 UTC"
    assert describe(Trigger(kind=TriggerKind.MANUAL)) == "only when asked to run"
    assert describe(cron("@daily", "Europe/Madrid")) == "at 00:00 every day, Europe/Madrid time"


def test_durations() -> None:
    assert [duration_text(t) for t in (0, 250, 1000, 61_000, 90_061_001, -5000)] == [
        "0s", "250ms", "1s", "1m1s", "1d1h1m1s1ms", "-5s",
    ]  # fmt: skip


def test_every_real_line_has_words() -> None:
    for line in schedules():
        text = describe(cron(line.expr, line.zone))
        assert text.endswith(f", {line.zone} time"), line.label
        assert len(text) < 200
        assert "  " not in text
