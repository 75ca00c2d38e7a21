"""The leader brings far due times near, in time, and only where every node knows how."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from raftsched.core.commands import BringNear, Fire
from raftsched.core.leasing import Heartbeat
from raftsched.core.leasing import encode as encode_message
from raftsched.core.levels import newest_level
from raftsched.core.model import DAY_MS
from raftsched.core.tables import Table, day_key, far_day
from raftsched.errors import NoLeader
from raftsched.leader import far_times
from tests.support.memory_view import T0, at
from tests.unit.leader.house import House, play

TODAY = far_day(T0)


def say(house: House, node: str, level: int | None = None) -> None:
    beat = Heartbeat(0, False, 77, house.clock.wall)
    if level is not None:
        beat = msgspec.structs.replace(beat, level=level)
    house.leader.on_heartbeat(node, encode_message(beat))


async def begin(house: House) -> None:
    house.lead()
    for node in ("n2", "n3"):
        say(house, node, newest_level())
    await next_look(house)


async def next_look(house: House) -> None:
    house.clock.forward(far_times.EVERY_MS)
    house.quorum = house.clock.boot
    await house.tick()


def test_it_begins_when_every_member_knows_the_command() -> None:
    async def scene(house: House) -> None:
        house.lead()
        await next_look(house)
        assert house.commands(BringNear) == []
        say(house, "n2", newest_level())
        say(house, "n3")  # an earlier version
        await next_look(house)
        assert house.commands(BringNear) == []
        say(house, "n3", newest_level())
        await next_look(house)
        assert house.commands(BringNear) == [BringNear(TODAY + far_times.SOON_DAYS, far_times.ROWS)]
        assert house.world.meta.far_from == day_key(TODAY + far_times.SOON_DAYS)
        say(house, "n3")
        await next_look(house)
        assert len(house.commands(BringNear)) == 1  # there is nothing to be done before the day ends

    play(scene)


def test_the_next_day_comes_near_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_times, "ROWS", 2)

    async def scene(house: House) -> None:
        await begin(house)
        for _ in range(5):
            house.create(at((TODAY + far_times.SOON_DAYS) * DAY_MS + 5))
        assert house.world.count(Table.FAR) == 5
        house.clock.forward(DAY_MS)
        left = []
        for _ in range(4):
            await next_look(house)
            left.append(house.world.count(Table.FAR))
        assert left == [3, 1, 0, 0]
        assert {command.until_day for command in house.commands(BringNear)[1:]} == {TODAY + far_times.SOON_DAYS + 1}

    play(scene)


def test_what_is_due_before_that_comes_at_once_and_is_fired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_times, "ROWS", 2)

    async def scene(house: House) -> None:
        await begin(house)
        late = [house.create(at((TODAY + days) * DAY_MS)) for days in (9, 4, 4, 6, 5)]
        ahead = [house.create(at((TODAY + days) * DAY_MS)) for days in (10, 12)]
        assert house.world.count(Table.FAR) == 7
        house.clock.forward(9 * DAY_MS)  # the whole cluster was off
        await next_look(house)
        assert house.world.count(Table.FAR) == 1
        await house.until_idle()
        assert {command.job_id for command in house.commands(Fire)} == set(late)
        assert ahead[0] not in {command.job_id for command in house.commands(Fire)}

    play(scene)


def test_what_cannot_be_proposed_is_proposed_again() -> None:
    async def scene(house: House) -> None:
        house.fail = NoLeader()
        await begin(house)
        assert house.world.meta.far_from == b""
        house.fail = None
        await next_look(house)
        assert house.world.meta.far_from > b""

    play(scene)


def test_no_second_one_while_the_first_is_on_its_way() -> None:
    async def scene(house: House) -> None:
        house.stuck = asyncio.Event()
        await begin(house)
        await next_look(house)
        assert len(house.commands(BringNear)) == 1
        house.stuck.set()
        await house.quiet()

    play(scene)


def test_the_heartbeat_says_what_the_node_knows() -> None:
    old = msgspec.msgpack.encode((5, True, 77, T0))
    assert msgspec.msgpack.decode(old, type=Heartbeat).level < far_times.LEVEL <= newest_level()
