"""Operations on many jobs are gone on with by whoever leads, a step at a time, each in turn."""

from __future__ import annotations

import asyncio

import pytest

from raftsched.core import commands as c
from raftsched.core.commands import StartOperation, StepOperation
from raftsched.core.model import JobState
from raftsched.core.rows import decode_operation
from raftsched.core.rules.filters import JobFilter
from raftsched.core.subjects.operations import BulkAction, Operation, OperationState
from raftsched.core.tables import Table, u64
from raftsched.errors import NoLeader, UnknownOutcome
from raftsched.leader import bulk_steps as module
from tests.support.memory_view import cron, every, policy
from tests.unit.leader.house import House, play

ALL = JobFilter()
BY_DUE_TIME = JobFilter(next_from_ms=0)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOBS", 2)


def start(house: House, action: BulkAction = BulkAction.PAUSE, wanted: JobFilter = ALL) -> Operation:
    operation = house.do(StartOperation(action, wanted)).operation
    assert operation is not None
    return operation


def row(house: House, operation: Operation) -> Operation:
    raw = house.world.view.get(Table.OPERATIONS, u64(operation.id))
    assert raw is not None
    return decode_operation(raw)


def states(house: House, jobs: list[int]) -> set[JobState]:
    return {house.world.job(job).state for job in jobs}


def test_it_is_carried_out_in_steps() -> None:
    async def scene(house: House) -> None:
        house.lead()
        jobs = [house.create(every(60_000)) for _ in range(5)]
        operation = start(house)
        await house.tick()
        assert states(house, jobs) == {JobState.SUSPENDED}
        now = row(house, operation)
        assert (now.state, now.changed, now.steps) == (OperationState.DONE, 5, 3)
        house.proposed.clear()
        await house.tick()
        assert house.proposed == []

    play(scene)


def test_the_loop_wakes_for_one_that_was_begun() -> None:
    async def scene(house: House) -> None:
        house.leader.start()
        house.lead()
        house.create(every(60_000))
        operation = start(house)
        await house.until(lambda: row(house, operation).state is OperationState.DONE)

    play(scene)


def test_the_next_leader_goes_on_where_the_last_step_ended() -> None:
    async def scene(house: House) -> None:
        jobs = [house.create(every(60_000)) for _ in range(5)]
        operation = start(house, BulkAction.RUN)
        house.do(StepOperation(operation.id, 0, 100, 2))
        house.lead()
        await house.tick()
        now = row(house, operation)
        assert (now.state, now.changed, now.examined) == (OperationState.DONE, 5, 5)
        assert sorted(i.job_id for i in house.world.instances()) == sorted(jobs)

    play(scene)


def test_two_take_turns() -> None:
    async def scene(house: House) -> None:
        for _ in range(4):
            house.create(every(60_000))
        first, second = start(house, BulkAction.PAUSE), start(house, BulkAction.RUN)
        house.lead()
        await house.tick()
        steps = [step.operation for step in house.commands(StepOperation)]
        assert steps == [first.id, second.id] * 2

    play(scene)


@pytest.mark.parametrize("applied", [False, True])
def test_what_was_not_confirmed_is_tried_again_after_a_while_and_done_once(applied: bool) -> None:
    async def scene(house: House) -> None:
        jobs = [house.create(every(60_000)) for _ in range(5)]
        operation = start(house, BulkAction.RUN)
        house.lead()
        house.fail = UnknownOutcome() if applied else NoLeader()
        house.apply_though_failing = applied
        await house.tick()
        assert len(house.commands(StepOperation)) == 1
        house.fail = None
        await house.tick()
        await house.tick()
        assert len(house.commands(StepOperation)) == 1
        house.clock.forward(module.AGAIN_AFTER_MS)
        await house.tick()
        assert row(house, operation).changed == 5
        assert sorted(i.job_id for i in house.world.instances()) == sorted(jobs)

    play(scene)


def test_cancelled_while_a_step_is_on_its_way() -> None:
    async def scene(house: House) -> None:
        for _ in range(5):
            house.create(every(60_000))
        operation = start(house)
        house.lead()
        house.stuck = asyncio.Event()
        await house.tick()
        house.do(c.CancelOperation(operation.id))
        house.stuck.set()
        await house.quiet()
        house.clock.forward(module.AGAIN_AFTER_MS + 1)
        await house.tick()
        await house.tick()
        now = row(house, operation)
        assert (now.state, now.changed) == (OperationState.CANCELLED, 0)
        assert len(house.commands(StepOperation)) == 1

    play(scene)


def test_nothing_is_proposed_after_leadership() -> None:
    async def scene(house: House) -> None:
        for _ in range(5):
            house.create(every(60_000))
        operation = start(house)
        house.lead()
        house.stuck = asyncio.Event()
        await house.tick()
        house.leading = False
        house.stuck.set()
        await house.quiet()
        assert len(house.commands(StepOperation)) == 1
        assert row(house, operation).state is OperationState.RUNNING

    play(scene)


# ---------------------------------------------------------------- by next fire times


async def pump(house: House) -> None:
    """Goes on with operations alone, as if the leader came to the times that it owes later."""
    assert house.leader.current is not None
    house.leader.current.operations.pump(house.clock.boot)
    await house.quiet()


def test_one_that_goes_by_due_times_waits_for_those_that_the_leader_owes_and_others_go_on() -> None:
    async def scene(house: House) -> None:
        job = house.create(cron("0 0 1 1 *"))
        operation, other = start(house, wanted=BY_DUE_TIME), start(house, BulkAction.RUN)
        house.lead()
        await pump(house)
        assert row(house, operation).steps == 0
        assert row(house, other).state is OperationState.DONE
        await house.tick()
        await house.tick()
        now = row(house, operation)
        assert (now.state, now.changed, states(house, [job])) == (OperationState.DONE, 1, {JobState.SUSPENDED})

    play(scene)


@pytest.mark.parametrize("edited", [False, True])
def test_what_is_owed_since_it_began_holds_nothing_up(edited: bool) -> None:
    async def scene(house: House) -> None:
        job = house.create(every(60_000))
        operation = start(house, wanted=BY_DUE_TIME)
        house.clock.forward(1)
        if edited:
            house.do(c.EditJob(job, policy(cron("0 0 1 1 *")), b"{}"))
        else:
            house.create(cron("0 0 1 1 *"))
        house.lead()
        await pump(house)
        assert row(house, operation).state is OperationState.DONE
        assert house.world.count(Table.UNSCHEDULED) == 1

    play(scene)
