"""One leadership over real tables, with a log that the test holds in its hands and clocks that it turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.commands import Assign, Fire, SetJobState
from raftsched.core.entry import EntryResult
from raftsched.core.model import InstanceState as I
from raftsched.core.model import JobState, Overlap
from raftsched.core.tables import Table
from raftsched.errors import NoLeader, UnknownOutcome
from raftsched.leader import leader as leader_module
from raftsched.leader import pacing, state
from raftsched.leader.state import LeaderState
from tests.support.clock import BOOT_MS
from tests.support.memory_view import T0, after, at, cron, policy
from tests.unit.leader.house import TTL, House, play


class TestLeadership:
    def test_comes_and_goes(self) -> None:
        async def scene(house: House) -> None:
            house.leader.on_role()
            assert not house.leader.established
            house.lead()
            first = house.leader.current
            house.leader.on_role()
            assert house.leader.current is first
            house.term = 2
            house.leader.on_role()
            assert house.leader.current is not first
            house.leading = False
            house.leader.on_role()
            assert not house.leader.established
            assert house.leader.loads() == {}

        play(scene)

    def test_one_that_was_stopped_does_not_begin_again(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            await house.leader.stop()
            house.leader.on_applied([])  # its node's worker still hands back
            assert not house.leader.established

        play(scene)

    def test_a_follower_does_nothing(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            house.create(at(T0))
            house.beat(session)
            await house.quiet()

        house = play(scene)
        assert house.proposed == []
        assert house.sent == []

    def test_a_past_one_does_nothing_either(self) -> None:
        """Deposed, and not told yet; or elected again, and the old memory is still there."""

        async def scene(house: House) -> None:
            session = house.session()
            house.create(at(T0))
            house.lead()
            for change in ({"leading": False, "term": 1}, {"leading": True, "term": 2}):
                house.leading, house.term = bool(change["leading"]), change["term"]
                await house.tick()
                house.beat(session)
            assert house.proposed == []
            assert house.sent == []

        play(scene)

    @pytest.mark.usefixtures("faults")
    def test_what_failed_at_home_gives_leadership_away(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(house: House) -> None:
            house.leader.start()
            house.lead()
            current = house.leader.current
            assert current is not None
            current.assigning.is_current = lambda: bool(1 // 0)
            house.leader.poke()
            await house.until(lambda: house.stepped_down > 0)
            assert not house.leader.established
            house.leader.on_applied([])  # it is still the leader: it begins anew
            assert house.leader.established

        with caplog.at_level(logging.CRITICAL):
            play(scene)

    def test_what_could_not_be_taken_up_gives_leadership_away(
        self, faults: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scene(house: House) -> None:
            house.lead()
            with monkeypatch.context() as broken:
                broken.setattr(LeaderState, "actions", lambda *_: 1 // 0)
                house.create(at(T0))
            assert house.stepped_down == 1
            assert not house.leader.established

        play(scene)
        assert faults["leader"] == 1

    @pytest.mark.usefixtures("faults")
    def test_want_of_memory_while_it_waits_gives_leadership_away_too(self, caplog: pytest.LogCaptureFixture) -> None:
        class Poke(asyncio.Event):
            async def wait(self) -> Literal[True]:
                raise MemoryError

        async def scene(house: House) -> None:
            house.leader._poke = Poke()
            house.leader.start()
            house.lead()
            await house.until(lambda: house.stepped_down > 0)
            assert not house.leader.established
            assert house.leader._timer is not None
            assert not house.leader._timer.done()

        with caplog.at_level(logging.CRITICAL):
            play(scene)

    @pytest.mark.parametrize("strikes", ["log", "step_down", "sleep", "tick"])
    @pytest.mark.usefixtures("faults")
    def test_want_of_memory_while_leadership_is_given_away(self, strikes: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It fails at each step once, and leadership is given away all the same."""

        def once(whole: Any) -> Any:
            struck = []

            def call(*args: Any, **kwargs: Any) -> Any:
                if not struck:
                    struck.append(True)
                    raise MemoryError
                return whole(*args, **kwargs)

            return call

        async def scene(house: House) -> None:
            if strikes == "log":
                monkeypatch.setattr(leader_module.log, "error", once(lambda *_: None))
            elif strikes == "step_down":
                monkeypatch.setattr(house, "step_down", once(house.step_down))
            elif strikes == "sleep":
                monkeypatch.setattr(leader_module.asyncio, "sleep", once(asyncio.sleep))
            house.leader.start()
            house.lead()
            assert house.leader.current is not None

            def fail() -> float:
                raise MemoryError

            monkeypatch.setattr(LeaderState, "tick", lambda _: fail())
            while house.stepped_down == 0:
                await real_sleep(0)
            assert house.leader._timer is not None
            assert not house.leader._timer.done()

        real_sleep = asyncio.sleep
        monkeypatch.setattr(leader_module, "TICK_MS", 0)
        play(scene)

    def test_the_loop_is_woken_for_what_is_due_before_it_comes_by(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            current = house.leader.current
            assert current is not None

            def wakes(due_ms: int) -> bool:
                house.leader._poke.clear()
                house.create(at(due_ms))
                return house.leader._poke.is_set()

            assert wakes(house.clock.wall + HOUR_MS)  # it has not said when it comes by
            assert current.tick() == state.TICK_MS
            comes_by = house.clock.wall + state.TICK_MS
            assert not wakes(house.clock.wall + HOUR_MS)
            assert not wakes(comes_by)
            assert wakes(comes_by - 1)
            assert wakes(house.clock.wall - HOUR_MS)

        play(scene)

    def test_a_loop_that_lost_its_timer_is_woken_by_heartbeats(self) -> None:
        async def scene(house: House) -> None:
            house.leader.start()
            house.lead()
            session = house.session()
            await asyncio.sleep(0)
            waiting = asyncio.Event()

            async def for_ever(delay_ms: float) -> None:
                waiting.set()
                await house.leader._poke.wait()
                house.leader._poke.clear()

            house.leader._wait = for_ever  # type: ignore[method-assign]
            house.leader.poke()
            await waiting.wait()
            waiting.clear()
            await asyncio.sleep(0)
            house.clock.forward(leader_module.STALLED_MS + 1)
            house.beat(session)
            await waiting.wait()

        play(scene)

    def test_a_loop_that_has_ended_begins_again(self) -> None:
        async def scene(house: House) -> None:
            house.leader.start()
            house.lead()
            session = house.session()
            assert house.leader._timer is not None
            house.leader._timer.cancel()
            await asyncio.gather(house.leader._timer, return_exceptions=True)
            house.beat(session)
            assert house.stepped_down == 1
            assert not house.leader._timer.done()

        play(scene)

    def test_the_loop_wakes_for_what_was_just_made(self) -> None:
        async def scene(house: House) -> None:
            house.leader.start()
            house.lead()
            house.create(at(T0))
            await house.until(lambda: bool(house.commands(Fire)))

        play(scene)


class TestFiring:
    def test_fire_and_assignment_travel_together(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(at(T0 + 1_000))
            house.lead()
            house.beat(session)
            await house.tick()
            assert house.proposed == []
            house.clock.forward(1_000)
            house.beat(session)
            await house.tick()
            (batch,) = house.proposed
            assert [type(x) for x in batch] == [Fire, Assign]
            (row,) = house.world.instances(job)
            assert row.live is not None
            assert house.leader.loads()["n2"] == (1, 100)

        play(scene)

    def test_the_sleep_ends_when_the_next_is_due(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            house.create(at(T0 + 30))
            assert 0 < await house.tick() <= 30
            house.create(at(T0 + 3_000))
            house.clock.forward(30)
            await house.tick()
            assert await house.tick() == state.TICK_MS

        play(scene)

    def test_due_before_the_leadership(self) -> None:
        async def scene(house: House) -> None:
            job = house.create(at(T0 + 5))
            house.clock.forward(HOUR_MS)
            house.lead()
            await house.tick()
            assert len(house.world.instances(job)) == 1

        play(scene)

    def test_nobody_holds_a_lease_then_it_waits_and_goes_with_the_heartbeat(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(at(T0))
            house.lead()
            house.beat(session, holds=False)
            await house.tick()
            assert house.commands(Assign) == []
            house.beat(session)
            await house.quiet()
            assert house.world.instances(job)[0].live is not None

        play(scene)

    def test_nothing_is_assigned_on_an_old_quorum(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            house.create(at(T0))
            house.lead()
            house.beat(session)
            house.quorum = BOOT_MS - TTL // 4
            await house.tick()
            assert house.commands(Fire)
            assert house.commands(Assign) == []
            house.quorum = BOOT_MS - TTL // 4 + 1
            await house.tick()
            assert house.commands(Assign)

        play(scene)

    def test_who_waits_goes_before_what_is_due_now(self) -> None:
        async def scene(house: House) -> None:
            session = house.session(slots=1)
            first = house.create(at(T0), priority=9)
            house.lead()
            await house.tick()
            second = house.create(at(T0))
            house.beat(session)
            await house.until_idle()
            assert house.world.instances(first)[0].live is not None
            assert house.world.instances(second)[0].live is None

        play(scene)

    def test_of_what_is_due_together_the_more_urgent_gets_the_slot(self) -> None:
        async def scene(house: House) -> None:
            session = house.session(slots=1)
            first = house.create(at(T0 + 10), priority=2)
            second = house.create(at(T0 + 20), priority=8)
            house.lead()
            house.beat(session)
            house.clock.forward(20)
            await house.until_idle()
            assert house.world.instances(first)[0].live is None
            assert house.world.instances(second)[0].live is not None

        play(scene)

    def test_a_past_time_that_is_skipped_on_request_takes_no_other_with_it(self) -> None:
        """Nobody led since; what else came due meanwhile is owed all the same."""

        async def scene(house: House) -> None:
            job = house.create(cron("*/10 * * * * *"), overlap=Overlap.ALLOW)
            house.lead()
            await house.tick()
            house.clock.forward(35_000)
            house.do(c.SkipNext(job, T0 + 10_000))
            await house.tick()
            await house.until_idle()
            rows = house.world.instances(job)
            assert [row.nominal_at_ms for row in rows] == [T0 + k for k in (10_000, 20_000, 30_000)]
            assert [row.state for row in rows] == [I.SKIPPED, I.WAITING, I.WAITING]

        play(scene)

    def test_an_unconfirmed_batch_is_tried_again_and_runs_once(self) -> None:
        async def scene(house: House, applied: bool) -> None:
            session = house.session()
            job = house.create(after(0))
            house.lead()
            house.beat(session)
            house.fail, house.apply_though_failing = UnknownOutcome(), applied
            await house.tick()
            house.fail = None
            house.clock.forward(state.RELOAD_AFTER_MS)
            house.beat(session)
            await house.until_idle()
            (row,) = house.world.instances(job)
            assert row.live is not None
            assert house.leader.loads()["n2"] == (1, 100)

        for applied in (False, True):

            async def one(house: House, applied: bool = applied) -> None:
                await scene(house, applied)

            play(one)

    def test_many_failures_read_the_tables_once(self) -> None:
        async def scene(house: House) -> None:
            for _ in range(20):
                house.create(at(T0))
            house.lead()
            house.fail = NoLeader()
            await house.until_idle(30)
            house.fail = None
            assert len(house.proposed) == 10
            house.clock.forward(state.RELOAD_AFTER_MS)
            house.quorum = house.clock.boot
            await house.until_idle()
            assert house.world.count(Table.DUE) == 0

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pacing, "BATCH", 2)
            play(scene)

    def test_after_an_outage_the_log_is_not_flooded(self) -> None:
        async def scene(house: House) -> None:
            for _ in range(100):
                house.create(at(T0))
            house.lead()
            house.stuck = asyncio.Event()
            for _ in range(50):
                await house.tick()
            assert len(house.proposed) == 3
            assert sum(map(len, house.proposed)) == 15
            house.stuck.set()
            house.stuck = None
            await house.quiet()
            await house.until_idle()
            assert house.world.count(Table.DUE) == 0
            assert len(house.commands(Fire)) == 100

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pacing, "BATCH", 5)
            patch.setattr(pacing, "IN_FLIGHT_MAX", 3)
            play(scene)

    def test_a_clock_that_is_set_back_and_comes_round_again(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            house.clock.wall += HOUR_MS
            await house.tick()
            house.clock.wall -= HOUR_MS
            job = house.create(at(T0 + 60_000))
            await house.tick()
            assert house.commands(Fire) == []
            house.clock.forward(60_000)
            house.quorum = house.clock.boot
            await house.tick()
            assert len(house.world.instances(job)) == 1

        play(scene)

    def test_what_is_committed_while_the_memory_is_built(self) -> None:
        """Between any two of its reads: in one of them, or in an action that comes later."""
        for read in range(6):

            async def scene(house: House, read: int = read) -> None:
                reads = 0
                late: list[EntryResult] = []
                command = c.CreateJob("d", None, policy(at(T0)), b"")

                def on_read() -> None:
                    nonlocal reads
                    reads += 1
                    if reads == read + 1:
                        late.append(house.commit([c.encode(command)], tell=False))

                house.on_read = on_read
                house.lead()
                house.on_read = None
                if late:
                    house.leader.on_applied(late)
                    await house.tick()
                    await house.tick()
                    assert len(house.world.instances()) == 1

            play(scene)

    def test_moved_ahead_of_time_it_fires_then(self) -> None:
        async def scene(house: House) -> None:
            job = house.create(at(T0 + HOUR_MS))
            house.lead()
            row = house.world.job(job)
            house.do(c.EditJob(job, msgspec.structs.replace(row.policy, trigger=at(T0 + 50)), b"{}"))
            house.clock.forward(50)
            await house.tick()
            assert len(house.world.instances(job)) == 1

        play(scene)

    def test_a_paused_one_does_not(self) -> None:
        async def scene(house: House) -> None:
            job = house.create(at(T0 + 50))
            house.lead()
            house.do(SetJobState(job, JobState.SUSPENDED))
            house.clock.forward(50)
            await house.tick()
            assert house.proposed == []

        play(scene)

    def test_a_small_window(self) -> None:
        async def scene(house: House) -> None:
            for k in range(30):
                house.create(at(T0 + k * 100))
            house.lead()
            for _ in range(40):
                await house.until_idle()
                house.clock.forward(100)
                house.quorum = house.clock.boot
            assert house.world.count(Table.DUE) == 0
            assert len(house.commands(Fire)) == 30

        play(scene, window_ms=500, window_count=3)


def test_the_window_is_as_long_as_the_setting_says() -> None:
    async def scene(house: House) -> None:
        house.world.settings(load_ahead_ms=60_000)
        for seconds in (30, 180, 720):
            house.create(at(T0 + seconds * 1_000))
        house.lead()
        await house.until_idle()
        assert house.leader.due_soon() == 1
        house.world.settings(load_ahead_ms=600_000)
        house.leader.on_applied([EntryResult(house.world.index, 1, [], house.world.actions)])
        house.clock.forward(1_000)
        house.quorum = house.clock.boot
        await house.until_idle()
        assert house.leader.due_soon() == 2

    play(scene)
