"""The leader's watch over its own wall clock."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.core.commands import Fire
from raftsched.leader.clockguard import LIMIT_MS, PATIENCE_MS, ClockGuard
from tests.support.memory_view import every
from tests.unit.leader.test_leader import House

WALL, BOOT = 1_800_000_000_000, 1_000_000


def test_a_clock_that_was_set_is_noticed_once_and_waits_for_the_others() -> None:
    guard = ClockGuard(3, WALL, BOOT)
    assert not guard.jumped(WALL + 100, BOOT + 100)
    assert not guard.jumped(WALL + 200 + LIMIT_MS, BOOT + 200), "slewing and scheduling delays are no jump"
    for wall in (WALL + 3_600_000, WALL):
        assert guard.jumped(wall, BOOT + 300)
        assert not guard.jumped(wall, BOOT + 300)
        assert not guard.measured(BOOT + 300 + PATIENCE_MS - 1, [None, None])
        assert not guard.measured(BOOT + 300 + PATIENCE_MS - 1, [None, 3_600_000]), "known, and not of our opinion"
        assert guard.measured(BOOT + 300 + PATIENCE_MS - 1, [None, 3])
        assert guard.measured(BOOT + 300 + PATIENCE_MS, [None, None])


@pytest.mark.parametrize(
    ("members", "offsets", "off"),
    [
        (1, [], False),
        (3, [None, None], False),
        (3, [-3_600_000, None], False),  # one against one
        (3, [-3_600_000, -3_600_010], True),
        (3, [3_600_000, -3_600_000], False),  # three opinions
        (3, [LIMIT_MS, LIMIT_MS], False),
        (3, [LIMIT_MS + 1, LIMIT_MS + 1], True),
        (3, [0, -3_600_000], False),  # the other one is wrong
        (5, [900, 950, None, 0], False),
        (5, [900, 950, 1_000, 0], True),
    ],
)
def test_off_is_what_a_majority_agrees_on(members: int, offsets: list[int | None], off: bool) -> None:
    assert ClockGuard(members, WALL, BOOT).off(offsets) is off


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
