"""The leader raises the cluster's level when all members know a later one."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.core.commands import RaiseLevel
from raftsched.core.levels import newest_level
from raftsched.core.subjects.leasing import Heartbeat, encode
from raftsched.leader import level
from raftsched.leader.liveness.vitals import FRESH_MS
from tests.unit.leader.house import House, play

NEWEST = newest_level()


def say(house: House, node: str, known: int) -> None:
    beat = Heartbeat(0, False, 77, house.clock.wall)
    house.leader.on_heartbeat(node, encode(msgspec.structs.replace(beat, level=known)))


async def look(house: House) -> list[RaiseLevel]:
    house.clock.forward(level.EVERY_MS)
    house.quorum = house.clock.boot
    await house.tick()
    return house.commands(RaiseLevel)


def test_it_rises_to_the_lowest_of_all_members() -> None:
    async def scene(house: House) -> None:
        house.lead()
        assert await look(house) == []  # nobody has said anything
        say(house, "n2", NEWEST)
        assert await look(house) == []  # n3 has not
        say(house, "n3", NEWEST - 1)
        assert await look(house) == [RaiseLevel(NEWEST - 1)]
        assert await look(house) == [RaiseLevel(NEWEST - 1)]  # once
        for node in ("n2", "n3"):
            say(house, node, NEWEST)
        assert (await look(house))[1:] == [RaiseLevel(NEWEST)]
        assert house.world.meta.level == NEWEST
        assert len(await look(house)) == 2

    play(scene, level=0)


def test_a_leader_raises_it_no_further_than_it_knows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(house: House) -> None:
        house.lead()
        for node in ("n2", "n3"):
            say(house, node, NEWEST + 5)
        assert await look(house) == [RaiseLevel(NEWEST)]

    play(scene, level=0)


def test_it_stays_while_it_is_held() -> None:
    async def scene(house: House) -> None:
        house.world.settings(upgrade_hold=1)
        house.lead()
        for node in ("n2", "n3"):
            say(house, node, NEWEST)
        assert await look(house) == []
        house.world.settings(upgrade_hold=0)
        assert await look(house) == [RaiseLevel(NEWEST)]

    play(scene, level=0)


def test_a_node_that_is_down_keeps_it_where_it_is() -> None:
    """It may come back with the version before."""

    async def scene(house: House) -> None:
        house.world.settings(upgrade_hold=1)
        house.lead()
        for node in ("n2", "n3"):
            say(house, node, NEWEST)
        house.clock.forward(FRESH_MS)
        house.world.settings(upgrade_hold=0)
        say(house, "n2", NEWEST)
        assert await look(house) == []
        say(house, "n3", NEWEST)
        assert await look(house) == [RaiseLevel(NEWEST)]

    play(scene, level=0)
