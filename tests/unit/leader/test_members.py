"""One leadership while members come and go: who is given runs, whose word about the disk counts."""

from __future__ import annotations

import msgspec

from raftsched.core.commands import Assign
from raftsched.core.levels import FIRST_LEVEL
from raftsched.core.model import Overlap
from raftsched.core.subjects.leasing import DiskUse, Heartbeat, decode_heartbeat, encode
from raftsched.leader.liveness.vitals import FRESH_MS, Vitals
from tests.support.memory_view import T0, at, every
from tests.unit.leader.house import House, play


def change(house: House, voters: str, learners: str = "") -> None:
    house.leader.on_applied([house.world.members(voters, learners)])


def test_a_member_that_catches_up_is_given_nothing_until_it_votes() -> None:
    async def scene(house: House) -> None:
        house.leading = False
        change(house, "n1 n2", "n3")
        learner = house.session("n3")
        job = house.create(at(T0))
        house.lead()
        house.beat(learner, "n3")
        await house.until_idle()
        assert house.sent[-1][0] == "n3", "it has its lease"
        assert house.commands(Assign) == []
        change(house, "n1 n2 n3")
        await house.quiet()
        live = house.world.instances(job)[0].live
        assert live is not None
        assert live.node == "n3"

    play(scene)


def test_the_leader_runs_what_only_a_member_that_catches_up_could_take() -> None:
    async def scene(house: House) -> None:
        own = house.session("n1")
        change(house, "n1", "n2")
        learner = house.session("n2")
        job = house.create(at(T0))
        house.lead()
        house.beat(own, "n1")
        house.beat(learner, "n2")
        await house.until_idle()
        live = house.world.instances(job)[0].live
        assert live is not None
        assert live.node == "n1"

    play(scene)


def test_a_removed_node_is_given_nothing_and_no_lease() -> None:
    async def scene(house: House) -> None:
        session, other = house.session("n2"), house.session("n3")
        house.lead()
        house.beat(session)
        house.beat(other, "n3")
        assert {peer for peer, _ in house.sent} == {"n2", "n3"}
        change(house, "n1 n3")
        house.sent.clear()
        house.beat(session)
        assert house.sent == []
        job = house.create(every(1), overlap=Overlap.ALLOW)
        for _ in range(20):
            house.clock.forward(10)
            house.beat(other, "n3")
            await house.until_idle()
        given = {i.live.node for i in house.world.instances(job) if i.live is not None}
        assert given == {"n3"}

    play(scene)


def test_only_voters_count_when_disks_are_short() -> None:
    async def scene(house: House) -> None:
        change(house, "n1 n2 n3", "n4 n5")
        house.lead()
        state = house.leader.current
        assert state is not None
        vitals = state.vitals

        def says(node: str, short: bool) -> None:
            vitals.heard(node, Heartbeat(1, True, 0, 0, short), 0)

        for node in ("n4", "n5"):
            says(node, True)
        assert not state.short_of_disk
        says("n2", True)
        assert not state.short_of_disk
        says("n3", True)
        assert state.short_of_disk
        change(house, "n1 n2 n4 n5")
        assert state.short_of_disk
        says("n5", False)
        says("n4", False)
        assert not state.short_of_disk, "n3 is out"

    play(scene)


def test_how_long_ago_each_node_was_heard() -> None:
    vitals = Vitals()
    assert vitals.ages(0) == {}
    vitals.heard("n2", Heartbeat(1, True, 0, 0), 1_000)
    vitals.heard("n3", Heartbeat(2, False, 0, 0), 1_200)
    vitals.heard("n2", Heartbeat(1, True, 0, 0), 1_500)
    assert vitals.ages(1_600) == {"n2": 100, "n3": 400}


def test_what_nodes_say_of_their_disks_holds_for_a_while() -> None:
    vitals, use = Vitals(), DiskUse(1, 2, 3, 4)
    vitals.heard("n2", Heartbeat(1, True, 0, 0, disk=use), 1_000)
    vitals.heard("n3", Heartbeat(2, True, 0, 0), 1_000)
    assert vitals.disks(1_500) == {"n2": use}
    assert vitals.disks(1_000 + FRESH_MS) == {}
    vitals.heard("n2", Heartbeat(1, True, 0, 0), 1_600)
    assert vitals.disks(1_700) == {}, "it does not say so any more"


def test_a_heartbeat_of_a_node_that_does_not_know_of_disks_and_levels_yet() -> None:
    old = decode_heartbeat(msgspec.msgpack.encode([1, True, 5, 6]))
    assert (old.disk, old.level) == (None, FIRST_LEVEL)
    beat = Heartbeat(1, True, 5, 6, disk=DiskUse(1, 2, 3, 4))
    assert decode_heartbeat(encode(beat)) == beat
