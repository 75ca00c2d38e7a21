"""The leader puts into the log whose disk is short, once for each change."""

from __future__ import annotations

import msgspec

from raftsched.core.commands import NoteDisk
from raftsched.core.subjects.leasing import Heartbeat, encode
from tests.unit.leader.house import House, play


def beat(house: House, node: str, *, short: bool) -> None:
    session = {row.node: row.id for row in house.world.sessions()}[node]
    said = Heartbeat(session, True, 77, house.clock.wall)
    house.quorum = house.clock.boot
    house.leader.on_heartbeat(node, encode(msgspec.structs.replace(said, short_of_disk=short)))


def noted(house: House) -> list[tuple[str, bool]]:
    return [(note.node, note.short) for note in house.commands(NoteDisk)]


def test_each_change_is_noted_once() -> None:
    async def scene(house: House) -> None:
        house.session("n2")
        house.session("n3")
        house.lead()
        for short in (False, True, True, False):
            beat(house, "n2", short=short)
            beat(house, "n3", short=False)
            await house.tick()
            await house.tick()
        assert noted(house) == [("n2", True), ("n2", False)]

    play(scene)


def test_another_leader_knows_what_was_noted() -> None:
    async def scene(house: House) -> None:
        house.session("n2")
        house.do(NoteDisk("n2", True))
        house.lead()
        beat(house, "n2", short=True)
        await house.tick()
        assert noted(house) == []
        beat(house, "n2", short=False)
        await house.tick()
        assert noted(house) == [("n2", False)]

    play(scene)
