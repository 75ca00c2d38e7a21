"""Fixed rate, fixed delay, calendar triggers; bounds, runs, jitter."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftsched.core import commands as c
from raftsched.core.actions import JobDue, JobUnscheduled
from raftsched.core.levels import DELAYS_FOLLOW_EACH_RUN
from raftsched.core.model import EveryMode, JobState, Misfire, MisfirePolicy, Outcome, Overlap, Retry
from raftsched.core.rules.intervals import grid_due, jitter_ms, next_every
from raftsched.core.tables import Table
from tests.support.memory_view import T0, World, cron, every, policy

DELAY = EveryMode.FIXED_DELAY
QUICK = {"overlap": Overlap.ALLOW}


class TestFixedRate:
    def test_anchored_at_creation(self) -> None:
        world = World()
        job = world.create(every(1000), **QUICK)
        assert job.anchor_at_ms == T0
        for k in range(1, 5):
            world.now = T0 + k * 1000 + 7 * k  # a little later each time
            assert world.fire(job).nominal_at_ms == T0 + (k + 1) * 1000
        assert [r.nominal_at_ms for r in world.waiting(job.id)] == [T0 + k * 1000 for k in range(1, 5)]

    @pytest.mark.parametrize(("starts", "first"), [(T0 + 300, T0 + 300), (T0 - 300, T0 + 700)])
    def test_anchored_at_its_start(self, starts: int, first: int) -> None:
        world = World()
        job = world.create(every(1000, starts_at_ms=starts), **QUICK)
        assert job.nominal_at_ms == first
        assert world.fire(job).nominal_at_ms == first + 1000

    def test_an_edit_that_leaves_the_trigger_alone_keeps_the_grid(self) -> None:
        world = World()
        job = world.create(every(1000))
        world.forward(650)
        edited = world.edit(job, priority=9)
        assert (edited.nominal_at_ms, edited.anchor_at_ms) == (T0 + 1000, T0)
        assert JobDue(job.id, 2, T0 + 1000) in world.actions  # whoever waits for it learns the new revision
        assert world.refused(c.Fire(job.id, 1, T0 + 1000)) == "stale"
        world.fire(job)
        assert world.waiting(job.id)[0].priority == 9

    def test_an_edit_of_the_trigger_starts_a_new_grid(self) -> None:
        world = World()
        job = world.create(every(1000))
        world.forward(650)
        assert world.edit(job, trigger=every(300)).nominal_at_ms == T0 + 650 + 300

    def test_pause_and_resume_keep_the_grid_and_never_catch_up(self) -> None:
        world = World()
        job = world.create(every(1000), misfire=Misfire(MisfirePolicy.ALL, 0))
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        world.forward(10_500)
        world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
        assert world.job(job.id).nominal_at_ms == T0 + 11_000
        assert world.instances(job.id) == []

    def test_max_runs(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000, max_runs=2))
        for _ in range(2):
            world.fire(job)
            assert world.job(job.id).state is JobState.SCHEDULED  # as long as it runs
            world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).state is JobState.EXPIRED
        assert world.count(Table.DUE) == 0
        assert world.refused(c.SetJobState(job.id, JobState.SCHEDULED)) == "illegal-transition"

    def test_max_runs_stops_a_catch_up_short(self) -> None:
        world = World()
        job = world.create(every(1000, max_runs=3), misfire=Misfire(MisfirePolicy.ALL, 0), **QUICK)
        world.forward(60_000)
        world.fire(job)
        assert len(world.waiting(job.id)) == 3

    def test_skipped_fires_are_no_runs(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000, max_runs=2))
        for _ in range(5):
            world.fire(job)
        assert world.job(job.id).runs == 1
        world.run_once(world.waiting(job.id)[0].key, session)
        world.fire(job)
        assert world.job(job.id).runs == 2

    def test_ends_at_is_inclusive(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000, ends_at_ms=T0 + 2000), **QUICK)
        world.fire(job)
        assert world.fire(job).nominal_at_ms is None
        for row in world.waiting(job.id):
            world.run_once(row.key, session)
        assert world.job(job.id).state is JobState.EXPIRED

    def test_an_end_already_past(self) -> None:
        world = World()
        assert world.create(every(1000, ends_at_ms=T0 - 1)).state is JobState.EXPIRED


class TestFixedDelay:
    def test_from_the_end_of_the_run_before(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000, mode=DELAY))
        assert job.nominal_at_ms == T0 + 1000
        assert world.fire(job).nominal_at_ms is None
        world.forward(5000)
        world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).nominal_at_ms == world.now + 1000

    def test_starts_at_its_start(self) -> None:
        world = World()
        assert world.create(every(1000, mode=DELAY, starts_at_ms=T0 + 77)).nominal_at_ms == T0 + 77

    def test_a_skipped_fire_waits_the_period_again(self) -> None:
        world = World()
        job = world.create(every(1000, mode=DELAY), misfire=Misfire(MisfirePolicy.SKIP, 100))
        world.now = T0 + 1101
        assert world.fire(job).nominal_at_ms == T0 + 2101

    @pytest.mark.parametrize(("level", "then"), [(6, None), (5, T0 + 2000)])
    def test_a_time_that_is_skipped_while_a_run_is_active(self, level: int, then: int | None) -> None:
        world = World(level=level)
        job = world.create(every(1000, mode=DELAY))
        world.forward(1500)  # it is due, and nothing fired it
        manual = world.run_now(job)
        assert world.job(job.id).nominal_at_ms == T0 + 1000
        world.ok(c.SkipNext(job.id, T0 + 1000))
        assert world.job(job.id).nominal_at_ms == then
        if then is None:
            world.forward(300)
            world.run_once(manual, world.session())
            assert world.job(job.id).nominal_at_ms == T0 + 1800 + 1000

    def test_behind_a_manual_run_it_counts_from_its_end(self) -> None:
        world = World()
        job = world.create(every(1000, mode=DELAY))
        world.forward(400)
        manual = world.run_now(job)
        assert world.job(job.id).nominal_at_ms is None
        world.forward(300)
        world.run_once(manual, world.session())
        assert world.job(job.id).nominal_at_ms == T0 + 700 + 1000

    def test_one_that_was_due_before_a_manual_run_is_on_record(self) -> None:
        """Nothing could fire it until then."""
        world = World()
        job = world.create(every(1000, mode=DELAY))
        world.forward(1000)
        manual = world.run_now(job)
        assert world.fire(job).nominal_at_ms is None
        assert [row.reason for row in world.instances(job.id) if row.gap_count] == ["overlap"]
        world.run_once(manual, world.session())
        assert world.job(job.id).nominal_at_ms == world.now + 1000

    @pytest.mark.parametrize("how", ["killed", "failed", "rerun"])
    def test_behind_each_run_however_it_ends(self, how: str) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000, mode=DELAY))
        manual = world.run_now(job)
        world.forward(300)
        if how == "killed":
            world.ok(c.Kill(manual))
        else:
            world.run_once(manual, session, Outcome.FAILED)
        assert world.job(job.id).nominal_at_ms == T0 + 1300
        if how == "rerun":
            world.forward(100)
            world.ok(c.Rerun(manual))
            assert world.job(job.id).nominal_at_ms is None
            world.forward(100)
            world.run_once(manual, session)
            assert world.job(job.id).nominal_at_ms == T0 + 1500

    def test_between_the_attempts_of_a_run_it_waits(self) -> None:
        world = World()
        job = world.create(every(1000, mode=DELAY), retry=Retry((5000,)))
        manual = world.run_now(job)
        world.run_once(manual, session := world.session(), Outcome.FAILED)
        assert world.job(job.id).nominal_at_ms is None
        world.forward(5000)
        wake = world.instance(manual).wake_at_ms
        assert wake is not None
        world.ok(c.Wake(manual, wake))
        world.run_once(manual, session)
        assert world.job(job.id).nominal_at_ms == world.now + 1000

    def test_its_start_is_not_brought_forward(self) -> None:
        world = World()
        job = world.create(every(1000, mode=DELAY, starts_at_ms=T0 + 9_000))
        manual = world.run_now(job)
        world.run_once(manual, world.session())
        assert world.job(job.id).nominal_at_ms == T0 + 9_000

    def test_what_was_skipped_by_hand_stays_so(self) -> None:
        world = World()
        job = world.create(every(1000, mode=DELAY))
        world.ok(c.SkipNext(job.id, T0 + 1000))
        world.run_once(world.run_now(job), world.session())
        assert world.job(job.id).nominal_at_ms == T0 + 2000

    def test_a_cluster_of_an_earlier_level_keeps_the_time(self) -> None:
        world = World(level=DELAYS_FOLLOW_EACH_RUN - 1)
        job = world.create(every(1000, mode=DELAY))
        world.forward(400)
        world.run_once(world.run_now(job), world.session())
        assert world.job(job.id).nominal_at_ms == T0 + 1000

    @pytest.mark.parametrize("edit", [False, True])
    def test_taken_up_again_while_it_runs_it_waits_for_the_end(self, edit: bool) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000, mode=DELAY), **QUICK)
        world.fire(job)
        key = world.waiting(job.id)[0].key
        if edit:
            world.edit(job, trigger=every(2000, mode=DELAY))
        else:
            world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
            world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
        assert world.job(job.id).nominal_at_ms is None
        world.forward(100)
        world.run_once(key, session)
        assert world.job(job.id).nominal_at_ms == world.now + (2000 if edit else 1000)

    def test_ends(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000, mode=DELAY, ends_at_ms=T0 + 1500))
        world.fire(job)
        world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).state is JobState.EXPIRED


class TestCalendar:
    def test_the_leader_says_the_first_time(self) -> None:
        world = World()
        job = world.create(cron())
        assert (job.nominal_at_ms, job.fire_at_ms) == (None, None)
        assert world.actions == [JobUnscheduled(job.id)]
        assert world.refused(c.ScheduleJob(job.id, 2, T0 + 60_000)) == "stale"
        world.ok(c.ScheduleJob(job.id, 1, T0 + 60_000))
        assert world.job(job.id).fire_at_ms == T0 + 60_000
        assert world.refused(c.ScheduleJob(job.id, 1, T0 + 120_000)) == "stale"

    def test_never(self) -> None:
        world = World()
        job = world.create(cron())
        world.ok(c.ScheduleJob(job.id, 1, None))
        assert world.job(job.id).state is JobState.EXPIRED

    def test_the_fire_carries_the_next_time(self) -> None:
        world = World()
        job = world.create(cron())
        world.ok(c.ScheduleJob(job.id, 1, T0 + 60_000))
        assert world.fire(job, next_nominal_at_ms=T0 + 120_000).nominal_at_ms == T0 + 120_000

    def test_the_last_time(self) -> None:
        world = World()
        session = world.session()
        job = world.create(cron())
        world.ok(c.ScheduleJob(job.id, 1, T0 + 60_000))
        world.fire(job)
        world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).state is JobState.EXPIRED

    def test_pause_forgets_and_resume_asks_again(self) -> None:
        world = World()
        job = world.create(cron())
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert world.count(Table.UNSCHEDULED) == 0
        assert world.refused(c.ScheduleJob(job.id, 1, T0)) == "stale"
        world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
        assert world.count(Table.UNSCHEDULED) == 1

    def test_an_edit_tells_the_leader_of_the_new_revision(self) -> None:
        world = World()
        job = world.create(cron())
        world.edit(job, priority=1)
        assert JobUnscheduled(job.id) in world.actions
        world.ok(c.ScheduleJob(job.id, 2, T0 + 60_000))
        world.edit(job, priority=2)
        assert world.job(job.id).nominal_at_ms == T0 + 60_000

    def test_a_leader_whose_clock_is_behind_repeats_a_time(self) -> None:
        """The same nominal time twice: two runs, two rows."""
        world = World()
        session = world.session()
        job = world.create(cron(), overlap=Overlap.QUEUE_ALL)
        world.ok(c.ScheduleJob(job.id, 1, T0 + 60_000))
        world.fire(job)
        first = world.waiting(job.id)[0].key
        world.assign(first, session)
        world.edit(job, trigger=cron("*/2 * * * *"))
        world.ok(c.ScheduleJob(job.id, 2, T0 + 60_000))
        world.fire(job)
        rows = world.instances(job.id)
        assert len(rows) == 2
        assert {r.nominal_at_ms for r in rows} == {T0 + 60_000}
        assert world.instance(first).live is not None


class TestCompareAndSet:
    def test_twice_is_stale(self) -> None:
        world = World()
        job = world.create(every(1000))
        world.fire(job)
        assert world.refused(c.Fire(job.id, 1, T0 + 1000)) == "stale"

    def test_two_in_one_entry(self) -> None:
        world = World()
        job = world.create(every(1000), **QUICK)
        world.forward(1000)
        fire = c.Fire(job.id, 1, T0 + 1000)
        first, second = world.run(fire, fire)
        assert isinstance(first, c.Accepted)
        assert second == c.Rejected("stale")
        assert len(world.waiting(job.id)) == 1

    def test_another_time_or_revision_or_state(self) -> None:
        world = World()
        job = world.create(every(1000))
        assert world.refused(c.Fire(job.id, 1, T0 + 2000)) == "stale"
        assert world.refused(c.Fire(job.id, 2, T0 + 1000)) == "stale"
        assert world.refused(c.Fire(job.id + 1, 1, T0 + 1000)) == "stale"
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert world.refused(c.Fire(job.id, 1, T0 + 1000)) == "stale"


class TestJitter:
    @given(st.integers(0, 2**63), st.integers(0, 2**50), st.integers(0, 86_400_000))
    def test_within_bounds_and_always_the_same(self, job_id: int, nominal: int, bound: int) -> None:
        trigger = cron(jitter_ms=bound)
        value = jitter_ms(trigger, job_id, nominal)
        assert 0 <= value <= bound
        assert jitter_ms(trigger, job_id, nominal) == value

    def test_spread_evenly(self) -> None:
        hit = Counter(jitter_ms(cron(jitter_ms=9), job, T0) for job in range(5000))
        assert set(hit) == set(range(10))
        assert min(hit.values()) > 300

    def test_below_the_period(self) -> None:
        """A fire that is put off past the next one would swallow it."""
        for job in range(500):
            assert jitter_ms(every(1000, jitter_ms=60_000), job, T0) < 1000

    def test_below_the_gap_to_the_next_time(self) -> None:
        for gap in (1, 2, 1000):
            found = {jitter_ms(cron(jitter_ms=60_000), job, T0, gap) for job in range(300)}
            assert max(found) < gap
            assert len(found) == min(gap, 300) or len(found) > 200

    def test_the_id_keeps_the_time_before_jitter(self) -> None:
        world = World()
        jobs = [
            world.create(every(100_000, jitter_ms=60_000), misfire=Misfire(MisfirePolicy.SKIP, 0)) for _ in range(9)
        ]
        assert len({job.fire_at_ms for job in jobs}) > 3
        for job in sorted(jobs, key=lambda j: j.fire_at_ms or 0):
            assert world.fire(job).nominal_at_ms == T0 + 200_000
            # on time, whatever the jitter added: nothing was missed
            assert [r.nominal_at_ms for r in world.waiting(job.id)] == [T0 + 100_000]


class TestGrid:
    @given(st.integers(1, 10**6), st.integers(0, 10**9), st.integers(0, 10**9), st.none() | st.integers(0, 10**9))
    def test_next_is_the_first_after(self, period: int, anchor: int, moment: int, end: int | None) -> None:
        found = next_every(every(period, ends_at_ms=end), moment, anchor)
        expected = anchor if moment < anchor else anchor + ((moment - anchor) // period + 1) * period
        assert found == (expected if end is None or expected <= end else None)
        assert expected > moment

    @given(st.integers(1, 1000), st.integers(0, 10_000), st.integers(0, 50_000), st.integers(1, 50))
    def test_due(self, period: int, nominal: int, late: int, keep: int) -> None:
        times, count = grid_due(every(period), nominal, nominal + late, keep)
        everything = list(range(nominal, nominal + late + 1, period))
        assert count == len(everything)
        assert times == everything[-keep:]


def test_the_same_content_is_no_edit() -> None:
    world = World()
    job = world.create(every(1000))
    world.ok(c.EditJob(job.id, policy(every(1000)), b"{}"))
    assert world.job(job.id).revision == 1
