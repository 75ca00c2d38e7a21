"""What a leadership watches: leases, what runs where, what retention no longer keeps."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.commands import Assign, EndSession, Prune, SetJobState
from raftsched.core.model import InstanceState as I
from raftsched.core.model import JobState, Overlap
from raftsched.core.subjects.leasing import Heartbeat
from raftsched.core.tables import Table
from raftsched.errors import UnknownOutcome
from raftsched.leader import pruning
from tests.support.memory_view import T0, at, every
from tests.unit.leader.house import TTL, House, play


class TestLeases:
    def test_granted_to_the_heartbeat_s_own_time(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            house.lead()
            house.clock.forward(300)
            house.leader.on_heartbeat("n2", msgspec.msgpack.encode((session, True, 77, 0)))
            assert house.sent == [("n2", (session, 77, TTL - 300))]
            house.leader.on_heartbeat("n3", msgspec.msgpack.encode((session, True, 77, 0)))
            assert len(house.sent) == 1

        play(scene)

    def test_a_node_that_can_start_nothing_is_given_nothing_for_a_while(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(at(T0))
            house.lead()
            why = "this node cannot start a process"
            beat = Heartbeat(session, True, 77, house.clock.wall, pause_ms=1_000, trouble=why)
            house.leader.on_heartbeat("n2", msgspec.msgpack.encode(beat))
            assert house.sent, "it keeps its lease"
            assert house.leader.troubles() == {"n2": why}
            await house.until_idle()
            assert house.world.instances(job)[0].state is I.WAITING
            assert house.commands(Assign) == []
            house.clock.forward(1_000)
            house.beat(session)
            await house.until_idle()
            assert house.world.instances(job)[0].live is not None
            assert house.leader.troubles() == {}

        play(scene)

    def test_while_the_followers_can_start_nothing_the_leader_s_own_node_does(self) -> None:
        async def scene(house: House) -> None:
            follower, own = house.session("n2"), house.session("n1")
            job = house.create(at(T0))
            house.lead()
            beat = Heartbeat(follower, True, 77, house.clock.wall, pause_ms=1_000, trouble="no process")
            house.leader.on_heartbeat("n2", msgspec.msgpack.encode(beat))
            house.beat(own, "n1")
            await house.until_idle()
            live = house.world.instances(job)[0].live
            assert live is not None
            assert live.node == "n1"

        play(scene)

    def test_who_has_no_session_may_say_why(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            beat = Heartbeat(0, False, 77, house.clock.wall, trouble="it waits")
            house.leader.on_heartbeat("n2", msgspec.msgpack.encode(beat))
            assert (house.sent, house.leader.troubles()) == ([], {"n2": "it waits"})

        play(scene)

    @pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x90", msgspec.msgpack.encode(("x", True, 1, 1))])
    def test_malformed_ones_are_dropped(self, payload: bytes, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(house: House) -> None:
            house.lead()
            house.leader.on_heartbeat("n2", payload)
            assert house.sent == []

        play(scene)

    def test_silence_ends_the_session_under_the_term(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(at(T0))
            house.do(c.OpenLeadership(7, "n1"))
            house.term = 7
            house.lead()
            house.beat(session)
            await house.tick()
            assert house.world.instances(job)[0].live is not None
            over = TTL + TTL // 4
            house.clock.forward(over - 1)
            house.quorum = house.clock.boot
            await house.tick()
            assert house.commands(EndSession) == []
            house.clock.forward(1)
            house.quorum = house.clock.boot
            await house.tick()
            assert house.commands(EndSession) == [EndSession(session, 7)]
            assert house.world.instances(job)[0].state is I.WAITING
            assert house.leader.loads() == {}
            house.beat(session)
            assert len(house.sent) == 1

        play(scene)

    def test_the_end_is_proposed_again_until_it_is_applied(self) -> None:
        async def scene(house: House) -> None:
            house.session()
            house.lead()
            house.fail = UnknownOutcome()
            for _ in range(30):
                house.clock.forward(500)
                house.quorum = house.clock.boot
                await house.tick()
            assert 5 < len(house.commands(EndSession)) <= 10
            house.fail = None
            house.clock.forward(1_000)
            house.quorum = house.clock.boot
            await house.tick()
            count = len(house.commands(EndSession))
            house.clock.forward(10_000)
            house.quorum = house.clock.boot
            await house.tick()
            assert len(house.commands(EndSession)) == count

        play(scene)

    def test_steps_down_without_a_majority(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(house: House) -> None:
            house.lead()
            house.clock.forward(TTL - 501)
            await house.tick()
            assert house.stepped_down == 0
            house.clock.forward(1)
            await house.tick()
            assert house.stepped_down == 1

        play(scene)

    def test_a_first_round_may_take_its_time(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(house: House) -> None:
            house.lead()
            house.quorum = None
            await house.tick()
            assert house.stepped_down == 0
            house.clock.forward(TTL)
            await house.tick()
            assert house.stepped_down == 1

        play(scene)

    def test_followers_first_though_the_leader_s_own_worker_is_heard_first(self) -> None:
        async def scene(house: House) -> None:
            own, other = house.session("n1"), house.session("n2")
            job = house.create(at(T0))
            house.lead()
            house.beat(own, "n1")
            await house.until_idle()
            assert house.commands(Assign) == []
            house.beat(other)
            await house.until_idle()
            live = house.world.instances(job)[0].live
            assert live is not None
            assert live.node == "n2"

        play(scene)

    def test_alone_the_leader_runs_them(self) -> None:
        async def scene(house: House) -> None:
            own = house.session("n1")
            job = house.create(at(T0))
            house.lead()
            for _ in range(20):
                house.clock.forward(500)
                house.beat(own, "n1")
                await house.until_idle()
            live = house.world.instances(job)[0].live
            assert live is not None
            assert live.node == "n1"

        play(scene)


class TestCounting:
    def test_what_was_applied_before_is_not_counted_twice(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(overlap=Overlap.ALLOW, trigger=every(HOUR_MS))
            key = house.do(c.RunNow(job, 5)).instance
            assert key is not None
            result = house.commit([c.encode(Assign(key, session))], tell=False)
            house.lead()
            house.leader.on_applied([result])
            assert house.leader.loads()["n2"] == (1, 100)

        play(scene)


class TestRetention:
    def test_pruned_to_the_end_in_steps(self) -> None:
        async def scene(house: House) -> None:
            for _ in range(25):
                job = house.create(at(T0 + DAY_MS))
                house.do(SetJobState(job, JobState.EXPIRED))
            house.lead()
            await house.tick()
            assert house.commands(Prune) == []
            house.clock.forward(HOUR_MS)
            house.quorum = house.clock.boot
            await house.tick()
            assert house.world.count(Table.JOBS) == 0
            assert len(house.commands(Prune)) == 3

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pruning, "ROWS", 10)
            play(scene)

    def test_interrupted_it_comes_back(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(house: House) -> None:
            job = house.create(at(T0 + DAY_MS))
            house.do(SetJobState(job, JobState.EXPIRED))
            house.lead()
            house.clock.forward(HOUR_MS)
            house.quorum = house.clock.boot
            house.fail = UnknownOutcome()
            await house.tick()
            house.fail = None
            await house.tick()
            assert len(house.commands(Prune)) == 1
            house.clock.forward(1_000)
            await house.tick()
            assert house.world.find(job) is None

        play(scene)

    def test_idle_proposers_go_with_it(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            for _ in range(3):
                house.clock.forward(pruning.ORIGINS_EVERY_MS)
                house.quorum = house.clock.boot
                await house.tick()
            assert len(house.commands(Prune)) == 3

        play(scene)
