"""What a restore does about due times and runs that the old cluster may have run after the backup was made."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.backups.settling import Settled, settle
from raftsched.core import commands as c
from raftsched.core.apply.jobs.bulk import running
from raftsched.core.apply.tx import Tx
from raftsched.core.model import (
    After,
    AfterOn,
    Delivery,
    EveryMode,
    Instance,
    InstanceState,
    Job,
    JobState,
    Misfire,
    MisfirePolicy,
    Outcome,
    Overlap,
    Retry,
    Trigger,
    TriggerKind,
)
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.cluster import PauseCluster
from raftsched.core.subjects.operations import BulkAction, OperationState, StepOperation
from raftsched.core.tables import Table
from tests.support.invariants import violations
from tests.support.memory_view import T0, World, at, cron, every
from tests.support.scheduler import go_on, schedule, several

SECOND, HOUR = 1_000, 3_600_000
ONCE: dict[str, Any] = {"delivery": Delivery.AT_MOST_ONCE}
LATER = T0 + 10 * HOUR


def restored(world: World, *, skip: bool, now_ms: int = LATER) -> Settled:
    """Settles what the world holds, which goes on then."""
    tx = Tx(world.view)
    done = settle(tx, world.index, 1, now_ms, skip=skip)
    found = violations(world.view)
    assert not found, "\n".join(found)
    world.now, world.index = now_ms, world.index + 1_000
    return done


def gaps(world: World, job: Job) -> list[tuple[str | None, int, int, int]]:
    """(reason, first, last, how many) of what was skipped, in seconds after T0."""
    return [
        (r.reason, (r.nominal_at_ms - T0) // SECOND, ((r.gap_until_ms or 0) - T0) // SECOND, r.gap_count)
        for r in world.instances(job.id)
        if r.gap_count
    ]


def ran(world: World, job: Job) -> list[Instance]:
    return [r for r in world.instances(job.id) if not r.gap_count]


def made(world: World, trigger: Trigger | None = None, **fields: Any) -> Job:
    job = world.create(trigger, **fields)
    schedule(world)
    return world.job(job.id)


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("skip", [False, True])
def test_what_was_due_since_is_one_record_or_is_run(skip: bool, once: bool) -> None:
    world = World()
    more: dict[str, Any] = {"misfire": Misfire(MisfirePolicy.ALL), "overlap": Overlap.ALLOW, **(ONCE if once else {})}
    jobs = {
        "every": made(world, every(HOUR), **more),
        "cron": made(world, cron("30 * * * *"), **more),
        "several": made(world, **several(every(4 * HOUR, id="a"), every(6 * HOUR, id="b")), **more),
        "jitter": made(world, every(HOUR, jitter_ms=HOUR // 2), **more),
    }
    first = {name: world.job(job.id).nominal_at_ms for name, job in jobs.items()}
    done = restored(world, skip=skip)
    if not skip and not once:
        assert (done.skipped, done.due_jobs) == (0, len(jobs))
        assert all(gaps(world, job) == [] for job in jobs.values())
        go_on(world, LATER)
        assert len(ran(world, jobs["every"])) == 10
        return
    assert (done.due_jobs, done.skipped_jobs) == (0, len(jobs))
    assert gaps(world, jobs["every"]) == [("restored", 3_600, 36_000, 10)]
    found = {name: gaps(world, job) for name, job in jobs.items()}
    assert [len(records) for records in found.values()] == [1] * len(jobs), "neighbours are in one record"
    assert sum(records[0][3] for records in found.values()) == done.skipped
    assert {name: T0 + records[0][1] * SECOND for name, records in found.items()} == first
    assert found["several"][0][1:] == (14_400, 28_800, 3)
    assert found["cron"][0][3] == 10
    go_on(world, LATER)
    assert all(ran(world, job) == [] for job in jobs.values()), "nothing of it is run by the leader"
    go_on(world, LATER + 2 * HOUR)
    assert [(r.nominal_at_ms - LATER) // HOUR for r in ran(world, jobs["every"])] == [1, 2], "the schedule goes on"
    assert len(ran(world, jobs["cron"])) == 2


@pytest.mark.parametrize("more", [{}, {"max_runs": 1}])
@pytest.mark.parametrize("skip", [False, True])
def test_a_one_shot_that_was_due_is_run_or_ends_as_skipped(skip: bool, more: dict[str, Any]) -> None:
    world = World()
    due, once, later = (
        made(world, at(when, **more), **policy)
        for when, policy in ((T0 + HOUR, {}), (T0 + HOUR, ONCE), (LATER + HOUR, {}))
    )
    done = restored(world, skip=skip)
    assert (done.skipped, done.due_jobs) == ((2, 0) if skip else (1, 1))
    assert gaps(world, once) == [("restored", 3_600, 3_600, 1)]
    assert world.job(once.id).state is JobState.EXPIRED
    assert world.job(once.id).last_instance is not None
    assert gaps(world, due) == ([("restored", 3_600, 3_600, 1)] if skip else [])
    go_on(world, LATER + HOUR)
    assert [len(ran(world, job)) for job in (due, once, later)] == [0 if skip else 1, 0, 1]


def test_a_delay_counts_from_the_restore() -> None:
    world = World()
    job = made(world, every(HOUR, mode=EveryMode.FIXED_DELAY))
    restored(world, skip=True)
    assert gaps(world, job) == [("restored", 3_600, 3_600, 1)]
    assert world.job(job.id).nominal_at_ms == LATER + HOUR


def test_a_time_that_the_leader_owed_is_skipped_too() -> None:
    """The backup was made before a leader had scheduled the job."""
    world = World()
    owed = world.create(cron("0 * * * *"))
    owed_of_several = world.create(**several(cron("0 * * * *", id="a"), every(5 * HOUR, id="b")))
    suspended = world.create(cron("0 * * * *"), suspended=True)
    done = restored(world, skip=True)
    assert (done.skipped, done.skipped_jobs) == (20, 2)
    assert gaps(world, owed)[0][3] == 10
    assert gaps(world, suspended) == []
    schedule(world)
    go_on(world, LATER + HOUR)
    assert len(ran(world, owed)) == len(ran(world, owed_of_several)) == 1


def test_what_a_paused_cluster_held_back_is_skipped_too() -> None:
    world = World()
    job = made(world, every(HOUR))
    world.ok(PauseCluster(True))
    assert restored(world, skip=True).skipped == 10
    assert gaps(world, job) == [("restored", 3_600, 36_000, 10)]


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("skip", [False, True])
def test_what_was_due_behind_a_pause_that_is_over_is_skipped_too(skip: bool, once: bool) -> None:
    """The old cluster resumed them by itself."""
    world = World()
    more: dict[str, Any] = {"misfire": Misfire(MisfirePolicy.ALL), "overlap": Overlap.ALLOW, **(ONCE if once else {})}
    jobs = [made(world, trigger, **more) for trigger in (every(HOUR), at(T0 + 2 * HOUR), at(T0 + 6 * HOUR))]
    still = made(world, every(HOUR), **more)
    for job in jobs:
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED, resume_at_ms=T0 + 5 * HOUR))
    world.ok(c.SetJobState(still.id, JobState.SUSPENDED, resume_at_ms=LATER + HOUR))
    done = restored(world, skip=skip)
    go_on(world, LATER)
    runs = [len(ran(world, job)) for job in jobs]
    if not skip and not once:
        assert runs == [6, 1, 1]
        return
    assert runs == [0, 0, 0]
    assert (done.skipped, done.skipped_jobs) == (8, 3)
    assert gaps(world, jobs[0]) == [("restored", 18_000, 36_000, 6)]
    assert [world.job(job.id).state for job in jobs] == [JobState.SCHEDULED, JobState.EXPIRED, JobState.EXPIRED]
    assert world.job(still.id).state is JobState.SUSPENDED


@pytest.mark.parametrize("skip", [False, True])
def test_an_operation_that_was_under_way_is_ended_first(skip: bool) -> None:
    """The old cluster went on with it: what it runs is to run at most once, as anything else."""
    world = World()
    jobs = [world.create(**(ONCE if n % 2 else {})) for n in range(10)]
    paused = [made(world, at(T0 + HOUR), **policy) for policy in ({}, ONCE)]
    for job in paused:
        world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
    started = [
        c.StartOperation(BulkAction.RUN, None, tuple(job.id for job in jobs)),
        c.StartOperation(BulkAction.RESUME, JobFilter(states=(JobState.SUSPENDED,))),
        c.StartOperation(BulkAction.PAUSE, JobFilter(namespace="none")),
    ]
    run, _, pause = (world.ok(command).operation.id for command in started)
    world.ok(StepOperation(run, 0, 3, 3))
    done = restored(world, skip=skip)
    assert (done.ended, done.waiting) == (5, 5)
    states = {one.id: one.state for one in running(Tx(world.view))}
    assert states == {pause: OperationState.RUNNING}
    go_on(world, LATER)
    for number, job in enumerate(jobs):
        (row,) = world.instances(job.id)
        assert row.state is (InstanceState.SKIPPED if number % 2 else InstanceState.WAITING)
    assert [len(ran(world, job)) for job in paused] == [0 if skip else 1, 0]


@pytest.mark.parametrize("skip", [False, True])
class TestAtMostOnce:
    """It is never run again, whatever becomes of due times."""

    def ended(self, world: World, key: bytes, state: InstanceState = InstanceState.SKIPPED) -> None:
        row = world.instance(key)
        assert (row.state, row.reason) == (state, "restored")
        assert "may have run" in (row.error or "")
        assert world.job(row.job_id).active == 0

    def test_what_waited_ends(self, skip: bool) -> None:
        world = World()
        once = world.run_now(world.create(**ONCE))
        other = world.run_now(world.create())
        done = restored(world, skip=skip)
        assert (done.ended, done.waiting, done.live) == (1, 1, 0)
        self.ended(world, once)
        assert world.instance(other).state is InstanceState.WAITING

    def test_what_was_to_be_retried_ends(self, skip: bool) -> None:
        world = World()
        key = world.run_now(world.create(retry=Retry((HOUR,)), **ONCE))
        world.run_once(key, world.session(), Outcome.FAILED)
        assert world.instance(key).state is InstanceState.RETRYING
        assert restored(world, skip=skip).ended == 1
        self.ended(world, key, InstanceState.KILLED)

    def test_what_was_held_or_in_line_ends(self, skip: bool) -> None:
        world = World()
        session = world.session()
        queued = world.create(overlap=Overlap.QUEUE_ALL, **ONCE)
        keys = [world.run_now(queued, n) for n in (1, 2, 3)]
        world.assign(keys[0], session)
        limited = [world.run_now(world.create(concurrency=Concurrency("k", "k", 1), **ONCE)) for _ in range(3)]
        world.assign(limited[0], session)
        done = restored(world, skip=skip)
        assert (done.ended, done.live, done.waiting) == (4, 2, 0)
        assert {world.instance(key).reason for key in (*keys[1:], *limited[1:])} == {"restored"}

    def test_what_was_live_fails_with_its_session(self, skip: bool) -> None:
        world = World()
        session = world.session()
        key = world.run_now(world.create(**ONCE))
        world.assign(key, session)
        assert restored(world, skip=skip).live == 1
        world.ok(c.OpenLeadership(1_000, "n1"))
        world.ok(c.EndSession(session, 1_000))
        row = world.instance(key)
        assert (row.state, row.reason) == (InstanceState.FAILED, "lost")

    def test_parts_end_with_their_parent(self, skip: bool) -> None:
        world = World()
        world.session()
        key = world.run_now(world.create(shards=3, **ONCE))
        go_on(world, world.now)
        done = restored(world, skip=skip)
        go_on(world, LATER)
        assert done.ended == 1, "the parts are no runs of their own"
        assert world.instance(key).reason == "restored"
        assert all(r.state is not InstanceState.WAITING for r in world.instances())

    def test_a_run_that_follows_one_of_these_ends_as_well(self, skip: bool) -> None:
        world = World()
        first = world.create(name="first", **ONCE)
        trigger = Trigger(kind=TriggerKind.AFTER, after=After(("default/first",), AfterOn.ENDED))
        second = world.create(trigger, name="second", **ONCE)
        world.run_now(first)
        assert restored(world, skip=skip).ended == 2
        assert [r.reason for r in world.instances(second.id)] == ["restored"]


def test_what_ended_stays_as_it_is() -> None:
    world = World()
    job = world.create(**ONCE)
    key = world.run_now(job)
    world.run_once(key, world.session())
    before = world.view.get(Table.INSTANCES, key)
    assert restored(world, skip=True) == Settled()
    assert world.view.get(Table.INSTANCES, key) == before


def test_a_backup_of_an_earlier_level_stays_of_it() -> None:
    world = World(level=5)
    made(world, every(HOUR), **ONCE)
    world.run_now(world.create(**ONCE))
    restored(world, skip=True)
    assert world.meta.level == 5
