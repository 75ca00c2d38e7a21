"""Jobs with several triggers: their times are the job's, taken together, and its policies are about all of them."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.levels import JITTER_ENDS_BEFORE_NEXT
from raftsched.core.model import EveryMode, Job, JobState, Misfire, MisfirePolicy, Overlap, Policy, Retention, Trigger
from raftsched.core.rules.backfill import times_without_run
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import walk
from raftsched.core.subjects.calendar import PutCalendar
from tests.support.memory_view import T0, World, after, at, cron, every
from tests.support.scheduler import due_command, go_on, schedule, several, tick

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
DUE_LATER = Retention(100_000, 100_000)


def made(world: World, *triggers: Trigger, max_runs: int | None = None, **fields: Any) -> Job:
    job = world.create(**several(*triggers, max_runs=max_runs), retention=DUE_LATER, **fields)  # type: ignore[arg-type]
    schedule(world)
    return world.job(job.id)


def runs(world: World, job: Job) -> list[tuple[str, int]]:
    """(id of the trigger, nominal time after T0 in seconds) of what ran or will."""
    return [(r.trigger, (r.nominal_at_ms - T0) // SECOND) for r in world.instances(job.id) if not r.gap_count]


def gaps(world: World, job: Job) -> list[tuple[str | None, int, int, int]]:
    """(reason, first, last, how many) of what was skipped."""
    return [
        (r.reason, (r.nominal_at_ms - T0) // SECOND, ((r.gap_until_ms or 0) - T0) // SECOND, r.gap_count)
        for r in world.instances(job.id)
        if r.gap_count
    ]


def end_all(world: World, job: Job) -> list[int]:
    """Ends what runs, one after the other, until nothing waits. Returns the times in the order in which they ran."""
    session, order = world.session(slots=1), []
    for _ in count():
        ready = [r for r in world.waiting(job.id) if not r.held]
        if not ready:
            return order
        order.append((ready[0].nominal_at_ms - T0) // SECOND)
        world.run_once(ready[0].key, session)
    raise AssertionError


class TestUnion:
    def test_each_has_times_of_its_own(self) -> None:
        world = World()
        job = made(world, every(20 * SECOND, id="a"), every(30 * SECOND, id="b"), overlap=Overlap.ALLOW)
        go_on(world, T0 + 60 * SECOND)
        assert runs(world, job) == [("a", 20), ("b", 30), ("a", 40), ("a", 60)]

    def test_a_time_of_two_is_one_run(self) -> None:
        """And a run that is asked for again at that time is refused: nothing fires twice."""
        world = World()
        job = made(world, every(10 * SECOND, id="a"), every(10 * SECOND, id="b"), overlap=Overlap.ALLOW)
        world.now = T0 + 10 * SECOND
        command = due_command(world, world.job(job.id))
        assert [part.index for part in command.triggers] == [0, 1]
        world.ok(command)
        assert world.refused(command) == "stale"
        assert runs(world, job) == [("a", 10)]
        assert world.job(job.id).runs == 1

    def test_calendar_kinds_and_others(self) -> None:
        world = World()
        job = made(
            world,
            cron("0 * * * *", id="hourly"),
            cron("30 9 * * *", id="madrid", timezone="Europe/Madrid", ends_at_ms=T0 + DAY),
            at(T0 + 90 * MINUTE, id="extra"),
            after(15 * MINUTE, id="soon"),
            overlap=Overlap.ALLOW,
        )
        go_on(world, T0 + 3 * HOUR)
        hours = [("hourly", 3600 * k) for k in (1, 2, 3)]
        assert runs(world, job) == sorted([*hours, ("extra", 5400), ("soon", 900)], key=lambda run: run[1])

    def test_one_with_a_longer_jitter_does_not_run_the_time_again(self) -> None:
        world = World()
        job = made(
            world,
            every(HOUR, id="a"),
            every(HOUR, id="b", jitter_ms=20 * MINUTE),
            cron("* * * * *", id="c", jitter_ms=MINUTE),
            overlap=Overlap.ALLOW,
        )
        go_on(world, T0 + 2 * HOUR)
        times = [at_s for _, at_s in runs(world, job)]
        assert len(times) == len(set(times)) >= 119

    @pytest.mark.parametrize(
        ("level", "found"),
        [
            (JITTER_ENDS_BEFORE_NEXT - 1, [("overlap", 30, 60, 2), ("overlap", 40, 40, 1)]),
            (JITTER_ENDS_BEFORE_NEXT, [("overlap", 30, 60, 3)]),  # each before the next
        ],
    )
    def test_a_time_with_a_longer_jitter_is_on_record_when_it_is_skipped(
        self, level: int, found: list[tuple[str, int, int, int]]
    ) -> None:
        world = World(level=level)
        job = made(world, every(20 * SECOND, id="a"), every(30 * SECOND, id="b", jitter_ms=25 * SECOND))
        go_on(world, T0 + 60 * SECOND)  # the first run stays active
        assert runs(world, job) == [("a", 20)]
        assert gaps(world, job) == found

    def test_missed_times_that_share_a_jitter_run_once(self) -> None:
        world = World()
        job = made(
            world,
            every(MINUTE, id="a"),
            every(MINUTE, id="b", jitter_ms=50 * SECOND),
            overlap=Overlap.ALLOW,
            misfire=Misfire(MisfirePolicy.ALL, 0),
        )
        world.forward(30 * MINUTE)
        tick(world)
        go_on(world, T0 + 35 * MINUTE)
        times = [at_s for _, at_s in runs(world, job)]
        assert sorted(times) == [60 * k for k in range(1, 36)]

    def test_missed_times_within_a_longer_jitter_run_once(self) -> None:
        """After an outage several times of one are run while the jitter of the other is not over."""
        world = World()
        job = made(
            world,
            every(MINUTE, id="a"),
            cron("* * * * *", id="b", jitter_ms=10 * MINUTE),
            overlap=Overlap.ALLOW,
            misfire=Misfire(MisfirePolicy.ALL, 0),
        )
        world.forward(30 * MINUTE)
        tick(world)
        go_on(world, T0 + 50 * MINUTE)
        times = [at_s for _, at_s in runs(world, job)]
        assert sorted(times) == [60 * k for k in range(1, 51)]

    def test_a_time_that_was_left_out_is_not_run_as_that_of_another(self) -> None:
        world = World()
        job = made(world, every(MINUTE, id="a"), every(MINUTE, id="b", jitter_ms=50 * SECOND))
        key, session = world.run_now(job), world.session()
        go_on(world, T0 + MINUTE)
        assert gaps(world, job) == [("overlap", 60, 60, 1)]
        world.run_once(key, session)
        go_on(world, T0 + 2 * MINUTE - 1)
        assert [r for r in runs(world, job) if r[0]] == []

    def test_a_fixed_delay_counts_from_the_end_of_what_runs(self) -> None:
        world = World()
        job = made(world, every(MINUTE, id="d", mode=EveryMode.FIXED_DELAY), at(T0 + 90 * SECOND, id="x"))
        session = world.session()
        go_on(world, T0 + 60 * SECOND)
        world.forward(5 * SECOND)
        world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).fire_at_ms == T0 + 90 * SECOND
        assert world.job(job.id).triggers[0].nominal_at_ms == T0 + 125 * SECOND
        go_on(world, T0 + 90 * SECOND)
        assert world.job(job.id).triggers[0].nominal_at_ms is None
        world.forward(5 * SECOND)
        world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).fire_at_ms == T0 + 155 * SECOND

    def test_a_fixed_delay_whose_time_is_skipped_while_a_run_is_active(self) -> None:
        world = World()
        job = made(world, every(MINUTE, id="d", mode=EveryMode.FIXED_DELAY), at(T0 + HOUR, id="x"))
        world.forward(90 * SECOND)
        manual = world.run_now(job)
        world.ok(c.SkipNext(job.id, T0 + MINUTE))
        assert world.job(job.id).triggers[0].nominal_at_ms is None
        world.forward(5 * SECOND)
        world.run_once(manual, world.session())
        assert world.job(job.id).triggers[0].nominal_at_ms == T0 + 155 * SECOND

    def test_a_fixed_delay_beside_others_counts_from_the_end_of_a_run_by_hand(self) -> None:
        world = World()
        job = made(world, every(MINUTE, id="d", mode=EveryMode.FIXED_DELAY), at(T0 + HOUR, id="x"))
        manual = world.run_now(job)
        assert world.job(job.id).fire_at_ms == T0 + HOUR
        world.forward(5 * SECOND)
        world.run_once(manual, world.session())
        assert world.job(job.id).fire_at_ms == T0 + 65 * SECOND


class TestPolicies:
    def test_forbid_holds_across_them(self) -> None:
        world = World()
        job = made(world, every(20 * SECOND, id="a"), every(30 * SECOND, id="b"))
        go_on(world, T0 + 40 * SECOND)
        assert runs(world, job) == [("a", 20)]
        assert gaps(world, job) == [("overlap", 30, 40, 2)]
        assert world.job(job.id).active == 1

    def test_max_runs_counts_all_of_them(self) -> None:
        world = World()
        job = made(world, every(20 * SECOND, id="a"), cron("* * * * *", id="b"), max_runs=3, overlap=Overlap.ALLOW)
        go_on(world, T0 + HOUR)
        assert len(runs(world, job)) == 3
        end_all(world, job)
        assert world.job(job.id).state is JobState.EXPIRED

    def test_max_runs_in_one_moment(self) -> None:
        world = World()
        triggers = [at(T0 + SECOND + k, id=f"t{k}") for k in range(4)]
        job = made(world, *triggers, max_runs=2)
        world.forward(HOUR)
        tick(world)
        assert len(runs(world, job)) == 2
        assert end_all(world, job) == [1, 1]
        assert world.job(job.id).state is JobState.EXPIRED

    @pytest.mark.parametrize(
        ("policy", "ran"), [(MisfirePolicy.SKIP, 0), (MisfirePolicy.ONCE, 1), (MisfirePolicy.ALL, 6)]
    )
    def test_misfire_is_about_their_times_together(self, policy: MisfirePolicy, ran: int) -> None:
        world = World()
        job = made(
            world,
            every(HOUR, id="a"),
            every(90 * MINUTE, id="b"),
            overlap=Overlap.ALLOW,
            misfire=Misfire(policy, 0),
        )
        world.forward(5 * HOUR - MINUTE)  # 1h, 1h30, 2h, 3h (both), 4h, 4h30
        tick(world)
        assert len(runs(world, job)) == ran
        assert sum(gap[3] for gap in gaps(world, job)) == 6 - ran

    def test_all_under_forbid_runs_each_one_after_the_other(self) -> None:
        world = World()
        job = made(world, every(HOUR, id="a"), cron("30 * * * *", id="b"), misfire=Misfire(MisfirePolicy.ALL, MINUTE))
        world.forward(5 * HOUR)
        tick(world)
        assert world.job(job.id).active - world.job(job.id).held == 1
        times = [at_s for _, at_s in runs(world, job)]
        assert len(times) == 10
        assert end_all(world, job) == sorted(times)
        assert gaps(world, job) == []

    def test_the_newest_are_caught_up_with(self) -> None:
        world = World()
        world.settings(catch_up_max=4)
        job = made(
            world,
            every(SECOND, id="a"),
            every(HOUR, id="b"),
            overlap=Overlap.ALLOW,
            misfire=Misfire(MisfirePolicy.ALL, 0),
        )
        world.forward(2 * HOUR + SECOND // 2)
        tick(world)
        assert [at_s for _, at_s in runs(world, job)] == [7197, 7198, 7199, 7200]
        assert gaps(world, job) == [("misfire", 1, 7196, 7197)]  # 1 h is a time of both

    def test_replace_kills_what_another_trigger_started(self) -> None:
        world = World()
        job = made(world, every(20 * SECOND, id="a"), every(30 * SECOND, id="b"), overlap=Overlap.REPLACE)
        go_on(world, T0 + 30 * SECOND)
        assert [(r.trigger, r.state.name) for r in world.instances(job.id)] == [("a", "KILLED"), ("b", "WAITING")]


class TestOnce:
    def test_each_runs_however_late(self) -> None:
        world = World()
        world.settings(catch_up_max=1)
        triggers = [at(T0 + k * HOUR, id=f"t{k}") for k in range(1, 4)]
        job = made(world, *triggers, every(SECOND, id="often"), misfire=Misfire(MisfirePolicy.SKIP, 0))
        world.forward(10 * HOUR + 500)
        tick(world)
        assert [r for r in runs(world, job) if r[0] != "often"] == [("t1", 3600), ("t2", 7200), ("t3", 10800)]
        assert world.job(job.id).active - world.job(job.id).held == 1

    def test_the_job_is_over_when_all_are(self) -> None:
        world = World()
        job = made(world, at(T0 + SECOND, id="a"), after(MINUTE, id="b"))
        go_on(world, T0 + MINUTE)
        assert world.job(job.id).state is JobState.SCHEDULED  # they run
        assert end_all(world, job) == [1, 60]
        assert world.job(job.id).state is JobState.EXPIRED
        assert world.job(job.id).purge_at_ms is None

    def test_a_past_one_runs_at_once(self) -> None:
        world = World()
        job = made(world, at(T0 - HOUR, id="a"), at(T0 + HOUR, id="b"))
        tick(world)
        (row,) = world.instances(job.id)
        assert (row.trigger, row.nominal_at_ms, row.overdue_ms) == ("a", T0 - HOUR, HOUR)

    def test_one_that_waits_for_a_worker_has_no_start_deadline(self) -> None:
        world = World()
        job = made(world, at(T0 + SECOND, id="a"), every(2 * SECOND, id="b"), overlap=Overlap.ALLOW)
        go_on(world, T0 + 2 * SECOND)
        by_id = {row.trigger: row for row in world.instances(job.id)}
        assert by_id["a"].wake_at_ms is None
        assert by_id["b"].wake_at_ms is not None


class TestCompareAndSet:
    def test_a_part_that_is_stale_is_left_out(self) -> None:
        world = World()
        job = made(world, every(10 * SECOND, id="a"), cron("* * * * *", id="b"), overlap=Overlap.ALLOW)
        world.now = T0 + 10 * SECOND
        command = due_command(world, world.job(job.id))
        stale = c.TriggerFire(1, T0 + 3 * SECOND)
        twice = (*command.triggers, stale, c.TriggerFire(7, T0), c.TriggerFire(-1, T0))
        world.ok(c.Fire(job.id, job.revision, command.nominal_at_ms, triggers=twice))
        assert runs(world, job) == [("a", 10)]
        assert world.refused(c.Fire(job.id, job.revision, T0 + 20 * SECOND)) == "stale"
        assert world.refused(c.Fire(job.id, job.revision, T0 + 20 * SECOND, triggers=(stale,))) == "stale"

    def test_a_next_time_is_taken_once_and_only_from_when_it_is_owed(self) -> None:
        world = World()
        job = world.create(**several(cron(id="a"), every(HOUR, id="b")))  # type: ignore[arg-type]
        fit = c.TriggerSchedule(0, T0, T0 + MINUTE)
        for wrong in (
            c.TriggerSchedule(0, T0 + 1, T0 + MINUTE),
            c.TriggerSchedule(1, T0, T0),
            c.TriggerSchedule(2, T0, 1),
        ):
            assert world.refused(c.ScheduleJob(job.id, 1, None, triggers=(wrong,))) == "stale"
        assert world.refused(c.ScheduleJob(job.id, 1, T0 + MINUTE)) == "stale"
        world.ok(c.ScheduleJob(job.id, 1, None, triggers=(fit,)))
        assert world.job(job.id).fire_at_ms == T0 + MINUTE
        assert world.refused(c.ScheduleJob(job.id, 1, None, triggers=(fit,))) == "stale"


class TestByHand:
    def test_pausing_and_resuming_counts_from_then(self) -> None:
        world = World()
        job = made(world, every(10 * SECOND, id="a"), cron("* * * * *", id="b"), at(T0 + 5 * SECOND, id="c"))
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert world.job(job.id).fire_at_ms is None
        world.forward(35 * SECOND)
        world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
        go_on(world, world.now)
        assert runs(world, job) == [("c", 5)]  # as a job that is due once
        assert world.job(job.id).fire_at_ms == T0 + 40 * SECOND

    def test_what_was_due_when_it_was_paused_is_said(self) -> None:
        world = World()
        job = made(world, every(10 * SECOND, id="a"), every(25 * SECOND, id="b"))
        world.forward(30 * SECOND)
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert gaps(world, job) == [("suspended", 10, 30, 4)]

    def test_skip_next_skips_the_time_of_all_who_have_it(self) -> None:
        world = World()
        job = made(
            world,
            every(10 * SECOND, id="a"),
            every(20 * SECOND, id="b"),
            cron("* * * * *", id="c"),
            overlap=Overlap.ALLOW,
        )
        go_on(world, T0 + 15 * SECOND)
        world.ok(c.SkipNext(job.id, T0 + 20 * SECOND))
        world.ok(c.SkipNext(job.id, T0 + 20 * SECOND))
        assert world.refused(c.SkipNext(job.id, T0 + 50 * SECOND)) == "not-next"
        go_on(world, T0 + 40 * SECOND)
        assert runs(world, job) == [("a", 10), ("a", 30), ("a", 40)]
        assert gaps(world, job) == [("skip_next", 20, 20, 1)]

    def test_skip_next_of_a_time_that_the_leader_owes_as_well(self) -> None:
        world = World(now_ms=T0 - T0 % MINUTE)
        job = world.create(**several(every(MINUTE, id="a"), cron("* * * * *", id="b")))  # type: ignore[arg-type]
        skipped = world.now + MINUTE
        world.ok(c.SkipNext(job.id, skipped))
        go_on(world, skipped + SECOND)
        assert [r.gap_count for r in world.instances(job.id)] == [1]
        go_on(world, skipped + MINUTE)
        assert len(world.instances(job.id)) == 2

    def test_skipping_the_last_time_of_one_that_is_due_once(self) -> None:
        world = World()
        job = made(world, at(T0 + SECOND, id="a"), at(T0 + MINUTE, id="b"))
        world.ok(c.SkipNext(job.id, T0 + SECOND))
        world.ok(c.SkipNext(job.id, T0 + MINUTE))
        assert world.job(job.id).state is JobState.EXPIRED

    def test_backfill_leaves_alone_what_comes_by_itself(self) -> None:
        world = World()
        job = made(world, every(10 * SECOND, id="a"), every(25 * SECOND, id="b"))
        world.forward(60 * SECOND)
        assert times_without_run(world.view, world.job(job.id), (T0 + 5, T0 + 10 * SECOND), world.now) == [T0 + 5]


class TestEdit:
    def test_a_trigger_that_stays_keeps_its_state(self) -> None:
        world = World()
        a, b = every(10 * SECOND, id="a"), every(HOUR, id="b", starts_at_ms=T0 - 7)
        job = made(world, a, b, max_runs=5, overlap=Overlap.ALLOW)
        go_on(world, T0 + 15 * SECOND)
        world.edit(job, **several(b, every(7 * SECOND, id="c"), max_runs=5))
        row = world.job(job.id)
        assert row.runs == 1
        assert row.triggers[0].nominal_at_ms == T0 - 7 + HOUR
        assert row.triggers[1].nominal_at_ms == T0 + 22 * SECOND
        assert row.fire_at_ms == T0 + 22 * SECOND

    def test_what_one_that_goes_owed_is_said(self) -> None:
        world = World()
        a, b = every(10 * SECOND, id="a"), every(15 * SECOND, id="b")
        job = made(world, a, b)
        world.forward(31 * SECOND)
        world.edit(job, **several(b))
        assert gaps(world, job) == [("edited", 10, 30, 3)]
        tick(world)
        assert runs(world, job) == [("b", 15)]

    def test_none_that_stays_counts_anew(self) -> None:
        world = World()
        job = made(world, at(T0 + SECOND, id="a"), max_runs=1)
        go_on(world, T0 + SECOND)
        end_all(world, job)
        assert world.job(job.id).state is JobState.EXPIRED
        world.edit(job, **several(at(T0 + MINUTE, id="a"), max_runs=1))
        row = world.job(job.id)
        assert (row.state, row.runs, row.fire_at_ms) == (JobState.SCHEDULED, 0, T0 + MINUTE)

    def test_from_one_to_several_and_back(self) -> None:
        world = World()
        job = world.create(every(10 * SECOND))
        world.edit(job, **several(every(10 * SECOND, id="a"), cron("* * * * *", id="b")))
        schedule(world)
        go_on(world, T0 + 10 * SECOND)
        assert runs(world, job) == [("a", 10)]
        world.edit(job, trigger=every(MINUTE), triggers=())
        assert world.job(job.id).triggers == ()
        assert world.job(job.id).fire_at_ms == T0 + 70 * SECOND

    def test_other_fields_change_no_time(self) -> None:
        world = World()
        job = made(world, every(10 * SECOND, id="a"), cron("* * * * *", id="b"))
        before = world.job(job.id)
        row = world.edit(job, priority=7)
        assert [s.nominal_at_ms for s in row.triggers] == [s.nominal_at_ms for s in before.triggers]
        go_on(world, T0 + 10 * SECOND)
        assert runs(world, job) == [("a", 10)]

    def test_while_the_leader_owes_times(self) -> None:
        world = World()
        job = world.create(**several(cron("* * * * *", id="a"), every(10 * SECOND, id="b")))  # type: ignore[arg-type]
        world.edit(job, priority=7)
        world.edit(job, **several(cron("* * * * *", id="a"), cron("0 * * * *", id="z")))
        schedule(world)
        assert all(s.nominal_at_ms is not None for s in world.job(job.id).triggers)


class TestCalendars:
    def test_each_has_its_own(self) -> None:
        world = World()
        world.ok(PutCalendar("c1", b'{"dates":["2025-11-21"]}'))
        world.ok(PutCalendar("c2", b'{"dates":["2025-11-22"]}'))
        daily = {"expr": "0 12 * * *"}
        job = made(
            world, cron(id="a", calendar="c1", **daily), cron(id="b", calendar="c2", timezone="Asia/Tokyo", **daily)
        )
        for name in ("c1", "c2"):
            assert [world.job(job.id).id for _ in walk(JobFilter(calendar=name)).rows(world.view)] == [job.id]
        assert isinstance(world.do(c.EditJob(job.id, world.job(job.id).policy, b"{}", name=None)), c.Accepted)
        before = [s.nominal_at_ms for s in world.job(job.id).triggers]
        world.ok(PutCalendar("c2", b'{"ranges":[{"from":"2025-11-20","to":"2030-01-01"}]}'))
        schedule(world)
        after_ = [s.nominal_at_ms for s in world.job(job.id).triggers]
        assert after_[0] == before[0]
        assert (after_[1] or 0) > (before[1] or 0) + 1000 * DAY

    def test_one_that_is_not_there_is_named_by_its_place(self) -> None:
        world = World()
        answer = world.do(
            c.CreateJob("default", None, policy_of(every(SECOND, id="a"), cron(id="b", calendar="x")), b"{}")
        )
        assert isinstance(answer, c.Rejected)
        assert answer.pointer == "/triggers/1/calendar"


def policy_of(*triggers: Trigger, **fields: Any) -> Any:
    return Policy(**several(*triggers, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [every(SECOND, id="a")] * 2,
        [every(SECOND)],
        [every(SECOND, id="x" * 129)],
        [every(SECOND, id="a", max_runs=1)],
        [Trigger(kind=6, id="a")],  # type: ignore[arg-type]
        [every(0, id="a")],
        [every(SECOND, id=f"t{k}") for k in range(17)],
    ],
)
def test_what_is_wrong_with_them_is_refused(wrong: list[Trigger]) -> None:
    assert World().refused(c.CreateJob("default", None, policy_of(*wrong), b"{}")) == "invalid-job"


def test_a_trigger_beside_several_is_refused() -> None:
    policy = policy_of(every(SECOND, id="a"))
    for trigger in (every(SECOND), Trigger(kind=policy.trigger.kind, calendar="x")):
        both = type(policy)(trigger=trigger, triggers=policy.triggers)
        assert World().refused(c.CreateJob("default", None, both, b"{}")) == "invalid-job"


def test_replaying_in_one_batch_gives_the_same() -> None:
    world = World()
    job = made(world, every(20 * SECOND, id="a"), cron("* * * * *", id="b"), at(T0 + 50 * SECOND, id="c"))
    go_on(world, T0 + 2 * MINUTE)
    end_all(world, job)
    assert world.in_one_batch() == world.view.dump()
