"""One leadership over real tables, with a log that the test holds in its hands and clocks that it turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from raftsched.core import commands as c
from raftsched.core.commands import Answer, Assign, Command, EndSession, Fire, Prune, ScheduleJob, SetJobState, Wake
from raftsched.core.entry import EntryResult, encode_entry
from raftsched.core.model import DAY_MS, HOUR_MS, JobState, Outcome, Overlap, Retry
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import Table
from raftsched.errors import NoLeader, RaftschedError, UnknownOutcome
from raftsched.leader import term as module
from raftsched.leader.leader import Leader
from raftsched.schedule import TriggerError
from tests.support.memory_view import T0, MemoryView, World, after, at, cron, every

BOOT = 5_000_000
TTL = 5_000


class Clock:
    def __init__(self) -> None:
        self.wall = T0
        self.boot = BOOT

    def wall_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.boot / 1000

    def boot_ms(self) -> int:
        return self.boot

    def forward(self, ms: int) -> None:
        self.wall += ms
        self.boot += ms


class View(MemoryView):
    applied_index = 0


class House:
    """A Raft that applies what is proposed at once, unless told otherwise."""

    node_id = "n1"

    def __init__(self, **limits: Any) -> None:
        self.clock = Clock()
        self.world = World(View())
        self.term = 1
        self.leading = False
        self.proposed: list[list[Command]] = []
        self.sent: list[tuple[str, tuple[int, int, int]]] = []
        self.stepped_down = 0
        self.offsets: list[int | None] = [0, 0]
        self.remeasured: list[int | None] = [0, 0]  # what the others' clocks say after ours was set
        self.turn_age = 0
        self.trusted = 0
        self.quorum: int | None = BOOT
        self.fail: RaftschedError | None = None
        self.apply_though_failing = False
        self.stuck: asyncio.Event | None = None
        self.on_read: Callable[[], None] | None = None
        self.seq = 0
        self.leader = Leader(self, self.read, self.clock, **limits)

    # ------------------------------------------------------------ the facade

    @contextmanager
    def read(self) -> Iterator[Any]:
        self.world.view.applied_index = self.world.index
        yield self.world.view
        if self.on_read is not None:
            self.on_read()

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        self.proposed.append([c.decode(raw) for raw in commands])
        await asyncio.sleep(0)
        if self.stuck is not None:
            await self.stuck.wait()
        if self.fail is not None and not self.apply_though_failing:
            raise self.fail
        result = self.commit(commands)
        if self.fail is not None:
            raise self.fail
        answers = result.batches[0].answers
        assert answers is not None
        return answers

    def commit(self, commands: Sequence[bytes], *, tell: bool = True) -> EntryResult:
        self.seq += 1
        self.world.now = self.clock.wall
        result = self.world.entry(encode_entry(self.clock.wall, [(3, self.seq, list(commands))]))
        if tell:
            self.leader.on_applied([result])
        return result

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        assert kind == "grant"
        session, sent_ms, granted, _ = msgspec.msgpack.decode(payload, type=tuple[int, int, int, bool])
        self.sent.append((peer, (session, sent_ms, granted)))
        return True

    def quorum_sent_at_ms(self) -> int | None:
        return self.quorum

    def clock_offsets_ms(self) -> list[int | None]:
        return list(self.offsets)

    def measure_clocks_again(self) -> None:
        self.offsets = list(self.remeasured)

    def trust_clock(self) -> None:
        self.trusted += 1

    def turn_age_ms(self) -> int:
        return self.turn_age

    def step_down(self) -> None:
        self.stepped_down += 1

    # ------------------------------------------------------------ the test's hands

    def do(self, command: Command) -> c.Accepted:
        """Somebody else's command, through the log."""
        answers = self.commit([c.encode(command)]).batches[0].answers
        assert answers is not None
        assert isinstance(answers[0], c.Accepted), answers[0]
        return answers[0]

    def create(self, trigger: Any, **fields: Any) -> int:
        from tests.support.memory_view import policy

        job = self.do(c.CreateJob("d", None, policy(trigger, **fields), b"{}")).job
        assert job is not None
        return job.id

    def session(self, node: str = "n2", slots: int = 100) -> int:
        raw = self.world.view.get(Table.NODES, node.encode())
        replaces = 0 if raw is None else int.from_bytes(raw, "big")
        number = self.do(c.OpenSession(node, replaces, "b", b"", slots)).number
        assert number is not None
        return number

    def lead(self) -> None:
        self.leading = True
        self.quorum = self.clock.boot
        self.leader.on_role()
        assert self.leader.established

    def beat(self, session: int, node: str = "n2", *, holds: bool = True) -> None:
        self.quorum = self.clock.boot
        self.leader.on_heartbeat(node, msgspec.msgpack.encode((session, holds, 77, self.clock.wall)))

    async def tick(self) -> float:
        term = self.leader.current
        assert term is not None
        delay = term.tick()
        await self.quiet()
        return delay

    async def quiet(self) -> None:
        """Until nothing is on its way any more (or all of it is stuck)."""
        for _ in range(200):
            await asyncio.sleep(0)
            if not self.leader._tasks:
                return

    async def until(self, done: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if done():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came to that")

    async def until_idle(self, ticks: int = 200) -> None:
        for _ in range(ticks):
            if await self.tick() > 0 and not self.leader._tasks:
                return

    def commands(self, kind: type) -> list[Any]:
        return [command for batch in self.proposed for command in batch if isinstance(command, kind)]


def play(scene: Callable[[House], Coroutine[Any, Any, None]], **limits: Any) -> House:
    house = House(**limits)

    async def run() -> None:
        await scene(house)
        await house.leader.stop()

    asyncio.run(run())
    return house


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

    def test_what_failed_at_home_gives_leadership_away(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scene(house: House) -> None:
            house.leader.start()
            house.lead()
            term = house.leader.current
            assert term is not None
            term.pump = lambda: 1 // 0  # type: ignore[assignment, method-assign, return-value, func-returns-value]
            house.leader.poke()
            await house.until(lambda: house.stepped_down > 0)
            assert not house.leader.established
            house.leader.on_applied([])  # it is still the leader: it begins anew
            assert house.leader.established

        with caplog.at_level(logging.CRITICAL):
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
            assert await house.tick() == module.TICK_MS

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
            house.quorum = BOOT - TTL // 4
            await house.tick()
            assert house.commands(Fire)
            assert house.commands(Assign) == []
            house.quorum = BOOT - TTL // 4 + 1
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

    def test_an_unconfirmed_batch_is_tried_again_and_runs_once(self) -> None:
        async def scene(house: House, applied: bool) -> None:
            session = house.session()
            job = house.create(after(0))
            house.lead()
            house.beat(session)
            house.fail, house.apply_though_failing = UnknownOutcome(), applied
            await house.tick()
            house.fail = None
            house.clock.forward(module.RELOAD_AFTER_MS)
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
            house.clock.forward(module.RELOAD_AFTER_MS)
            house.quorum = house.clock.boot
            await house.until_idle()
            assert house.world.count(Table.DUE) == 0

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "FIRE_BATCH", 2)
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
            patch.setattr(module, "FIRE_BATCH", 5)
            patch.setattr(module, "IN_FLIGHT", 3)
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
                command = c.CreateJob("d", None, house_policy(), b"")

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


def house_policy() -> Any:
    from tests.support.memory_view import policy

    return policy(at(T0))


class TestCalendar:
    def test_the_next_time_is_told_and_fired(self) -> None:
        async def scene(house: House) -> None:
            house.lead()
            job = house.create(cron("* * * * *"), overlap=Overlap.ALLOW)
            await house.tick()
            first = house.world.job(job).nominal_at_ms
            assert first == T0 - T0 % 60_000 + 60_000
            house.clock.wall = first
            await house.tick()
            assert house.world.job(job).nominal_at_ms == first + 60_000
            house.clock.wall = first + 5 * 60_000 + 1
            await house.tick()
            assert house.world.job(job).nominal_at_ms == first + 6 * 60_000
            assert len(house.world.instances(job)) == 6  # all within the grace of 15 minutes

        play(scene)

    def test_owed_from_before(self) -> None:
        async def scene(house: House) -> None:
            jobs = [house.create(cron("* * * * *")) for _ in range(5)]
            house.lead()
            await house.tick()
            assert len(house.commands(ScheduleJob)) == 5
            assert all(house.world.job(job).fire_at_ms for job in jobs)

        play(scene)

    def test_a_gap_ends_where_it_ends(self) -> None:
        async def scene(house: House) -> None:
            house.do(c.PutSettings(msgspec.structs.replace(house.world.meta.settings, catch_up_max=2)))
            house.lead()
            job = house.create(cron("* * * * *"), overlap=Overlap.ALLOW)
            await house.tick()
            first = house.world.job(job).nominal_at_ms
            assert first is not None
            house.clock.wall = first + 9 * 60_000
            await house.tick()
            gap, *runs = house.world.instances(job)
            assert (gap.gap_count, gap.nominal_at_ms, gap.gap_until_ms) == (8, first, first + 7 * 60_000)
            assert [r.nominal_at_ms for r in runs] == [first + 8 * 60_000, first + 9 * 60_000]

        play(scene)

    @pytest.mark.parametrize("error", [TriggerError("/trigger/timezone", "no such zone"), OverflowError("too far")])
    @pytest.mark.parametrize("when", ["first", "later"])
    def test_one_that_cannot_be_computed_stops_nobody_else(
        self, error: Exception, when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        original = module.firing.schedule.next_nominal

        def next_nominal(trigger: Any, *args: Any, **kwargs: Any) -> int | None:
            if trigger.timezone == "Mars/Olympus":
                raise error
            return original(trigger, *args, **kwargs)

        async def scene(house: House) -> None:
            house.lead()
            bad = house.create(cron("* * * * *", timezone="Mars/Olympus"))
            if when == "later":  # another leader knew the zone
                house.do(ScheduleJob(bad, 1, T0))
            good = house.create(at(T0))
            monkeypatch.setattr(module.firing.schedule, "next_nominal", next_nominal)
            await house.tick()
            assert len(house.world.instances(good)) == 1
            row = house.world.job(bad)
            assert row.state is JobState.SUSPENDED
            assert row.error is not None
            assert str(error) in row.error
            assert house.stepped_down == 0

        with caplog.at_level(logging.CRITICAL):
            play(scene)


class TestTimers:
    def test_retries(self) -> None:
        async def scene(house: House) -> None:
            session = house.session()
            house.lead()
            house.beat(session)
            jobs = [house.create(at(T0), retry=Retry((2_000,))) for _ in range(4)]
            await house.tick()
            for job in jobs:
                live = house.world.instances(job)[0].live
                assert live is not None
                house.do(c.Ended(session, live.token, Outcome.FAILED, None, house.clock.wall))
            assert house.leader.loads()["n2"] == (0, 100)
            house.clock.forward(2_000)
            house.beat(session)
            await house.tick()
            assert len([b for b in house.proposed if any(isinstance(x, Wake) for x in b)]) == 1  # not one each
            await house.until_idle()
            assert all(house.world.instances(job)[0].live for job in jobs)

        play(scene)

    def test_start_deadlines(self) -> None:
        async def scene(house: House) -> None:
            job = house.create(every(DAY_MS))
            house.lead()
            house.clock.wall = T0 + DAY_MS
            await house.tick()
            for _ in range(4):
                house.clock.wall += 5 * 60_000
                await house.tick()
            assert house.world.instances(job)[0].state is I.SKIPPED

        play(scene)


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
            patch.setattr(module, "PRUNE_ROWS", 10)
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
                house.clock.forward(module.ORIGINS_EVERY_MS)
                house.quorum = house.clock.boot
                await house.tick()
            assert len(house.commands(Prune)) == 3

        play(scene)
