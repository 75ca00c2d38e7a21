"""Leaving out the next time; runs for times that are past."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.actions import JobUnscheduled
from raftsched.core.ids import BACKFILL, instance_key
from raftsched.core.model import EveryMode, Job, JobState, Outcome, Overlap, Retention, Trigger
from raftsched.core.model import InstanceState as I
from tests.support.memory_view import T0, World, after, at, cron, every


def skip(world: World, job: Job) -> Job:
    nominal = world.job(job.id).nominal_at_ms
    assert nominal is not None
    world.ok(c.SkipNext(job.id, nominal))
    return world.job(job.id)


class TestSkipNext:
    def test_the_next_time_is_left_out_and_the_one_after_is_not(self) -> None:
        world = World()
        job = world.create(every(1_000))
        assert skip(world, job).nominal_at_ms == T0 + 2_000
        (record,) = world.instances(job.id)
        assert (record.state, record.reason, record.nominal_at_ms) == (I.SKIPPED, "skip_next", T0 + 1_000)
        assert record.gap_count == 1
        assert world.fire(job).runs == 1
        assert [r.nominal_at_ms for r in world.waiting(job.id)] == [T0 + 2_000]

    def test_a_repeat_changes_nothing(self) -> None:
        world = World()
        job = world.create(every(1_000))
        skip(world, job)
        world.ok(c.SkipNext(job.id, T0 + 1_000))
        assert world.job(job.id).nominal_at_ms == T0 + 2_000
        skip(world, job)
        (record,) = world.instances(job.id)  # one gap
        assert (record.gap_count, record.gap_until_ms) == (2, T0 + 2_000)

    def test_only_the_next_one(self) -> None:
        world = World()
        job = world.create(every(1_000))
        assert world.refused(c.SkipNext(job.id, T0 + 2_000)) == "not-next"
        assert world.refused(c.SkipNext(5, T0)) == "not-found"

    def test_a_calendar_job_is_owed_the_time_after(self) -> None:
        world = World()
        job = world.create(cron())
        world.ok(c.ScheduleJob(job.id, 1, T0 + 60_000))
        job = skip(world, job)
        assert job.nominal_at_ms is None
        assert JobUnscheduled(job.id) in world.actions
        # a time that was computed before
        assert world.refused(c.ScheduleJob(job.id, 1, T0 + 60_000)) == "stale"
        world.ok(c.ScheduleJob(job.id, 1, T0 + 120_000))
        assert world.job(job.id).nominal_at_ms == T0 + 120_000

    def test_it_holds_over_a_pause_and_an_edit(self) -> None:
        world = World()
        job = world.create(every(1_000))
        skip(world, job)
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert world.refused(c.SkipNext(job.id, T0 + 2_000)) == "illegal-transition"
        world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
        assert world.job(job.id).nominal_at_ms == T0 + 2_000
        world.edit(job, priority=1)
        assert world.job(job.id).nominal_at_ms == T0 + 2_000
        world.edit(job, trigger=every(500))  # other times
        assert world.job(job.id).nominal_at_ms == T0 + 500

    def test_after_the_last_time_the_job_is_done(self) -> None:
        for mode in EveryMode:
            world = World()
            job = world.create(every(1_000, mode=mode, ends_at_ms=T0 + 1_500))
            assert skip(world, job).state is JobState.EXPIRED

    def test_it_is_no_run(self) -> None:
        world = World()
        job = skip(world, world.create(every(1_000, max_runs=1)))
        assert (job.runs, job.state) == (0, JobState.SCHEDULED)

    @pytest.mark.parametrize("trigger", [at(T0 + 5), after(5)])
    def test_not_of_a_one_shot(self, trigger: Trigger) -> None:
        world = World()
        job = world.create(trigger)
        assert world.refused(c.SkipNext(job.id, T0 + 5)) == "illegal-transition"


class TestBackfill:
    TIMES = tuple(T0 - 10_000 + k * 1_000 for k in range(5))

    def test_one_after_the_other_in_order(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(60_000))
        assert world.ok(c.Backfill(job.id, 1, self.TIMES)).number == 5
        for nominal in self.TIMES:
            (row,) = [r for r in world.waiting(job.id) if not r.held]
            assert (row.nominal_at_ms, row.request) == (nominal, BACKFILL)
            world.run_once(row.key, session)
        job = world.job(job.id)
        assert (job.active, job.runs) == (0, 0)

    def test_all_at_once_where_runs_may_overlap(self) -> None:
        world = World()
        job = world.create(every(60_000), overlap=Overlap.ALLOW)
        world.ok(c.Backfill(job.id, 1, self.TIMES))
        assert sum(not r.held for r in world.waiting(job.id)) == 5

    def test_it_waits_behind_what_runs(self) -> None:
        for overlap in (Overlap.FORBID, Overlap.REPLACE, Overlap.QUEUE_ONE):
            world = World()
            session = world.session()
            job = world.create(every(60_000), overlap=overlap)
            running = world.run_now(job)
            world.assign(running, session)
            world.ok(c.Backfill(job.id, 1, self.TIMES))
            assert not world.instance(running).kill_asked
            assert sum(r.held for r in world.waiting(job.id)) == 5

    def test_each_time_is_made_once(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(60_000), overlap=Overlap.ALLOW)
        world.ok(c.Backfill(job.id, 1, self.TIMES[:3]))
        assert world.ok(c.Backfill(job.id, 1, self.TIMES)).number == 2
        for row in world.waiting(job.id):
            world.run_once(row.key, session, Outcome.FAILED)
        assert world.ok(c.Backfill(job.id, 1, self.TIMES)).number == 0

    def test_what_ran_is_left_out_and_what_was_skipped_is_not(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1_000))
        world.fire(job)
        world.fire(job)  # skipped: the first is active
        world.run_once(world.waiting(job.id)[0].key, session)
        world.forward(500)
        times = (T0 + 1_000, T0 + 2_000, T0 + 3_000)
        assert world.ok(c.Backfill(job.id, 1, times)).number == 1
        assert world.row(instance_key(T0 + 2_000, job.id, BACKFILL)) is not None

    def test_what_is_still_to_fire_is_left_to_the_schedule(self) -> None:
        world = World()
        job = world.create(every(1_000))
        world.forward(5_500)  # T0 + 1000 to T0 + 5000 are due
        assert world.ok(c.Backfill(job.id, 1, (T0, T0 + 1_000, T0 + 5_000))).number == 1
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert world.ok(c.Backfill(job.id, 1, (T0 + 1_000, T0 + 5_000, T0 + 6_000))).number == 2

    def test_what_a_calendar_is_owed_is_left_to_it(self) -> None:
        """It counts from when its schedule was taken up: nobody may have led since."""
        world = World()
        job = world.create(cron())
        world.forward(120_000)
        assert world.ok(c.Backfill(job.id, 1, (T0 - 60_000, T0, T0 + 60_000, T0 + 120_000))).number == 2

    def test_limits(self) -> None:
        world = World()
        world.settings(backfill_max=3, active_max=4)
        job = world.create(every(60_000))
        assert world.refused(c.Backfill(job.id, 1, self.TIMES)) == "too-large"
        assert world.refused(c.Backfill(job.id, 2, self.TIMES[:1])) == "stale-revision"
        assert world.refused(c.Backfill(job.id, 1, self.TIMES[1::-1])) == "invalid-parameter"
        assert world.refused(c.Backfill(job.id, 1, (-1, 5))) == "invalid-parameter"
        assert world.refused(c.Backfill(5, 1, ())) == "not-found"
        world.ok(c.Backfill(job.id, 1, self.TIMES[:3]))
        assert world.refused(c.Backfill(job.id, 1, self.TIMES[3:])) == "too-many"
        world.ok(c.SetJobState(job.id, JobState.EXPIRED))
        assert world.refused(c.Backfill(job.id, 1, self.TIMES[:1])) == "illegal-transition"

    def test_under_a_key_the_first_answer(self) -> None:
        world = World()
        job = world.create(every(60_000))
        command = c.Backfill(job.id, 1, self.TIMES, b"k" * 32, b"d" * 32)
        assert world.ok(command).number == 5
        assert world.ok(command).number == 5

    def test_history_keeps_it_by_age_and_it_pushes_nothing_out(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1_000), overlap=Overlap.ALLOW, retention=Retention(succeeded=2, failed=2))
        for _ in range(2):
            world.fire(job)
            world.run_once(world.waiting(job.id)[0].key, session)
        world.ok(c.Backfill(job.id, 1, self.TIMES))
        for row in world.waiting(job.id):
            world.run_once(row.key, session)
        assert len(world.instances(job.id)) == 7
        world.fire(job)
        world.run_once(world.waiting(job.id)[0].key, session)  # one too many: the oldest of its own kind goes
        assert len([r for r in world.instances(job.id) if not r.request]) == 2
        purge = world.instances(job.id)[0].purge_at_ms
        assert purge is not None
        world.now = purge + 10_000
        world.ok(c.Prune(world.now, 100))
        assert world.instances(job.id) == []
