"""Pausing until a time: the job is resumed by itself, from that time on, unless something replaced the pause."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.actions import JobPaused
from raftsched.core.model import EveryMode, Job, JobState, Misfire, MisfirePolicy, Overlap, Trigger
from raftsched.core.rules.filters import JobFilter
from raftsched.core.subjects.operations import BulkAction, StartOperation, StepOperation
from raftsched.core.tables import Table
from tests.support.memory_view import T0, World, at, cron, every
from tests.support.scheduler import go_on, schedule, several

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
UNTIL = T0 + HOUR


def paused(world: World, job: Job, until_ms: int | None = UNTIL) -> Job:
    world.ok(c.SetJobState(job.id, JobState.SUSPENDED, resume_at_ms=until_ms))
    return world.job(job.id)


def test_the_leader_is_told_and_the_row_says_so() -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE)))
    assert (job.state, job.resume_at_ms) == (JobState.SUSPENDED, UNTIL)
    assert world.actions == [JobPaused(job.id, UNTIL)]
    assert world.count(Table.RESUMES) == 1


@pytest.mark.parametrize("trigger", [every(MINUTE), cron("* * * * *"), every(MINUTE, mode=EveryMode.FIXED_DELAY)])
def test_it_counts_from_that_time_and_not_from_when_it_is_noticed(trigger: Trigger) -> None:
    world = World()
    job = paused(world, world.create(trigger, overlap=Overlap.ALLOW, misfire=Misfire(MisfirePolicy.ALL, 0)))
    world.now = UNTIL + 90 * SECOND
    world.ok(c.ResumeJob(job.id, UNTIL))
    schedule(world)
    first = world.job(job.id).nominal_at_ms
    assert first == (UNTIL - 1 + MINUTE if trigger.mode is EveryMode.FIXED_DELAY else UNTIL)


def test_an_edit_between_that_time_and_when_it_is_noticed_changes_nothing_of_what_is_owed() -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE), overlap=Overlap.ALLOW, misfire=Misfire(MisfirePolicy.ALL, 0)))
    world.now = UNTIL + 90 * SECOND
    world.edit(world.job(job.id), priority=9)
    world.ok(c.ResumeJob(job.id, UNTIL))
    schedule(world)
    assert world.job(job.id).nominal_at_ms == UNTIL


def test_a_clock_that_is_behind_does_not_fire_ahead_of_time() -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE)))
    world.now = UNTIL - 10 * MINUTE
    world.ok(c.ResumeJob(job.id, UNTIL))
    assert world.job(job.id).nominal_at_ms == UNTIL - 9 * MINUTE


@pytest.mark.parametrize("trigger", [every(MINUTE), cron("* * * * *")])
def test_an_end_that_is_past_when_the_pause_begins_owes_nothing_again(trigger: Trigger) -> None:
    """An entry may come long after it was proposed."""
    world = World()
    job = world.create(trigger, overlap=Overlap.ALLOW, misfire=Misfire(MisfirePolicy.ALL, HOUR))
    go_on(world, T0 + 10 * MINUTE)
    ran = [row.nominal_at_ms for row in world.instances(job.id)]
    assert len(ran) == 10
    paused(world, job, T0 + 5 * MINUTE)
    go_on(world, T0 + 11 * MINUTE)
    assert [row.nominal_at_ms for row in world.instances(job.id)] == [*ran, ran[-1] + MINUTE]


def test_what_came_due_meanwhile_is_not_caught_up() -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE), misfire=Misfire(MisfirePolicy.ALL, 0), overlap=Overlap.ALLOW))
    go_on(world, UNTIL + MINUTE)
    assert [row.nominal_at_ms for row in world.instances(job.id)] == [UNTIL, UNTIL + MINUTE]


def test_a_one_shot_runs_then_however_late() -> None:
    world = World()
    job = paused(world, world.create(at(T0 + SECOND)))
    go_on(world, UNTIL)
    assert [row.nominal_at_ms for row in world.instances(job.id)] == [T0 + SECOND]


def test_a_job_that_is_new_is_scheduled_then() -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE), suspended=True))
    assert job.state is JobState.NEW
    go_on(world, UNTIL)
    assert world.job(job.id).state is JobState.SCHEDULED


@pytest.mark.parametrize("how", ["pause", "later", "resume", "expire", "delete"])
def test_what_replaces_it(how: str) -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE)))
    if how == "delete":
        world.ok(c.DeleteJob(job.id))
    else:
        state = {"resume": JobState.SCHEDULED, "expire": JobState.EXPIRED}.get(how, JobState.SUSPENDED)
        world.ok(c.SetJobState(job.id, state, resume_at_ms=UNTIL + 1 if how == "later" else None))
    world.now = UNTIL
    assert world.refused(c.ResumeJob(job.id, UNTIL)) == "stale"
    assert world.count(Table.RESUMES) == (1 if how == "later" else 0)


def test_an_edit_leaves_it_as_it_is() -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE)))
    world.edit(job, trigger=every(2 * MINUTE))
    assert world.job(job.id).resume_at_ms == UNTIL
    go_on(world, UNTIL + MINUTE)
    assert [row.nominal_at_ms for row in world.instances(job.id)] == [UNTIL]


def test_of_several_triggers() -> None:
    world = World()
    fields = several(every(HOUR, id="a"), cron("0 * * * *", id="b"), at(T0 + MINUTE, id="c"))
    job = paused(world, world.create(**fields, overlap=Overlap.ALLOW))  # type: ignore[arg-type]
    go_on(world, UNTIL)
    assert [(row.trigger, row.nominal_at_ms) for row in world.instances(job.id)] == [("c", T0 + MINUTE), ("a", UNTIL)]


def test_resuming_is_done_once() -> None:
    world = World()
    job = paused(world, world.create(every(MINUTE)))
    world.now = UNTIL
    world.ok(c.ResumeJob(job.id, UNTIL))
    assert world.refused(c.ResumeJob(job.id, UNTIL)) == "stale"
    assert world.refused(c.ResumeJob(7, UNTIL)) == "stale"


def test_a_time_that_cannot_be_written_is_refused() -> None:
    world = World()
    job = world.create(every(MINUTE))
    for wrong in (-1, 2**60):
        assert world.refused(c.SetJobState(job.id, JobState.SUSPENDED, resume_at_ms=wrong)) == "invalid-parameter"
        start = StartOperation(BulkAction.PAUSE, JobFilter(), resume_at_ms=wrong)
        assert world.refused(start) == "invalid-parameter"
    start = StartOperation(BulkAction.RESUME, JobFilter(), resume_at_ms=UNTIL)
    assert world.refused(start) == "invalid-parameter"


def test_many_at_a_time() -> None:
    world = World()
    jobs = [world.create(every(MINUTE)) for _ in range(3)]
    paused(world, jobs[0])
    operation = world.ok(StartOperation(BulkAction.PAUSE, JobFilter(), resume_at_ms=UNTIL)).operation
    assert operation is not None
    done = world.ok(StepOperation(operation.id, 0, 100, 100)).operation
    assert done is not None
    assert (done.matched, done.changed) == (3, 2)
    assert {world.job(job.id).resume_at_ms for job in jobs} == {UNTIL}
