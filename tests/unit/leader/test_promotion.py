"""The leader brings far due times near, in time."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.bounds import DAY_MS
from raftsched.core.commands import Fire, PromoteDue
from raftsched.core.levels import BEGAN, SINCE
from raftsched.core.tables import Table, day_key, due_day
from raftsched.errors import NoLeader
from raftsched.leader.due import promotion
from tests.support.memory_view import T0, at
from tests.unit.leader.house import House, play

TODAY = due_day(T0)


async def begin(house: House) -> None:
    house.lead()
    await next_look(house)


async def next_look(house: House) -> None:
    house.clock.forward(promotion.EVERY_MS)
    house.quorum = house.clock.boot
    await house.tick()


def test_it_begins_at_once_and_then_waits_for_the_day_to_end() -> None:
    """Whatever the other nodes say that they know: the command may be used in every cluster (core.levels)."""

    async def scene(house: House) -> None:
        await begin(house)
        assert house.brought == [PromoteDue(TODAY + promotion.SOON_DAYS, promotion.ROWS)]
        assert house.world.meta.due_boundary == day_key(TODAY + promotion.SOON_DAYS)
        await next_look(house)
        assert len(house.brought) == 1

    assert SINCE[PromoteDue] <= BEGAN
    play(scene)


def test_the_next_day_comes_near_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "ROWS", 2)

    async def scene(house: House) -> None:
        await begin(house)
        for _ in range(5):
            house.create(at((TODAY + promotion.SOON_DAYS) * DAY_MS + 5))
        assert house.world.count(Table.DUE_LATER) == 5
        house.clock.forward(DAY_MS)
        left = []
        for _ in range(4):
            await next_look(house)
            left.append(house.world.count(Table.DUE_LATER))
        assert left == [3, 1, 0, 0]
        assert {command.until_day for command in house.brought[1:]} == {TODAY + promotion.SOON_DAYS + 1}

    play(scene)


def test_what_is_due_before_that_comes_at_once_and_is_fired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "ROWS", 2)

    async def scene(house: House) -> None:
        await begin(house)
        late = [house.create(at((TODAY + days) * DAY_MS)) for days in (9, 4, 4, 6, 5)]
        ahead = [house.create(at((TODAY + days) * DAY_MS)) for days in (10, 12)]
        assert house.world.count(Table.DUE_LATER) == 7
        house.clock.forward(9 * DAY_MS)  # the whole cluster was off
        await next_look(house)
        assert house.world.count(Table.DUE_LATER) == 1
        await house.until_idle()
        assert {command.job_id for command in house.commands(Fire)} == set(late)
        assert ahead[0] not in {command.job_id for command in house.commands(Fire)}

    play(scene)


def test_what_cannot_be_proposed_is_proposed_again() -> None:
    async def scene(house: House) -> None:
        house.fail = NoLeader()
        await begin(house)
        assert house.world.meta.due_boundary == b""
        house.fail = None
        await next_look(house)
        assert house.world.meta.due_boundary > b""

    play(scene)


def test_no_second_one_while_the_first_is_on_its_way() -> None:
    async def scene(house: House) -> None:
        house.stuck = asyncio.Event()
        await begin(house)
        await next_look(house)
        assert len(house.brought) == 1
        house.stuck.set()
        await house.quiet()

    play(scene)
