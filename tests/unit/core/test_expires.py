"""A run that has not started when it expires is skipped, whatever it waited for."""

from __future__ import annotations

import pytest

from raftsched.bounds import HOUR_MS, MINUTE_MS
from raftsched.core import commands as c
from raftsched.core.limits import policy_error
from raftsched.core.model import (
    Condition,
    ConditionKind,
    Instance,
    JobState,
    Misfire,
    MisfirePolicy,
    Outcome,
    Overlap,
    Retry,
    StepKind,
)
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import Table
from tests.support.memory_view import T0, World, at, every, policy

REASON = "expired_unstarted"
SECOND = 1_000


def wake(world: World, key: bytes) -> Instance:
    """When its timer is due."""
    at_ms = world.instance(key).wake_at_ms
    assert at_ms is not None
    world.now = max(world.now, at_ms)
    world.ok(c.Wake(key, at_ms))
    return world.instance(key)


def assert_skipped(world: World, row: Instance, why: str) -> None:
    assert (row.state, row.reason, row.dead_letter) == (I.SKIPPED, REASON, False)
    assert row.error == f"It had not started within 10m{why}"
    assert row.steps[-1].kind is StepKind.FINAL
    assert not row.attempts
    assert world.count(Table.TIMERS) == 0


class TestWaiting:
    def test_for_a_worker(self) -> None:
        world = World()
        job = world.create(at(T0 + SECOND), expires_ms=10 * MINUTE_MS)
        world.fire(job)
        (row,) = world.instances(job.id)
        assert row.wake_at_ms == row.expires_at_ms == T0 + SECOND + 10 * MINUTE_MS
        assert_skipped(world, wake(world, row.key), ".")
        assert world.now == row.expires_at_ms
        assert world.job(job.id).state is JobState.EXPIRED
        assert (world.job(job.id).active, world.job(job.id).others) == (0, 1)

    def test_the_start_deadline_may_be_over_before(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS), expires_ms=2 * world.meta.settings.start_deadline_ms)
        world.fire(job)
        (row,) = world.instances(job.id)
        assert row.wake_at_ms == world.now + world.meta.settings.start_deadline_ms
        assert wake(world, row.key).reason == "start_deadline"

    def test_it_may_expire_before_the_start_deadline(self) -> None:
        world = World()
        job = world.create(every(HOUR_MS), expires_ms=10 * MINUTE_MS)
        world.fire(job)
        (row,) = world.instances(job.id)
        assert row.wake_at_ms == world.now + 10 * MINUTE_MS
        assert_skipped(world, wake(world, row.key), ".")

    def test_for_another_run(self) -> None:
        world = World()
        session = world.session()
        job = world.create(expires_ms=10 * MINUTE_MS, overlap=Overlap.QUEUE_ALL)
        first = world.run_now(job)
        world.assign(first, session)
        second = world.run_now(job, 2)
        assert world.instance(second).held
        assert_skipped(world, wake(world, second), ": it waited for another run of its job to end.")
        assert (world.job(job.id).active, world.job(job.id).held) == (1, 0)
        world.end(first)

    def test_what_was_let_go_still_expires(self) -> None:
        world = World()
        session = world.session()
        job = world.create(expires_ms=10 * MINUTE_MS, overlap=Overlap.QUEUE_ALL)
        first = world.run_now(job)
        world.assign(first, session)
        second = world.run_now(job, 2)
        world.forward(MINUTE_MS)
        world.end(first)
        assert not world.instance(second).held
        assert world.instance(second).wake_at_ms == T0 + 10 * MINUTE_MS
        assert_skipped(world, wake(world, second), ".")

    def test_for_its_conditions(self) -> None:
        world = World()
        job = world.create(expires_ms=10 * MINUTE_MS, conditions=(Condition(ConditionKind.HTTP, "http://h/"),))
        key = world.run_now(job)
        while world.instance(key).state is I.WAITING:
            until_ms = world.instance(key).checks_end_at_ms
            assert until_ms == T0 + 10 * MINUTE_MS
            world.ok(c.ReportConditions(key, until_ms, "n2", False, "no answer"))
            row = wake(world, key)
        assert_skipped(world, row, ": no answer")
        assert world.now == T0 + 10 * MINUTE_MS

    def test_for_the_success_of_a_job(self) -> None:
        world = World()
        awaited = Condition(ConditionKind.JOB, "default/import", within_ms=HOUR_MS)
        key = world.run_now(world.create(expires_ms=10 * MINUTE_MS, conditions=(awaited,)))
        row = wake(world, key)
        assert_skipped(world, row, ": The job default/import has not succeeded within 1h.")
        assert world.count(Table.AWAITED) == 0

    def test_while_the_cluster_is_paused(self) -> None:
        world = World()
        key = world.run_now(world.create(expires_ms=10 * MINUTE_MS))
        world.ok(c.PauseCluster(True))
        assert_skipped(world, wake(world, key), ": the cluster was paused.")

    def test_a_run_with_parts(self) -> None:
        world = World()
        key = world.run_now(world.create(expires_ms=10 * MINUTE_MS, shards=2))
        world.forward(10 * MINUTE_MS)
        assert world.refused(c.Split(key)) == "stale"
        assert_skipped(world, wake(world, key), ".")


class TestTheMoment:
    def test_nothing_starts_from_then_on(self) -> None:
        world = World()
        session = world.session()
        key = world.run_now(world.create(expires_ms=10 * MINUTE_MS))
        world.forward(10 * MINUTE_MS)
        assert world.refused(c.Assign(key, session)) == "stale"

    def test_until_then_it_starts_and_expires_no_more(self) -> None:
        world = World()
        session = world.session()
        key = world.run_now(world.create(expires_ms=10 * MINUTE_MS))
        world.forward(10 * MINUTE_MS - 1)
        world.assign(key, session)
        world.forward(HOUR_MS)
        assert world.refused(c.Wake(key, T0 + 10 * MINUTE_MS)) == "stale"
        assert world.end(key).state is I.SUCCEEDED

    @pytest.mark.parametrize("how", ["retry", "lost"])
    def test_what_began_once_expires_no_more(self, how: str) -> None:
        world = World()
        session = world.session()
        key = world.run_now(world.create(expires_ms=10 * MINUTE_MS, retry=Retry((HOUR_MS,))))
        token = world.assign(key, session)
        if how == "retry":
            world.end(key, Outcome.FAILED)
            wake(world, key)
        else:
            world.ok(c.LoseAttempt(session, token, world.now))
        world.forward(HOUR_MS)
        assert world.instance(key).wake_at_ms is None
        world.assign(key, session)

    def test_what_its_node_could_not_start_has_not_begun(self) -> None:
        world = World()
        session = world.session()
        key = world.run_now(world.create(expires_ms=10 * MINUTE_MS))
        token = world.assign(key, session)
        world.ok(c.Ended(session, token, Outcome.KILLED, None, world.now, begun=False))
        row = wake(world, key)
        assert (world.now, row.state, row.reason) == (T0 + 10 * MINUTE_MS, I.SKIPPED, REASON)

    def test_jitter_puts_it_off(self) -> None:
        world = World()
        job = world.create(at(T0 + SECOND, jitter_ms=HOUR_MS), expires_ms=10 * MINUTE_MS)
        world.fire(job)
        (row,) = world.instances(job.id)
        assert row.jitter_ms > 0
        assert row.expires_at_ms == T0 + SECOND + row.jitter_ms + 10 * MINUTE_MS

    def test_what_is_asked_for_counts_from_then(self) -> None:
        world = World()
        session = world.session()
        job = world.create(at(T0 + SECOND), expires_ms=10 * MINUTE_MS)
        world.fire(job)
        (row,) = world.instances(job.id)
        wake(world, row.key)
        world.forward(HOUR_MS)
        world.ok(c.Rerun(row.key))
        assert world.instance(row.key).expires_at_ms == world.now + 10 * MINUTE_MS
        world.assign(row.key, session)
        assert world.end(row.key).state is I.SUCCEEDED


class TestTooLateToFire:
    def test_a_one_shot_whose_time_is_long_past_is_skipped_at_once(self) -> None:
        world = World()
        job = world.create(at(T0 - HOUR_MS), expires_ms=10 * MINUTE_MS)
        after = world.fire(job)
        (row,) = world.instances(job.id)
        assert (row.state, row.reason, row.gap_count) == (I.SKIPPED, REASON, 1)
        assert (after.state, after.runs, after.last_instance) == (JobState.EXPIRED, 1, row.key)

    def test_it_can_be_run_all_the_same(self) -> None:
        world = World()
        session = world.session()
        job = world.create(at(T0 - HOUR_MS), expires_ms=10 * MINUTE_MS)
        world.fire(job)
        (row,) = world.instances(job.id)
        world.ok(c.Rerun(row.key))
        world.assign(row.key, session)
        assert world.end(row.key).state is I.SUCCEEDED

    @pytest.mark.parametrize("misfire", list(MisfirePolicy))
    def test_due_times_that_expired_are_left_out(self, misfire: MisfirePolicy) -> None:
        world = World()
        job = world.create(
            every(MINUTE_MS), expires_ms=2 * MINUTE_MS, misfire=Misfire(misfire, HOUR_MS), overlap=Overlap.ALLOW
        )
        world.forward(5 * MINUTE_MS)  # 1 to 5 are due; 1 to 3 have expired
        world.fire(job)
        rows = [(r.state, r.reason, (r.nominal_at_ms - T0) // MINUTE_MS, r.gap_count) for r in world.instances(job.id)]
        assert rows == [(I.SKIPPED, REASON, 1, 3), (I.WAITING, None, 4, 0), (I.WAITING, None, 5, 0)]


def test_bounds() -> None:
    assert policy_error(policy(expires_ms=1)) is None
    assert "expires" in str(policy_error(policy(expires_ms=-1)))
    assert "expires" in str(policy_error(policy(expires_ms=2**60)))
