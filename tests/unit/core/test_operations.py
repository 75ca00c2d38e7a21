"""Operations on many jobs: what matches is acted on once, in bounded steps, whoever goes on with them."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.core import commands as c
from raftsched.core.actions import OperationStarted
from raftsched.core.apply.jobs import bulk
from raftsched.core.ids import BACKFILL
from raftsched.core.model import InstanceState, Job, JobState, Overlap
from raftsched.core.rows import decode_operation
from raftsched.core.rules.filters import JobFilter
from raftsched.core.subjects.operations import BulkAction, Operation, OperationState
from raftsched.core.tables import Table, u64
from tests.support.memory_view import World, every, policy

ALL = JobFilter()
D = b"d" * 32


def make(
    world: World, name: str | None = None, *, namespace: str = "default", body: bytes = b"{}", **fields: Any
) -> Job:
    job = world.ok(c.CreateJob(namespace, name, policy(every(60_000), **fields), body)).job
    assert job is not None
    return job


def start(world: World, action: BulkAction, wanted: JobFilter | None = ALL, **fields: Any) -> Operation:
    operation = world.ok(c.StartOperation(action, wanted, **fields)).operation
    assert operation is not None
    return operation


def row(world: World, operation: Operation) -> Operation:
    raw = world.view.get(Table.OPERATIONS, u64(operation.id))
    assert raw is not None
    return decode_operation(raw)


def step(world: World, operation: Operation, rows: int = 100, jobs: int = 100) -> Operation:
    world.ok(c.StepOperation(operation.id, row(world, operation).steps, rows, jobs))
    return row(world, operation)


def finish(world: World, operation: Operation, rows: int = 100, jobs: int = 100) -> Operation:
    for _ in range(1_000):
        now = step(world, operation, rows, jobs)
        if now.state is not OperationState.RUNNING:
            return now
    raise AssertionError("it goes on for ever")


def counts(operation: Operation) -> tuple[int, int, int]:
    return operation.matched, operation.changed, operation.refused


def test_all_are_paused_a_few_at_a_time() -> None:
    world = World()
    jobs = [make(world) for _ in range(7)]
    world.ok(c.SetJobState(jobs[0].id, JobState.SUSPENDED))
    world.ok(c.SetJobState(jobs[1].id, JobState.EXPIRED))
    operation = start(world, BulkAction.PAUSE)
    assert [a for a in world.actions if isinstance(a, OperationStarted)] == [OperationStarted(operation.id)]
    assert operation.total == 7
    first = step(world, operation, jobs=3)
    assert (first.state, first.steps, first.matched) == (OperationState.RUNNING, 1, 3)
    assert [world.job(j.id).state for j in jobs[2:4]] == [JobState.SUSPENDED, JobState.SCHEDULED]
    done = finish(world, operation, jobs=3)
    assert done.state is OperationState.DONE
    assert (counts(done), done.examined, done.ended_at_ms) == ((7, 5, 1), 7, world.now)
    assert [(r.job_id, r.code) for r in done.refusals] == [(jobs[1].id, "illegal-transition")]
    assert world.count(Table.DUE) == 0


def test_rows_that_do_not_match_count_for_the_bound_too() -> None:
    world = World()
    for i in range(6):
        make(world, queue="q" if i == 5 else "default")
    operation = start(world, BulkAction.PAUSE, JobFilter(queue="q"))
    assert operation.total == 6
    assert start(world, BulkAction.PAUSE, JobFilter(owner="ana")).total is None
    assert step(world, operation, rows=4).examined == 4
    assert counts(finish(world, operation, rows=4)) == (1, 1, 0)


def test_what_is_made_later_is_not_meant() -> None:
    world = World()
    old = make(world)
    operation = start(world, BulkAction.DELETE)
    new = make(world)
    done = finish(world, operation)
    assert (counts(done), done.examined) == ((1, 1, 0), 1)
    assert world.job(old.id).state is JobState.DELETED
    assert world.job(new.id).state is JobState.SCHEDULED


@pytest.mark.parametrize("wanted", [JobFilter(owner="ana"), JobFilter(labels=(("a", "1"),)), JobFilter(namespace="n")])
def test_deleting_takes_away_the_rows_that_are_walked(wanted: JobFilter) -> None:
    world = World()
    mine = [make(world, namespace="n", body=b'{"owner":"ana","labels":{"a":"1"}}') for _ in range(5)]
    others = [make(world, body=b'{"owner":"bo"}') for _ in range(5)]
    done = finish(world, start(world, BulkAction.DELETE, wanted), jobs=2)
    assert (counts(done), done.examined) == ((5, 5, 0), 5)
    assert {world.job(j.id).state for j in mine} == {JobState.DELETED}
    assert {world.job(j.id).state for j in others} == {JobState.SCHEDULED}


def test_resuming_what_is_suspended_walks_rows_that_vanish() -> None:
    world = World()
    jobs = [make(world) for _ in range(5)]
    finish(world, start(world, BulkAction.PAUSE))
    done = finish(world, start(world, BulkAction.RESUME, JobFilter(states=(JobState.SUSPENDED,))), jobs=2)
    assert counts(done) == (5, 5, 0)
    assert {world.job(j.id).state for j in jobs} == {JobState.SCHEDULED}
    assert world.count(Table.TAGS) == 0


def test_each_runs_once_however_often_a_step_is_proposed() -> None:
    world = World()
    jobs = [make(world, overlap=Overlap.ALLOW) for _ in range(3)]
    operation = start(world, BulkAction.RUN)
    first = c.StepOperation(operation.id, 0, 100, 2)
    world.ok(first)
    world.forward(5)
    assert world.refused(first) == "stale"
    assert counts(finish(world, operation)) == (3, 3, 0)
    assert sorted(i.job_id for i in world.instances()) == sorted(j.id for j in jobs)
    assert {i.state for i in world.instances()} == {InstanceState.WAITING}
    assert all(i.request not in (0, BACKFILL) for i in world.instances())


def test_by_ids_each_once_and_what_is_not_there_is_told() -> None:
    world = World()
    jobs = [make(world) for _ in range(3)]
    ids = (jobs[0].id, 5, jobs[0].id, jobs[2].id)
    operation = start(world, BulkAction.PAUSE, None, ids=ids)
    assert operation.total == 3
    step(world, operation, jobs=1)
    done = finish(world, operation, jobs=1)
    assert (counts(done), done.examined, done.ids) == ((3, 2, 1), 3, ())
    assert [(r.job_id, r.code) for r in done.refusals] == [(5, "not-found")]
    assert [world.job(j.id).state.name for j in jobs] == ["SUSPENDED", "SCHEDULED", "SUSPENDED"]


def test_what_ends_with_a_job_counts_for_the_bound() -> None:
    world = World()
    for _ in range(3):
        job = make(world, overlap=Overlap.ALLOW)
        for request in range(1, 5):
            world.run_now(job, request)
    operation = start(world, BulkAction.EXPIRE, kill=True)
    assert step(world, operation, jobs=5).matched == 1
    assert counts(finish(world, operation, jobs=5)) == (3, 3, 0)
    assert {i.state for i in world.instances()} == {InstanceState.KILLED}


def test_cancelled_it_makes_no_more_steps() -> None:
    world = World()
    for _ in range(3):
        make(world)
    operation = start(world, BulkAction.PAUSE)
    step(world, operation, jobs=1)
    world.ok(c.CancelOperation(operation.id))
    world.ok(c.CancelOperation(operation.id))
    now = row(world, operation)
    assert (now.state, now.changed, now.ended_at_ms) == (OperationState.CANCELLED, 1, world.now)
    assert world.refused(c.StepOperation(operation.id, 1, 100, 100)) == "stale"
    assert world.refused(c.CancelOperation(7)) == "not-found"
    done = finish(world, start(world, BulkAction.PAUSE))
    assert world.refused(c.CancelOperation(done.id)) == "illegal-transition"


def test_one_operation_however_often_it_is_sent() -> None:
    world = World()
    make(world)
    command = c.StartOperation(BulkAction.RUN, ALL, key=b"k" * 32, digest=D)
    first = world.ok(command).operation
    assert first is not None
    finish(world, first)
    again = world.ok(command)
    assert again.operation is not None
    assert (again.operation.id, again.operation.state, again.created) == (first.id, OperationState.DONE, True)
    other = c.StartOperation(BulkAction.RUN, ALL, key=b"k" * 32, digest=b"e" * 32)
    assert world.refused(other) == "idempotency-mismatch"


def test_so_many_run_and_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "RUNNING_MAX", 2)
    monkeypatch.setattr(bulk, "KEPT_MAX", 3)
    world = World()
    first, second = start(world, BulkAction.PAUSE), start(world, BulkAction.PAUSE)
    assert world.refused(c.StartOperation(BulkAction.PAUSE, ALL)) == "too-many"
    finish(world, second)
    third = finish(world, start(world, BulkAction.PAUSE))
    fourth = start(world, BulkAction.PAUSE)
    kept = [int.from_bytes(key, "big") for key, _ in world.view.scan(Table.OPERATIONS)]
    assert kept == [first.id, third.id, fourth.id]


def test_nonsense_is_refused() -> None:
    world = World()
    for bad in (
        c.StartOperation(BulkAction.PAUSE),
        c.StartOperation(BulkAction.PAUSE, ALL, (1,)),
        c.StartOperation(BulkAction.PAUSE, ALL, (), True),
        c.StartOperation(BulkAction.PAUSE, None, (-1,)),
        c.StartOperation(BulkAction.PAUSE, JobFilter(owner="x" * 5_000)),
        c.StartOperation(BulkAction.PAUSE, JobFilter(created_from_ms=-1)),
    ):
        assert world.refused(bad) == "invalid-parameter"
