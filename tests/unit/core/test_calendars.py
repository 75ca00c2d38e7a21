"""Calendars in apply: who may change them, and which jobs are owed their times anew by that."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.bounds import CALENDAR_MAX
from raftsched.core import commands as c
from raftsched.core.commands import Fire, ScheduleJob
from raftsched.core.model import EveryMode, Job, JobState, Trigger
from raftsched.core.rows import decode_calendar, decode_operation
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import match, walk
from raftsched.core.subjects.calendar import (
    AT_ONCE,
    CALENDARS_MAX,
    DeleteCalendar,
    PutCalendar,
    RescheduleJob,
)
from raftsched.core.subjects.operations import BulkAction, OperationState
from raftsched.core.tables import Table, u64
from tests.support.invariants import violations
from tests.support.memory_view import T0, World, at, cron, every, policy

MINUTE = 60_000


@pytest.fixture
def world() -> World:
    return World()


def put(world: World, content: bytes = b"{}", name: str = "holidays", **more: Any) -> int:
    world.ok(PutCalendar(name, content, **more))
    return revision(world, name)


def revision(world: World, name: str = "holidays") -> int:
    raw = world.view.get(Table.CALENDARS, name.encode())
    assert raw is not None
    return decode_calendar(raw).revision


def job_with(world: World, trigger: Trigger | None = None, **more: Any) -> Job:
    return world.create(trigger or cron("0 * * * *", calendar="holidays"), **more)


def owed(world: World) -> set[int]:
    return {int.from_bytes(key, "big") for key, _ in world.view.scan(Table.UNSCHEDULED)}


def sound(world: World) -> None:
    assert violations(world.view) == []


def test_made_changed_and_taken_away(world: World) -> None:
    assert world.ok(PutCalendar("holidays", b"{}")).created
    first = revision(world)
    assert not world.ok(PutCalendar("holidays", b"{}")).created  # nothing changed
    assert revision(world) == first
    assert world.refused(PutCalendar("holidays", b"[]", if_none=True)) == "exists"
    assert world.refused(PutCalendar("holidays", b"[]", if_revision=first + 1)) == "stale-revision"
    assert world.refused(PutCalendar("other", b"[]", if_revision=1)) == "stale-revision"
    world.ok(PutCalendar("holidays", b"[]", if_revision=first))
    assert revision(world) > first
    assert world.refused(DeleteCalendar("holidays", first)) == "stale-revision"
    world.ok(DeleteCalendar("holidays"))
    assert world.refused(DeleteCalendar("holidays")) == "not-found"
    put(world)
    assert revision(world) > first + 1  # one that is made again has revisions of its own
    sound(world)


def test_limits(world: World) -> None:
    assert world.refused(PutCalendar("", b"{}")) == "invalid-parameter"
    assert world.refused(PutCalendar("x" * 129, b"{}")) == "invalid-parameter"
    assert world.refused(PutCalendar("x", b"x" * (CALENDAR_MAX + 1))) == "invalid-parameter"
    assert world.refused(DeleteCalendar("x" * 600)) == "not-found"
    for i in range(CALENDARS_MAX):
        world.ok(PutCalendar(f"c{i}", b"{}"))
    assert world.refused(PutCalendar("more", b"{}")) == "not-possible"
    world.ok(PutCalendar("c7", b"[]"))


@pytest.mark.parametrize(
    "trigger", [at(T0, calendar="holidays"), every(MINUTE, mode=EveryMode.FIXED_DELAY, calendar="holidays")]
)
def test_a_trigger_without_times_of_its_own_has_none(world: World, trigger: Trigger) -> None:
    put(world)
    assert world.refused(c.CreateJob("d", None, policy(trigger), b"{}")) == "invalid-job"


def test_a_job_names_one_that_there_is(world: World) -> None:
    trigger = cron(calendar="holidays")
    assert world.refused(c.CreateJob("d", None, policy(trigger), b"{}")) == "invalid-trigger"
    job = world.create(cron())
    assert world.refused(c.EditJob(job.id, policy(trigger), b"{}")) == "invalid-trigger"
    put(world)
    world.edit(job, trigger=trigger)
    sound(world)


def test_one_in_use_stays(world: World) -> None:
    put(world)
    jobs = [job_with(world, name=f"job-{i}") for i in range(5)]
    answer = world.do(DeleteCalendar("holidays"))
    assert isinstance(answer, c.Rejected)
    assert answer.code == "in-use"
    assert answer.jobs == tuple(("default", f"job-{i}") for i in range(5))
    assert "job-0" not in answer.detail, "the answer says them to who may see them"
    for job in jobs[1:]:
        world.ok(c.DeleteJob(job.id))
    world.edit(jobs[0], trigger=cron())
    world.ok(DeleteCalendar("holidays"))
    sound(world)


def test_an_interval_with_a_calendar_is_the_leaders_to_compute(world: World) -> None:
    number = put(world)
    job = job_with(world, every(MINUTE, calendar="holidays"))
    assert job.nominal_at_ms is None
    assert owed(world) == {job.id}
    world.ok(ScheduleJob(job.id, 1, T0 + 2 * MINUTE, number))
    job = world.fire(job, next_nominal_at_ms=T0 + 5 * MINUTE, calendar=number)
    assert job.nominal_at_ms == T0 + 5 * MINUTE
    assert len(world.instances(job.id)) == 1
    world.now = T0 + 20 * MINUTE
    world.ok(c.SetJobState(job.id, JobState.SUSPENDED))  # of what it owed the first time is known
    gap = world.instances(job.id)[-1]
    assert (gap.gap_count, gap.nominal_at_ms) == (1, T0 + 5 * MINUTE)
    sound(world)


def test_times_of_an_older_calendar_are_refused(world: World) -> None:
    old = put(world)
    job = job_with(world)
    new = put(world, b"[]")
    assert world.refused(ScheduleJob(job.id, 1, T0 + MINUTE, old)) == "stale"
    world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, new))
    newest = put(world, b'{"dates":[]}')
    assert owed(world) == {job.id}  # what it was due at is none any more
    assert world.job(job.id).fire_at_ms is None
    world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, newest))
    world.now = T0 + MINUTE
    assert world.refused(Fire(job.id, 1, T0 + MINUTE, calendar=new)) == "stale"
    world.ok(Fire(job.id, 1, T0 + MINUTE, T0 + 2 * MINUTE, calendar=newest))
    sound(world)


def test_what_was_due_before_the_change_is_still_owed(world: World) -> None:
    """It was late already when the calendar was changed: if that lets it, it fires."""
    number = put(world)
    job = job_with(world)
    world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, number))
    world.now = T0 + 3 * MINUTE
    put(world, b"[]")
    since = world.view.get(Table.UNSCHEDULED, u64(job.id))
    assert since == u64(T0 + MINUTE - 1)
    put(world, b"{}")  # and again, before the leader came to it
    assert world.view.get(Table.UNSCHEDULED, u64(job.id)) == since


def test_only_jobs_that_are_scheduled_are_owed(world: World) -> None:
    put(world)
    put(world, name="other")
    suspended = job_with(world, suspended=True)
    elsewhere = world.create(cron(calendar="other"))
    world.ok(ScheduleJob(elsewhere.id, 1, T0 + MINUTE, revision(world, "other")))
    put(world, b"[]")
    assert owed(world) == set()
    assert world.job(suspended.id).state is JobState.NEW
    sound(world)


def test_one_that_used_up_its_runs_is_left_alone(world: World) -> None:
    number = put(world)
    job = job_with(world, cron(calendar="holidays", max_runs=1))
    world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, number))
    job = world.fire(job, next_nominal_at_ms=T0 + 2 * MINUTE, calendar=number)
    assert job.active == 1
    put(world, b"[]")
    assert owed(world) == set()
    session = world.session()
    world.run_once(world.instances(job.id)[0].key, session)
    assert world.job(job.id).state is JobState.EXPIRED
    sound(world)


def test_a_time_that_is_none_any_more(world: World) -> None:
    number = put(world)
    job = job_with(world)
    world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, number))
    assert world.refused(RescheduleJob(job.id, 2, T0 + MINUTE)) == "stale"
    assert world.refused(RescheduleJob(job.id, 1, T0 + MINUTE + 1)) == "stale"
    world.ok(RescheduleJob(job.id, 1, T0 + MINUTE))
    assert owed(world) == {job.id}
    plain = world.create(every(MINUTE))
    assert plain.nominal_at_ms is not None
    assert world.refused(RescheduleJob(plain.id, 1, plain.nominal_at_ms)) == "stale"


class TestShutOut:
    """A calendar that excludes all times ahead does not end the job."""

    def test_at_once(self, world: World) -> None:
        number = put(world)
        job = job_with(world)
        world.ok(ScheduleJob(job.id, 1, None, number, never_fires=True))
        row = world.job(job.id)
        assert (row.state, row.nominal_at_ms, row.never_fires) == (JobState.SCHEDULED, None, True)
        sound(world)
        number = put(world, b"[]")
        assert owed(world) == {job.id}
        assert not world.job(job.id).never_fires
        world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, number))
        assert world.job(job.id).nominal_at_ms == T0 + MINUTE
        sound(world)

    def test_after_a_fire_and_the_end_of_its_run(self, world: World) -> None:
        number = put(world)
        job = job_with(world)
        world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, number))
        job = world.fire(job, calendar=number, never_fires=True)
        assert job.never_fires
        world.run_once(world.instances(job.id)[0].key, world.session())
        assert world.job(job.id).state is JobState.SCHEDULED
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
        assert not world.job(job.id).never_fires
        sound(world)

    def test_one_whose_own_times_are_over_ends(self, world: World) -> None:
        number = put(world)
        job = job_with(world)
        world.ok(ScheduleJob(job.id, 1, None, number))
        assert world.job(job.id).state is JobState.EXPIRED
        sound(world)

    def test_without_a_calendar_it_means_nothing(self, world: World) -> None:
        job = world.create(cron())
        world.ok(ScheduleJob(job.id, 1, None, 0, never_fires=True))
        assert world.job(job.id).state is JobState.EXPIRED


class TestManyJobs:
    def test_an_operation_goes_through_them(self, world: World) -> None:
        number = put(world)
        jobs = [job_with(world) for _ in range(AT_ONCE + 1)]
        for job in jobs:
            world.ok(ScheduleJob(job.id, 1, T0 + MINUTE, number))
        put(world, b"[]")
        assert owed(world) == set()
        (row,) = [decode_operation(raw) for _, raw in world.view.scan(Table.OPERATIONS)]
        assert (row.action, row.filter) == (BulkAction.RESCHEDULE, JobFilter(calendar="holidays"))
        assert world.refused(c.CancelOperation(row.id)) == "illegal-transition"
        step = world.ok(c.StepOperation(row.id, 0, 1_000, 40)).operation
        assert step is not None
        assert (step.changed, len(owed(world))) == (40, 40)
        put(world, b'{"dates":[]}')  # begins it anew instead of another
        assert world.count(Table.OPERATIONS) == 1
        number = 1
        while step.state is OperationState.RUNNING:
            step = world.ok(c.StepOperation(row.id, number, 1_000, 40)).operation
            assert step is not None
            number += 1
        assert owed(world) == {job.id for job in jobs}
        sound(world)

    def test_nobody_asks_for_it(self, world: World) -> None:
        command = c.StartOperation(BulkAction.RESCHEDULE, JobFilter(calendar="holidays"))
        assert world.refused(command) == "invalid-parameter"

    def test_too_many_operations(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        put(world)
        for _ in range(AT_ONCE + 1):
            job_with(world)
        monkeypatch.setattr("raftsched.core.apply.resources.calendar_edits.RUNNING_MAX", 0)
        assert world.refused(PutCalendar("holidays", b"[]")) == "too-many"
        assert revision(world) == 1


def test_jobs_are_found_by_their_calendar(world: World) -> None:
    put(world)
    used = job_with(world)
    world.create(cron())
    wanted = JobFilter(calendar="holidays")
    way = walk(wanted)
    assert way.table is Table.TAGS
    found = [match(wanted, way.job(world.view, k, v) or b"") for k, v in way.rows(world.view)]
    assert [job.id for job in found if job is not None] == [used.id]
    world.edit(used, trigger=cron())
    assert list(way.rows(world.view)) == []
