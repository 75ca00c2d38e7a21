"""What is late: grace, skip, once, all, the cap, and the records of what was skipped."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.levels import MISSED_RUN_WAITS, newest_level
from raftsched.core.model import Instance, Job, JobState, Misfire, MisfirePolicy, Outcome, Overlap
from raftsched.core.model import InstanceState as I
from tests.support.memory_view import T0, World, cron, every

SECOND = 1000


def fired(
    policy: MisfirePolicy, *, late: int, grace: int = 0, overlap: Overlap = Overlap.ALLOW, cap: int = 100
) -> list[Instance]:
    """An every-second job whose fire of T0 + 1 s comes `late` ms late."""
    world = World()
    world.settings(catch_up_max=cap)
    job = world.create(every(SECOND), misfire=Misfire(policy, grace), overlap=overlap)
    world.forward(SECOND + late)
    upcoming = world.fire(job).nominal_at_ms
    assert upcoming is not None
    assert world.now < upcoming <= world.now + SECOND
    return world.instances(job.id)


def show(rows: list[Instance]) -> list[tuple[str, int, int]]:
    """(state, seconds after T0, fires it stands for)"""
    return [(r.state.name, (r.nominal_at_ms - T0) // SECOND, r.gap_count) for r in rows]


@pytest.mark.parametrize("policy", list(MisfirePolicy))
def test_within_the_grace_is_on_time(policy: MisfirePolicy) -> None:
    assert show(fired(policy, late=900, grace=900)) == [("WAITING", 1, 0)]


def test_skip() -> None:
    rows = fired(MisfirePolicy.SKIP, late=3 * SECOND)  # 1 2 3 are late, 4 is now
    assert show(rows) == [("SKIPPED", 1, 3), ("WAITING", 4, 0)]
    assert rows[0].reason == "misfire"
    assert rows[0].gap_until_ms == T0 + 3 * SECOND


def test_once() -> None:
    """One run for all that were missed, besides the one that is on time."""
    assert show(fired(MisfirePolicy.ONCE, late=3 * SECOND + 1)) == [("SKIPPED", 1, 3), ("WAITING", 4, 0)]
    assert show(fired(MisfirePolicy.ONCE, late=3 * SECOND)) == [
        ("SKIPPED", 1, 2),
        ("WAITING", 3, 0),
        ("WAITING", 4, 0),
    ]


def test_all() -> None:
    assert show(fired(MisfirePolicy.ALL, late=2 * SECOND + 1)) == [("WAITING", k, 0) for k in (1, 2, 3)]


def test_all_is_capped() -> None:
    rows = fired(MisfirePolicy.ALL, late=9 * SECOND + 1, cap=3)  # 1..10 are due
    assert show(rows) == [("SKIPPED", 1, 7), *(("WAITING", k, 0) for k in (8, 9, 10))]
    assert rows[0].gap_until_ms == T0 + 7 * SECOND


def test_skip_of_more_than_the_cap_is_one_record() -> None:
    rows = fired(MisfirePolicy.SKIP, late=1_000_000 * SECOND + 1, cap=3)
    assert show(rows) == [("SKIPPED", 1, 1_000_001)]
    assert rows[0].gap_until_ms == T0 + 1_000_001 * SECOND


def test_the_cap_holds_within_the_grace_too() -> None:
    rows = fired(MisfirePolicy.ALL, late=10 * SECOND, grace=3_600_000, cap=4)
    assert [r.state for r in rows].count(I.WAITING) == 4


class TestAllWhereRunsMayNotOverlap:
    """What was missed is owed: it runs one after the other."""

    def world(self, overlap: Overlap = Overlap.FORBID, **fields: Any) -> tuple[World, Job]:
        world = World()
        job = world.create(every(SECOND), misfire=Misfire(MisfirePolicy.ALL, 0), overlap=overlap, **fields)
        return world, job

    def out(self, world: World, job: Job, seconds: int) -> None:
        """Due for the first time, and nothing could fire for so long after."""
        due = world.job(job.id).nominal_at_ms
        assert due is not None
        world.now = due + seconds * SECOND + 1
        world.fire(job)

    def drain(self, world: World, job: Job) -> list[int]:
        """Runs what is ready until nothing is; in which order."""
        session = world.session()
        order = []
        while ready := [row for row in world.waiting(job.id) if not row.held]:
            assert len(ready) == 1, "two at once"
            order.append((ready[0].nominal_at_ms - T0) // SECOND)
            world.run_once(ready[0].key, session)
        return order

    @pytest.mark.parametrize("overlap", [Overlap.FORBID, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL])
    def test_each_of_them_oldest_first(self, overlap: Overlap) -> None:
        world, job = self.world(overlap)
        world.settings(queue_all_max=2)
        self.out(world, job, 6)
        assert show(world.instances(job.id)) == [("WAITING", k, 0) for k in range(1, 8)]
        assert world.job(job.id).held == 6
        assert [row.steps[0].detail for row in world.instances(job.id)] == ["missed"] * 7
        assert self.drain(world, job) == [1, 2, 3, 4, 5, 6, 7]
        assert (world.job(job.id).active, world.job(job.id).held) == (0, 0)

    def test_what_is_still_in_time_waits_behind_them(self) -> None:
        """It came in the same outage; 5 of 8 were later than the grace."""
        world = World()
        job = world.create(every(SECOND), misfire=Misfire(MisfirePolicy.ALL, 3 * SECOND))
        self.out(world, job, 7)
        assert self.drain(world, job) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert [row.steps[0].detail for row in world.instances(job.id)] == ["missed"] * 5 + [None] * 3

    def test_all_in_time_is_as_ever(self) -> None:
        world = World()
        job = world.create(every(SECOND), misfire=Misfire(MisfirePolicy.ALL, 60 * SECOND))
        self.out(world, job, 3)
        assert show(world.instances(job.id)) == [("WAITING", 1, 0), ("SKIPPED", 2, 3)]

    def test_behind_a_run_that_lives_through_the_outage(self) -> None:
        world, job = self.world()
        world.fire(job)
        self.out(world, job, 2)
        assert self.drain(world, job) == [1, 2, 3, 4]

    def test_what_comes_due_meanwhile_is_forbidden_as_ever(self) -> None:
        world, job = self.world()
        self.out(world, job, 2)
        world.fire(job)
        assert show(world.instances(job.id))[3:] == [("SKIPPED", 4, 1)]
        assert world.instances(job.id)[3].reason == "overlap"
        assert self.drain(world, job) == [1, 2, 3]
        world.fire(job)
        assert self.drain(world, job) == [5]

    def test_outage_after_outage_owes_no_more_than_the_cap(self) -> None:
        world, job = self.world()
        world.settings(catch_up_max=3)
        for _ in range(3):
            self.out(world, job, 5)
        assert world.job(job.id).held == 3
        assert world.job(job.id).active == 4

    def test_the_newest_of_more_than_the_cap(self) -> None:
        world, job = self.world()
        world.settings(catch_up_max=3)
        self.out(world, job, 9)
        assert show(world.instances(job.id))[0] == ("SKIPPED", 1, 7)
        assert self.drain(world, job) == [8, 9, 10]

    def test_max_runs(self) -> None:
        world = World()
        job = world.create(every(SECOND, max_runs=3), misfire=Misfire(MisfirePolicy.ALL, 0))
        self.out(world, job, 9)
        assert self.drain(world, job) == [1, 2, 3]
        assert world.job(job.id).state is JobState.EXPIRED

    def test_failed_ones_are_followed_too(self) -> None:
        world, job = self.world()
        self.out(world, job, 2)
        session = world.session()
        for number in (1, 2, 3):
            row = next(row for row in world.waiting(job.id) if not row.held)
            assert row.nominal_at_ms == T0 + number * SECOND
            world.run_once(row.key, session, Outcome.FAILED)

    @pytest.mark.parametrize("how", ["delete", "expire"])
    def test_a_job_that_is_ended_owes_nothing(self, how: str) -> None:
        world, job = self.world()
        self.out(world, job, 4)
        if how == "delete":
            world.ok(c.DeleteJob(job.id))
        else:
            world.ok(c.SetJobState(job.id, JobState.EXPIRED, kill=True))
        assert not world.waiting(job.id)

    def test_paused_or_edited_it_still_owes_them(self) -> None:
        """As what waits under queue_all: they are there. Its schedule alone stops."""
        world, job = self.world()
        self.out(world, job, 2)
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert self.drain(world, job) == [1, 2, 3]

    def test_one_that_is_killed_lets_the_next_go(self) -> None:
        world, job = self.world()
        self.out(world, job, 3)
        rows = world.instances(job.id)
        world.ok(c.Kill(rows[0].key))
        world.ok(c.Kill(rows[2].key))
        assert self.drain(world, job) == [2, 4]

    def test_more_at_a_time_where_more_may_run(self) -> None:
        world, job = self.world(max_concurrency=2)
        self.out(world, job, 4)
        assert [row.held for row in world.instances(job.id)] == [False, False, True, True, True]

    def test_what_is_replaced_is_not_owed(self) -> None:
        world, job = self.world(Overlap.REPLACE)
        self.out(world, job, 4)
        assert show(world.instances(job.id)) == [("SKIPPED", 1, 4), ("WAITING", 5, 0)]

    @pytest.mark.parametrize("policy", [MisfirePolicy.ONCE, MisfirePolicy.SKIP])
    def test_other_policies_owe_nothing(self, policy: MisfirePolicy) -> None:
        assert sum(r.state is I.WAITING for r in fired(policy, late=5 * SECOND, overlap=Overlap.FORBID)) == 1


class TestOnceWhereRunsMayNotOverlap:
    """The one run that makes up for what was missed waits for the run that goes on."""

    def after_an_outage(
        self, overlap: Overlap = Overlap.FORBID, level: int = newest_level()
    ) -> tuple[World, Job, bytes]:
        """A run is active as nothing can fire for five seconds."""
        world = World(level=level)
        job = world.create(every(SECOND), misfire=Misfire(MisfirePolicy.ONCE, 0), overlap=overlap)
        world.fire(job)
        world.forward(5 * SECOND + 1)
        world.fire(job)
        return world, job, world.waiting(job.id)[0].key

    @pytest.mark.parametrize("overlap", [Overlap.FORBID, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL])
    def test_it_runs_when_that_has_ended(self, overlap: Overlap) -> None:
        world, job, active = self.after_an_outage(overlap)
        assert show(world.instances(job.id)) == [("WAITING", 1, 0), ("SKIPPED", 2, 4), ("WAITING", 6, 0)]
        row = world.waiting(job.id)[1]
        assert (row.held, row.reason, row.steps[0].detail) == (True, "overlap", "missed")
        world.run_once(active, world.session())
        assert [(r.nominal_at_ms, r.held) for r in world.waiting(job.id)] == [(T0 + 6 * SECOND, False)]

    def test_what_comes_due_meanwhile_is_forbidden_as_ever(self) -> None:
        world, job, active = self.after_an_outage()
        world.fire(job)
        assert show(world.instances(job.id))[3:] == [("SKIPPED", 7, 1)]
        session = world.session()
        world.run_once(active, session)
        world.fire(job)
        assert show(world.instances(job.id))[3:] == [("SKIPPED", 7, 2)]  # it is the one that runs now
        world.run_once(world.waiting(job.id)[0].key, session)
        world.fire(job)
        assert show(world.instances(job.id))[4:] == [("WAITING", 9, 0)]

    def test_outage_after_outage_one_waits(self) -> None:
        world, job, _ = self.after_an_outage()
        world.forward(5 * SECOND)
        world.fire(job)
        assert show(world.instances(job.id))[2:] == [("WAITING", 6, 0), ("SKIPPED", 7, 4), ("SKIPPED", 11, 1)]
        assert [row.reason for row in world.instances(job.id)[3:]] == ["misfire", "overlap"]

    def test_what_is_still_in_time_does_not_wait(self) -> None:
        world = World()
        job = world.create(every(SECOND), misfire=Misfire(MisfirePolicy.ONCE, 3 * SECOND))
        world.fire(job)
        world.forward(7 * SECOND + 1)
        world.fire(job)
        assert show(world.instances(job.id)) == [
            ("WAITING", 1, 0),
            ("SKIPPED", 2, 3),
            ("WAITING", 5, 0),
            ("SKIPPED", 6, 3),
        ]

    @pytest.mark.parametrize("policy", [MisfirePolicy.SKIP, MisfirePolicy.ONCE])
    def test_where_none_is_made_up_for_it_is_an_overlap(self, policy: MisfirePolicy) -> None:
        world = World()
        job = world.create(every(SECOND), misfire=Misfire(policy, 60 * SECOND))
        world.fire(job)
        world.forward(5 * SECOND)
        world.fire(job)
        assert show(world.instances(job.id)) == [("WAITING", 1, 0), ("SKIPPED", 2, 5)]

    def test_a_cluster_of_an_earlier_level_leaves_it_out(self) -> None:
        world, job, _ = self.after_an_outage(level=MISSED_RUN_WAITS - 1)
        assert show(world.instances(job.id)) == [("WAITING", 1, 0), ("SKIPPED", 2, 4), ("SKIPPED", 6, 1)]


def test_one_record_per_gap() -> None:
    world = World()
    session = world.session()
    job = world.create(every(SECOND))
    world.fire(job)
    first = world.waiting(job.id)[0].key
    for _ in range(5):
        world.fire(job)
    assert show(world.instances(job.id)) == [("WAITING", 1, 0), ("SKIPPED", 2, 5)]
    assert world.instances(job.id)[1].gap_until_ms == T0 + 6 * SECOND
    world.run_once(first, session)
    world.fire(job)
    for _ in range(2):
        world.fire(job)
    assert show(world.instances(job.id))[2:] == [("WAITING", 7, 0), ("SKIPPED", 8, 2)]


def test_another_reason_is_another_record() -> None:
    world = World()
    job = world.create(every(SECOND), misfire=Misfire(MisfirePolicy.SKIP, 0))
    world.fire(job)
    world.fire(job)
    world.forward(SECOND + 1)
    world.fire(job)
    assert [(r.reason, r.gap_count) for r in world.instances(job.id)[1:]] == [("overlap", 1), ("misfire", 1)]


class TestCalendar:
    """The leader lists what was missed; apply decides."""

    def fire(self, policy: MisfirePolicy, cap: int = 100) -> list[Instance]:
        world = World()
        world.settings(catch_up_max=cap)
        job = world.create(cron(), misfire=Misfire(policy, 0), overlap=Overlap.ALLOW)
        world.ok(c.ScheduleJob(job.id, 1, T0 + SECOND))
        times = [T0 + k * SECOND for k in range(2, 6)]
        world.now = T0 + 5 * SECOND + 1
        keep = tuple(times[-(cap + 1) :])
        world.fire(job, next_nominal_at_ms=T0 + 6 * SECOND, missed=keep, missed_count=4, missed_until_ms=times[-1])
        return world.instances(job.id)

    def test_skip(self) -> None:
        assert show(self.fire(MisfirePolicy.SKIP)) == [("SKIPPED", 1, 5)]

    def test_once(self) -> None:
        assert show(self.fire(MisfirePolicy.ONCE)) == [("SKIPPED", 1, 4), ("WAITING", 5, 0)]

    def test_all_is_capped(self) -> None:
        rows = self.fire(MisfirePolicy.ALL, cap=2)
        assert show(rows) == [("SKIPPED", 1, 3), ("WAITING", 4, 0), ("WAITING", 5, 0)]
        assert rows[0].gap_until_ms == T0 + 3 * SECOND
