"""A leader whose disk is nearly full, and who leads instead."""

from __future__ import annotations

from raftsched.core.subjects.leasing import Heartbeat
from raftsched.errors import UnknownOutcome
from raftsched.leader.liveness.handover import AGAIN_MS, FIRST_MS
from raftsched.leader.liveness.vitals import FRESH_MS, Vitals
from tests.unit.leader.house import House, play

VOTERS = {"n1", "n2", "n3"}


def vitals(short: str, roomy: str = "", now: int = 0) -> Vitals:
    found = Vitals()
    for node in [*short.split(), *roomy.split()]:
        found.heard(node, Heartbeat(1, True, 0, 0, node in short.split()), now)
    return found


def test_who_has_room() -> None:
    assert vitals("n1", "n2 n3").has_room(VOTERS, "n1", 0) == "n2"
    assert vitals("", "n1 n2 n3").has_room(VOTERS, "n1", 0) is None, "it has room itself"
    assert vitals("n2", "n1 n3").has_room(VOTERS, "n1", 0) is None
    assert vitals("n1 n2", "n3").has_room(VOTERS, "n1", 0) is None, "n3 could do nothing alone"
    assert vitals("n1 n2", "n3 n4 n5").has_room(VOTERS | {"n4", "n5"}, "n1", 0) == "n3"
    assert vitals("n1", "n4").has_room(VOTERS, "n1", 0) is None, "it has no vote"
    assert vitals("n1").has_room({"n1"}, "n1", 0) is None
    assert vitals("n1", "n2").has_room(VOTERS, "n1", FRESH_MS) is None, "nothing was heard of it since"


async def full(house: House) -> None:
    house.leader.on_applied([house.world.members("n1 n2 n3")])
    house.lead()
    say(house, "n1", short=True)
    say(house, "n2")


def say(house: House, node: str, *, short: bool = False) -> None:
    assert house.leader.current is not None
    house.leader.current.vitals.heard(node, Heartbeat(1, True, 0, 0, short), house.clock.boot)


def forward(house: House, ms: int) -> None:
    house.clock.forward(ms)
    house.quorum = house.clock.boot
    say(house, "n2")


def test_leadership_is_handed_over_and_not_at_once_again() -> None:
    async def scene(house: House) -> None:
        await full(house)
        await house.tick()
        assert house.handed_to == [], "leaders must not take turns without end"
        forward(house, FIRST_MS)
        await house.tick()
        await house.tick()
        assert house.handed_to == ["n2"]
        forward(house, AGAIN_MS)
        await house.tick()
        assert house.handed_to == ["n2", "n2"]

    play(scene)


def test_where_it_does_not_get_through_it_leads_on() -> None:
    async def scene(house: House) -> None:
        await full(house)
        house.fail = UnknownOutcome()
        forward(house, FIRST_MS)
        await house.tick()
        assert house.handed_to == ["n2"]
        assert house.leader.established
        assert house.stepped_down == 0

    play(scene)


def test_it_stays_while_it_has_room_again() -> None:
    async def scene(house: House) -> None:
        await full(house)
        say(house, "n1", short=False)
        forward(house, FIRST_MS)
        await house.tick()
        assert house.handed_to == []

    play(scene)
