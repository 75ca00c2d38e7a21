from __future__ import annotations

from typing import Any

import pytest

from raftsched.core.model import EveryMode, Trigger, TriggerKind
from raftsched.schedule import Missed, missed, next_nominal
from tests.support.cron_times import cron, following, ms, rrule, within

DAY = 86_400_000


def every(period_ms: int, **more: Any) -> Trigger:
    return Trigger(kind=TriggerKind.EVERY, period_ms=period_ms, **more)


def delay(period_ms: int, **more: Any) -> Trigger:
    return every(period_ms, mode=EveryMode.FIXED_DELAY, **more)


def test_at_and_in_come_once() -> None:
    at = Trigger(kind=TriggerKind.AT, at_ms=5000)
    assert following(at, 0, 3) == [5000]
    assert next_nominal(at, 4999) == 5000
    assert next_nominal(at, 5000) is None
    after = Trigger(kind=TriggerKind.IN, period_ms=3000)
    assert following(after, 10_000, 3, anchor_ms=10_000) == [13_000]
    assert next_nominal(Trigger(kind=TriggerKind.MANUAL), 0) is None


def test_fixed_rate_keeps_to_the_grid() -> None:
    trigger = every(7000)
    assert following(trigger, 100_000, 3, anchor_ms=100_000) == [107_000, 114_000, 121_000]
    assert next_nominal(trigger, 113_999, anchor_ms=100_000) == 114_000
    assert next_nominal(trigger, 114_000, anchor_ms=100_000) == 121_000
    bounded = every(7000, starts_at_ms=100_000, ends_at_ms=114_000)
    assert following(bounded, 5, 9, anchor_ms=100_000) == [100_000, 107_000, 114_000]


def test_fixed_delay_counts_from_the_end_of_the_run() -> None:
    trigger = delay(7000)
    assert next_nominal(trigger, 103_500, anchor_ms=100_000) == 110_500
    assert next_nominal(delay(7000, ends_at_ms=110_499), 103_500, anchor_ms=100_000) is None
    assert next_nominal(delay(7000, starts_at_ms=200_000), 100_000, anchor_ms=200_000) == 200_000


def test_cron_bounds_are_inclusive() -> None:
    first, last = ms("2026-10-01T00:00Z"), ms("2026-10-03T00:00Z")
    trigger = cron("@daily", starts_at_ms=first, ends_at_ms=last)
    assert following(trigger, 0, 9) == [first, first + DAY, last]
    assert following(cron("@daily", starts_at_ms=first + 1, ends_at_ms=last - 1), 0, 9) == [first + DAY]
    assert next_nominal(trigger, last) is None


def test_within_a_second() -> None:
    at = ms("2026-10-01T00:00:01Z")
    trigger = cron("* * * * * *")
    assert next_nominal(trigger, at - 1) == at
    assert next_nominal(trigger, at) == at + 1000
    assert next_nominal(trigger, at + 999) == at + 1000


@pytest.mark.parametrize("keep", [0, 1, 2, 5, 100])
@pytest.mark.parametrize(
    "trigger",
    [
        cron("*/7 * * * *", "Europe/Madrid"),
        cron("30 2 * * *", "Europe/Madrid"),
        rrule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "Europe/Madrid"),
        rrule("FREQ=MINUTELY;INTERVAL=7", "Europe/Madrid"),
        rrule("FREQ=DAILY;COUNT=4", starts_at_ms=ms("2026-10-19T12:00Z")),
        rrule("FREQ=HOURLY;UNTIL=20261025T013000Z", "Europe/Madrid"),
        cron("0 0 29 2 *"),
        cron("* * * * * *", starts_at_ms=ms("2026-10-25T00:00Z"), ends_at_ms=ms("2026-10-25T00:20Z")),
        every(3_600_000),
        every(5_000_000, ends_at_ms=ms("2026-10-25T00:00Z")),
        Trigger(kind=TriggerKind.AT, at_ms=ms("2026-10-25T00:00Z")),
        Trigger(kind=TriggerKind.MANUAL),
    ],
)
def test_missed_is_what_one_would_walk_through(trigger: Trigger, keep: int) -> None:
    after, until = ms("2026-10-20T11:22:33Z"), ms("2026-10-27T03:00Z")
    times = within(trigger, after + 1, until + 1, anchor_ms=7)
    assert missed(trigger, after, until, keep=keep, anchor_ms=7) == Missed(
        tuple(times[-keep:] if keep else ()), len(times), times[-1] if times else None
    )


def test_missed_is_strict_after_and_inclusive_until() -> None:
    first, second = ms("2026-10-01T00:00Z"), ms("2026-10-02T00:00Z")
    assert missed(cron("@daily"), first, second, keep=9).times == (second,)
    assert missed(cron("@daily"), first, second - 1, keep=9) == Missed((), 0, None)
    assert missed(cron("@daily"), first - 1, second, keep=9).times == (first, second)
    assert missed(cron("@daily"), second, first, keep=9) == Missed((), 0, None)
    assert missed(every(DAY), first, second, keep=9, anchor_ms=first).times == (second,)


def test_missed_over_decades() -> None:
    """More than a thousand million of them: counted, not visited."""
    until = ms("2026-09-21T14:13:20Z")
    gone = missed(cron("* * * * * *", "Europe/Madrid"), -1, until, keep=3)
    assert gone.count == until // 1000 + 1
    assert gone.times == (until - 2000, until - 1000, until)
    sparse = missed(cron("0 0 29 2 *"), -1, ms("2099-12-31T00:00Z"), keep=2)
    assert sparse.count == 32
    assert sparse.times == (ms("2092-02-29T00:00Z"), ms("2096-02-29T00:00Z"))
    assert missed(cron("@yearly"), -1, 2**62, keep=1).until_ms == ms("2099-01-01T00:00Z")
