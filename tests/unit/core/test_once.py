"""One-shots: at, in."""

from __future__ import annotations

import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core import commands as c
from raftsched.core.model import InstanceState as I
from raftsched.core.model import JobState, Outcome, Overlap
from raftsched.core.tables import Table
from tests.support.memory_view import T0, World, after, at, every


def test_in_counts_from_acceptance() -> None:
    world = World()
    job = world.create(after(30_000))
    assert job.nominal_at_ms == job.fire_at_ms == T0 + 30_000
    world.fire(job)
    assert [r.nominal_at_ms for r in world.waiting(job.id)] == [T0 + 30_000]


def test_a_time_already_past_runs_now() -> None:
    world = World()
    job = world.create(at(T0 - 365 * 24 * HOUR_MS))
    assert job.fire_at_ms is not None
    assert job.fire_at_ms <= world.now
    world.fire(job)
    assert len(world.waiting(job.id)) == 1  # however late: a one-shot always runs


@pytest.mark.parametrize(("outcome", "keep_ms"), [(Outcome.SUCCEEDED, HOUR_MS), (Outcome.FAILED, 14 * 24 * HOUR_MS)])
def test_expired_after_its_run_and_gone_later(outcome: Outcome, keep_ms: int) -> None:
    world = World()
    session = world.session()
    job = world.create(at(T0 + 5), name="once")
    assert world.fire(job).state is JobState.SCHEDULED
    world.run_once(world.waiting(job.id)[0].key, session, outcome)
    done = world.job(job.id)
    assert done.state is JobState.EXPIRED
    assert done.purge_at_ms == world.now + keep_ms
    world.forward(keep_ms - 1)
    world.ok(c.Prune(world.now, 100))
    assert world.find(job.id) is not None
    world.forward(1)
    assert world.ok(c.Prune(world.now, 100)).number == 1
    assert world.find(job.id) is None
    assert world.instances(job.id) == []
    for table in (Table.NAMES, Table.PURGE, Table.BY_JOB):
        assert world.count(table) == 0


def test_suspended_and_resumed_it_keeps_its_time() -> None:
    world = World()
    job = world.create(at(T0 + 1000), suspended=True)
    assert job.state is JobState.NEW
    assert (job.nominal_at_ms, job.fire_at_ms) == (T0 + 1000, None)
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    assert world.job(job.id).fire_at_ms == T0 + 1000
    world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
    assert world.job(job.id).fire_at_ms is None
    world.forward(HOUR_MS)
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    world.fire(job)
    assert len(world.waiting(job.id)) == 1


def test_resumed_after_its_run_it_is_done() -> None:
    world = World()
    session = world.session()
    job = world.create(at(T0))
    world.fire(job)
    world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
    world.run_once(world.waiting(job.id)[0].key, session)
    assert world.job(job.id).state is JobState.SUSPENDED
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    assert world.job(job.id).state is JobState.EXPIRED
    assert world.job(job.id).purge_at_ms is not None


@pytest.mark.parametrize("overlap", list(Overlap))
def test_it_runs_even_when_a_manual_run_is_active(overlap: Overlap) -> None:
    world = World()
    session = world.session()
    job = world.create(at(T0 + 1000), overlap=overlap)
    manual = world.run_now(job)
    world.assign(manual, session)
    world.fire(job)
    own = next(r for r in world.instances(job.id) if not r.request)
    assert own.state is I.WAITING
    assert own.held is (overlap is not Overlap.ALLOW)
    world.end(manual)
    world.run_once(own.key, session)
    assert world.instance(own.key).state is I.SUCCEEDED
    assert world.job(job.id).state is JobState.EXPIRED


def test_suspend_after_means_nothing_to_it() -> None:
    world = World()
    session = world.session()
    job = world.create(at(T0), suspend_after=1)
    world.fire(job)
    world.run_once(world.waiting(job.id)[0].key, session, Outcome.FAILED)
    assert world.job(job.id).state is JobState.EXPIRED


def test_expired_before_its_time() -> None:
    world = World()
    job = world.create(at(T0 + 1000))
    world.ok(c.SetJobState(job.id, JobState.EXPIRED))
    world.forward(HOUR_MS)
    world.ok(c.Prune(world.now, 10))
    assert world.find(job.id) is None


def test_it_has_no_start_deadline() -> None:
    world = World()
    job = world.create(at(T0))
    world.fire(job)
    assert world.waiting(job.id)[0].wake_at_ms is None


class TestGivenAnotherTrigger:
    def test_another_time_then_the_first_again(self) -> None:
        """The first run's instance has the key that the third would get."""
        world = World()
        session = world.session()
        job = world.create(at(T0))
        for trigger in (at(T0), at(T0 + 1), at(T0)):
            if trigger != world.job(job.id).policy.trigger:
                world.edit(job, trigger=trigger)
            world.fire(job)
            world.run_once(world.waiting(job.id)[0].key, session)
            assert world.job(job.id).state is JobState.EXPIRED
        rows = world.instances(job.id)
        assert [r.state for r in rows] == [I.SUCCEEDED] * 3
        assert sorted(r.nominal_at_ms for r in rows) == [T0, T0, T0 + 1]
        world.forward(HOUR_MS)
        while world.ok(c.Prune(world.now, 100)).number:
            pass
        assert world.find(job.id) is None
        assert world.instances() == []

    def test_while_its_first_run_goes_on(self) -> None:
        world = World()
        session = world.session()
        job = world.create(at(T0))
        world.fire(job)
        first = world.waiting(job.id)[0].key
        world.assign(first, session)
        world.edit(job, trigger=at(T0 + 1))
        world.edit(job, trigger=at(T0))
        world.fire(job)
        assert world.job(job.id).active == 2
        assert world.instance(first).live is not None
        world.end(first)
        world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).state is JobState.EXPIRED

    def test_once_to_recurring_and_back(self) -> None:
        world = World()
        session = world.session()
        job = world.create(at(T0))
        world.fire(job)
        first = world.waiting(job.id)[0].key
        world.assign(first, session)
        world.edit(job, trigger=every(1000))
        world.end(first)
        world.fire(job)
        second = world.waiting(job.id)[0].key
        world.assign(second, session)
        world.edit(job, trigger=after(10))
        world.end(second)
        world.fire(job)
        world.run_once(world.waiting(job.id)[0].key, session)
        assert world.job(job.id).state is JobState.EXPIRED
        world.forward(8 * 24 * HOUR_MS)
        while world.ok(c.Prune(world.now, 100)).number:
            pass
        assert world.instances() == []

    def test_delete_finds_what_an_earlier_trigger_made(self) -> None:
        world = World()
        job = world.create(at(T0))
        world.fire(job)
        world.edit(job, trigger=at(T0 + 1000))
        world.ok(c.DeleteJob(job.id))
        world.ok(c.Prune(world.now, 100))
        assert world.find(job.id) is None
        assert world.instances() == []


def test_rerun_of_a_done_one_shot() -> None:
    world = World()
    session = world.session()
    job = world.create(at(T0))
    world.fire(job)
    key = world.waiting(job.id)[0].key
    world.run_once(key, session, Outcome.FAILED)
    world.ok(c.Rerun(key))
    assert world.job(job.id).purge_at_ms is None
    world.forward(8 * 24 * HOUR_MS)
    world.ok(c.Prune(world.now, 100))
    world.run_once(key, world.session(), Outcome.SUCCEEDED)
    assert world.instance(key).state is I.SUCCEEDED
    assert world.instance(key).dead_letter is False
    assert world.job(job.id).purge_at_ms == world.now + HOUR_MS
