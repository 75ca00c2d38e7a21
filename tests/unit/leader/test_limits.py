"""One leadership and what operators say: the cluster is paused, a queue is full or slow, nobody can take a run."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.commands import Assign, Fire, NoteUnplaceable
from raftsched.core.model import InstanceState as I
from raftsched.core.model import Misfire, MisfirePolicy, Overlap
from raftsched.leader.dispatch.dispatcher import NOTE_AFTER_MS
from raftsched.leader.state import TICK_MS
from tests.support.memory_view import T0, at, every
from tests.unit.leader.house import House, play

SECOND = 1_000


class TestPausedCluster:
    def test_nothing_is_fired_or_assigned(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            manual = house.create(None, overlap=Overlap.ALLOW)
            house.create(at(T0 + SECOND))
            house.lead()
            house.do(c.PauseCluster(True))
            house.do(c.RunNow(manual, 1))
            for _ in range(5):
                house.clock.forward(SECOND)
                house.beat(session)
                assert await house.tick() > 0  # it sleeps, though something is due
            assert house.commands(Fire) == []
            assert house.commands(Assign) == []

        play(scene)

    @pytest.mark.parametrize("led", ["all the time", "elected meanwhile"])
    def test_resumed_all_that_is_due_comes(self, led: str) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            manual = house.create(None, overlap=Overlap.ALLOW)
            once = house.create(at(T0 + SECOND))
            house.lead()
            house.do(c.PauseCluster(True))
            house.do(c.RunNow(manual, 1))
            if led != "all the time":
                house.term = 2
                house.leader.on_role()
            house.clock.forward(HOUR_MS)
            await house.until_idle()
            house.do(c.PauseCluster(False))
            house.beat(session)
            await house.until_idle()
            await house.tick()
            for job in (manual, once):
                (row,) = house.world.instances(job)
                assert row.state is I.LAUNCHED, row

        play(scene)

    def test_the_misfire_policy_decides_what_was_missed(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            trigger = every(60 * SECOND)
            jobs = {
                policy: house.create(trigger, misfire=Misfire(policy, 30 * SECOND), overlap=Overlap.ALLOW)
                for policy in MisfirePolicy
            }
            house.lead()
            house.do(c.PauseCluster(True))
            for _ in range(60):
                house.clock.forward(10 * SECOND)
                house.beat(session)
                await house.tick()
            assert all(not house.world.instances(job) for job in jobs.values())
            house.do(c.PauseCluster(False))
            house.beat(session)
            await house.until_idle()
            rows = {policy: house.world.instances(job) for policy, job in jobs.items()}
            assert [r.gap_count for r in rows[MisfirePolicy.SKIP] if r.state is I.SKIPPED] == [9]
            assert [r.gap_count for r in rows[MisfirePolicy.ONCE] if r.state is I.SKIPPED] == [8]
            assert len(rows[MisfirePolicy.ALL]) == 10

        play(scene)

    def test_what_was_on_its_way_when_it_was_paused_is_not_lost(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(at(T0))
            house.lead()
            house.beat(session)
            house.stuck = asyncio.Event()
            await house.tick()
            assert [type(x) for x in house.proposed[0]] == [Fire, Assign]
            house.do(c.PauseCluster(True))
            house.stuck.set()
            await house.quiet()
            assert house.world.instances(job) == []
            house.stuck = None
            house.do(c.PauseCluster(False))
            house.beat(session)
            await house.until_idle()
            assert house.world.instances(job)[0].state is I.LAUNCHED
            assert house.leader.loads()["n2"] == (1, 100)

        play(scene)
        assert caplog.records == []

    def test_what_runs_goes_on_and_what_waits_says_why_it_was_given_up(self) -> None:
        async def scene(house: House) -> None:
            house.session()
            job = house.create(every(HOUR_MS))
            house.lead()
            house.clock.forward(HOUR_MS)
            await house.tick()
            house.do(c.PauseCluster(True))
            for _ in range(4):
                house.clock.forward(5 * 60 * SECOND)
                await house.tick()
            (row,) = house.world.instances(job)
            assert (row.state, row.reason) == (I.SKIPPED, "start_deadline")
            assert row.error is not None
            assert "paused" in row.error

        play(scene)


class TestQueues:
    def test_full_what_is_due_waits_and_goes_when_another_ended(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            house.do(c.PutQueue("q", max_running=1))
            jobs = [house.create(at(T0 + SECOND), queue="q") for _ in range(3)]
            other = house.create(at(T0 + SECOND))
            house.lead()
            house.clock.forward(SECOND)
            house.beat(session)
            await house.until_idle()
            rows = [house.world.instances(job)[0] for job in jobs]
            assert sorted(r.state for r in rows) == [I.WAITING, I.WAITING, I.LAUNCHED]
            assert house.world.instances(other)[0].state is I.LAUNCHED
            state = house.leader.current
            assert state is not None
            assert not state.dispatcher.backlog
            live = next(r.live for r in rows if r.live is not None)
            house.do(c.Ended(session, live.token, c.Outcome.SUCCEEDED, T0, T0))
            await house.quiet()
            assert sorted(house.world.instances(job)[0].state for job in jobs) == [I.WAITING, I.LAUNCHED, I.SUCCEEDED]

        play(scene)

    def test_a_rate_is_waited_for_and_no_longer(self) -> None:
        async def scene(house: House) -> None:
            session = house.session(slots=1_000)
            house.do(c.PutQueue("q", rate_count=100, rate_period_ms=SECOND))
            for _ in range(103):
                house.create(at(T0), queue="q")
            house.lead()
            house.beat(session)
            await house.quiet()
            for _ in range(3):
                await house.tick()
            running = [r for r in house.world.instances() if r.live is not None]
            assert len(running) == 100
            assert 0 < await house.tick() <= 10 < TICK_MS
            for _ in range(3):
                house.clock.forward(10)
                house.beat(session)
                await house.tick()
                await house.tick()
            assert all(r.live is not None for r in house.world.instances())

        play(scene)

    def test_drained_while_an_assignment_is_on_its_way(self) -> None:
        async def scene(house: House) -> None:
            first, second = house.session("n2"), house.session("n3")
            job = house.create(at(T0))
            house.lead()
            house.beat(first)
            house.beat(second, "n3")
            house.stuck = asyncio.Event()
            await house.tick()
            (assign,) = house.commands(Assign)
            node = "n2" if assign.session == first else "n3"
            house.do(c.PutNodeRule(node, drained=True))
            house.stuck.set()
            await house.quiet()
            house.stuck = None
            await house.until_idle()
            (row,) = house.world.instances(job)
            assert row.live is not None
            assert row.live.node != node
            assert house.leader.loads()[node] == (0, 100)

        play(scene)


class TestForNobody:
    def test_it_is_noted_and_put_aside(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            job = house.create(at(T0), required_capability="call:nobody")
            house.lead()
            house.beat(session)
            await house.until_idle()
            assert house.commands(NoteUnplaceable) == []
            house.clock.forward(NOTE_AFTER_MS)
            house.beat(session)
            await house.tick()
            (row,) = house.world.instances(job)
            assert (row.reason, row.error) == ("no_eligible_node", 'No node has the handler "call:nobody".')
            assert house.world.meta.unplaceable == 1
            for _ in range(3):
                house.clock.forward(NOTE_AFTER_MS)
                house.beat(session)
                await house.tick()
            assert len(house.commands(NoteUnplaceable)) == 1

        play(scene)
