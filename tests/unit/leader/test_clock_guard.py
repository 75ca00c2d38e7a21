"""The leader's watch over its own wall clock."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.cluster_settings import Settings
from raftsched.core.commands import Fire, PutSettings
from raftsched.leader.liveness.clock_guard import PATIENCE_AFTER_SET_MS, PATIENCE_MS, ClockGuard
from tests.support.memory_view import every
from tests.unit.leader.house import House

WALL, BOOT = 1_800_000_000_000, 1_000_000
LIMIT_MS = Settings().clock_limit_ms


def test_a_clock_that_was_set_is_noticed_once_and_waits_for_the_others() -> None:
    guard = ClockGuard(WALL, BOOT, LIMIT_MS)
    assert not guard.jumped(WALL + 100, BOOT + 100)
    assert not guard.jumped(WALL + 200 + LIMIT_MS, BOOT + 200), "slewing and scheduling delays are no jump"
    for wall in (WALL + 3_600_000, WALL):
        assert guard.jumped(wall, BOOT + 300)
        assert not guard.jumped(wall, BOOT + 300)
        assert not guard.measured(BOOT + 300 + PATIENCE_MS - 1, [None, None])
        assert not guard.measured(BOOT + 300 + PATIENCE_MS - 1, [None, 3_600_000]), "known, and not of our opinion"
        assert guard.measured(BOOT + 300 + PATIENCE_MS - 1, [None, 3])
        assert guard.measured(BOOT + 300 + PATIENCE_MS, [None, 3_600_000]), "one against one"


def test_a_clock_that_was_set_is_not_taken_for_right_because_nobody_can_be_asked() -> None:
    hour = 3_600_000
    guard = ClockGuard(WALL, BOOT, LIMIT_MS)
    assert guard.measured(BOOT + PATIENCE_MS, [None, None]), "nobody has set it"
    assert guard.jumped(WALL + hour, BOOT)
    assert not guard.measured(BOOT + PATIENCE_AFTER_SET_MS - 1, [None, None])
    assert guard.measured(BOOT + PATIENCE_AFTER_SET_MS, [None, None])
    assert guard.jumped(WALL, BOOT), "set back again"
    assert guard.measured(BOOT + PATIENCE_MS, [None, None])
    assert ClockGuard(WALL, BOOT, LIMIT_MS).measured(BOOT, []), "alone"


@pytest.mark.parametrize(
    ("offsets", "off"),
    [
        ([], False),
        ([None, None], False),
        ([-3_600_000, None], False),  # one against one
        ([-3_600_000, -3_600_010], True),
        ([3_600_000, -3_600_000], False),  # three opinions
        ([LIMIT_MS, LIMIT_MS], False),
        ([LIMIT_MS + 1, LIMIT_MS + 1], True),
        ([0, -3_600_000], False),  # the other one is wrong
        ([900, 950, None, 0], False),
        ([900, 950, 1_000, 0], True),
    ],
)
def test_off_is_what_a_majority_agrees_on(offsets: list[int | None], off: bool) -> None:
    assert ClockGuard(WALL, BOOT, LIMIT_MS).off(offsets) is off


def test_with_one_other_left_the_clock_of_before_decides() -> None:
    hour = 3_600_000
    guard = ClockGuard(WALL, BOOT, LIMIT_MS)
    assert guard.jumped(WALL + hour, BOOT)
    assert not guard.off([None, None])
    assert not guard.off([]), "alone"
    assert guard.off([-hour + 20, None]), "the other, and ours until now"
    assert not guard.off([-5 * hour, None]), "three opinions"
    assert not guard.off([-hour, 0]), "one agrees with what was set"
    assert guard.jumped(WALL, BOOT), "set back again"
    assert not guard.off([-hour, None])
    assert guard.jumped(WALL + hour, BOOT)
    assert guard.measured(BOOT, [0, None]), "all were set alike"
    assert not guard.off([-hour, None])


def test_with_one_other_left_the_time_of_the_leader_before_decides() -> None:
    """A new leader's clock may have been set before it led."""
    hour = 3_600_000
    guard = ClockGuard(WALL, BOOT, LIMIT_MS, ahead_ms=-hour)
    assert not guard.off([None, None]), "nobody was asked yet"
    assert guard.off([hour + 20, None]), "the other, and the leader before"
    assert not guard.off([3, None]), "the other agrees with us: the leader before was wrong"
    assert guard.measured(BOOT, [3, None])
    assert not guard.off([hour, None])


def test_a_new_leader_whose_clock_is_wrong_gives_leadership_away_with_one_of_three_down() -> None:
    async def scenario() -> None:
        hour = 3_600_000
        for ahead, offset, given_away in ((-hour, hour, True), (0, hour, False), (-hour, 0, False)):
            desk = House()
            desk.ahead = ahead
            desk.offsets = [offset, None]
            desk.lead()
            await desk.tick()
            assert (desk.stepped_down > 0) is given_away
            assert (desk.trusted > 0) is (offset == 0), "before it is known whose time is right nobody's is taken"

    asyncio.run(scenario())


def test_nothing_fires_after_a_jump_until_the_others_agree() -> None:
    async def scenario() -> None:
        desk = House()
        desk.session()
        desk.create(every(60_000))
        desk.lead()
        await desk.until_idle()
        desk.remeasured = [None, None]
        desk.clock.wall += 3_600_000
        await desk.tick()
        assert desk.commands(Fire) == []
        desk.offsets = [-3_600_000, -3_600_000]
        await desk.tick()
        assert desk.stepped_down == 1
        assert desk.commands(Fire) == []
        desk.offsets = [0, 0]  # all were set alike
        await desk.until_idle()
        assert len(desk.commands(Fire)) == 1

    asyncio.run(scenario())


def test_a_leader_whose_disk_hangs_gives_leadership_away() -> None:
    async def scenario() -> None:
        desk = House()
        desk.lead()
        desk.turn_age = 4_499
        await desk.tick()
        assert desk.stepped_down == 0
        desk.turn_age = 4_500
        await desk.tick()
        assert desk.stepped_down == 1

    asyncio.run(scenario())


def test_the_limit_is_a_setting_and_counts_at_once() -> None:
    async def scenario() -> None:
        desk = House()
        desk.offsets = [-700, -700]
        desk.do(PutSettings(Settings(clock_limit_ms=1_000)))
        desk.lead()
        await desk.tick()
        assert desk.stepped_down == 0
        desk.do(PutSettings(Settings(clock_limit_ms=600)))
        await desk.tick()
        assert desk.stepped_down == 1

    asyncio.run(scenario())
