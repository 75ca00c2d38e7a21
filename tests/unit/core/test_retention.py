"""What is kept, by count and by age; pruning in bounded steps; deleting while something runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.apply import apply_entry
from raftsched.core.entry import encode_entry
from raftsched.core.model import InstanceState as I
from raftsched.core.model import JobState, Outcome, Overlap, Retention
from raftsched.core.tables import Table
from tests.support.memory_view import T0, World, every


def ran(world: World, job_id: int, session: int, *outcomes: Outcome) -> list[bytes]:
    keys = []
    for outcome in outcomes:
        world.fire(job_id)
        keys.append(next(r.key for r in world.waiting(job_id)))
        world.run_once(keys[-1], session, outcome)
    return keys


S, F = Outcome.SUCCEEDED, Outcome.FAILED


def test_by_count_each_outcome_for_itself() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000), retention=Retention(2, 1))
    keys = ran(world, job.id, session, S, F, S, S, F, S)
    left = [r.key for r in world.instances(job.id)]
    assert left == [keys[3], keys[4], keys[5]]
    assert (world.job(job.id).succeeded, world.job(job.id).failed) == (2, 1)


def test_lowered_by_an_edit_it_catches_up() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000))
    ran(world, job.id, session, *[S] * 12)
    world.edit(job, retention=Retention(3, 3))
    ran(world, job.id, session, S, S, S)
    assert world.job(job.id).succeeded == 3


def test_keep_none() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000), retention=Retention(0, 0))
    ran(world, job.id, session, S, F, S)
    world.ok(c.Prune(world.now, 100))
    assert world.instances(job.id) == []


def test_the_newest_end_may_be_of_the_oldest_instance() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000), retention=Retention(2, 2))
    keys = ran(world, job.id, session, F, S, S)
    world.ok(c.Rerun(keys[0]))
    world.run_once(keys[0], session, S)
    world.ok(c.Prune(world.now, 100))
    assert world.job(job.id).succeeded == 2


@pytest.mark.parametrize("by", ["kill", "gap"])
def test_what_was_killed_or_skipped_is_bounded_too(by: str) -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000), retention=Retention(5, 3))
    good = ran(world, job.id, session, S)
    for _ in range(10):
        world.fire(job)
        key = world.waiting(job.id)[0].key
        if by == "kill":
            world.ok(c.Kill(key))
        else:
            world.fire(job)  # skipped: one record per gap
            world.run_once(key, session)
    world.ok(c.Prune(world.now, 1000))
    rows = world.instances(job.id)
    assert sum(r.state in (I.KILLED, I.SKIPPED) for r in rows) <= 3
    if by == "kill":
        assert good[0] in [r.key for r in rows]  # and they use up nobody else's place


def test_by_age() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000), retention=Retention(max_age_ms=DAY_MS))
    _, failed = ran(world, job.id, session, S, F)
    world.ok(c.Discard(failed))  # dead letters are kept for longer
    world.forward(DAY_MS - 1)
    assert world.ok(c.Prune(world.now, 100)).number == 1  # the first of the two ended a second earlier
    world.forward(1)
    world.ok(c.Prune(world.now, 100))
    assert world.instances(job.id) == []
    assert world.job(job.id).succeeded == world.job(job.id).failed == 0


def test_prune_looks_no_further_than_the_log_s_time() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000))
    ran(world, job.id, session, S)
    world.ok(c.Prune(2**62, 100))
    assert len(world.instances(job.id)) == 1
    world.ok(c.Prune(-5, 100))


def test_prune_is_bounded() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000))
    ran(world, job.id, session, *[S] * 10)
    world.forward(8 * DAY_MS)
    assert [world.ok(c.Prune(world.now, 4)).number for _ in range(4)] == [4, 4, 2, 0]
    assert world.ok(c.Prune(world.now, 0)).number == 0
    assert world.ok(c.Prune(world.now, -1)).number == 0


def test_a_deleted_job_with_much_history_goes_in_steps() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000), name="big")
    ran(world, job.id, session, *[S] * 10)
    world.ok(c.DeleteJob(job.id))
    assert world.count(Table.NAMES) == 0
    world.create(every(1000), name="big")
    steps = 0
    while world.find(job.id) is not None:
        done = world.ok(c.Prune(world.now, 4)).number
        assert done is not None
        assert 0 < done <= 4
        steps += 1
    assert steps == 3
    assert world.instances(job.id) == []


class TestDelete:
    def test_the_row_stays_until_the_attempt_ended(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000), name="x", overlap=Overlap.QUEUE_ALL)
        for _ in range(3):
            world.fire(job)
        key = next(r.key for r in world.waiting(job.id) if not r.held)
        world.assign(key, session)
        world.ok(c.DeleteJob(job.id))
        assert world.job(job.id).state is JobState.DELETED
        assert world.job(job.id).active == 1
        assert world.instance(key).kill_asked
        assert world.refused(c.DeleteJob(job.id)) == "not-found"
        world.ok(c.Prune(world.now, 100))
        assert world.find(job.id) is not None
        assert world.end(key, Outcome.KILLED).reason == "deleted"
        world.ok(c.Prune(world.now, 100))
        assert world.find(job.id) is None
        assert world.instances() == []

    def test_or_its_session(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(1000))
        world.fire(job)
        world.assign(world.waiting(job.id)[0].key, session)
        world.ok(c.DeleteJob(job.id))
        world.ok(c.EndSession(session, 1))
        world.ok(c.Prune(world.now, 100))
        assert world.find(job.id) is None

    def test_a_name_deleted_and_made_again_is_another_job(self) -> None:
        world = World()
        first = world.create(every(1000), name="x")
        world.ok(c.DeleteJob(first.id))
        second = world.create(every(1000), name="x")
        assert second.id != first.id
        assert world.refused(c.Fire(first.id, 1, T0 + 1000)) == "stale"


@pytest.mark.parametrize("way", ["replace", "delete"])
def test_ending_what_is_active_does_not_walk_the_whole_history(way: str) -> None:
    world = World()
    session = world.session()
    job = world.create(every(1000), overlap=Overlap.REPLACE)
    ran(world, job.id, session, *[S] * 50)
    world.fire(job)
    walked = 0
    scan = world.view.scan

    def counted(table: Table, *args: bytes, **kwargs: bool) -> Iterator[tuple[bytes, bytes]]:
        nonlocal walked
        for row in scan(table, *args, **kwargs):
            walked += table is Table.BY_JOB
            yield row

    row = world.job(job.id)
    world.forward(1000)
    command = c.DeleteJob(job.id) if way == "delete" else c.Fire(job.id, 1, row.nominal_at_ms or 0)
    world.view.scan = counted
    result = apply_entry(world.view, world.index + 1, 1, encode_entry(world.now, [(8, 1, [c.encode(command)])]))
    assert isinstance((result.batches[0].answers or [None])[0], c.Accepted)
    assert 0 < walked < 5
