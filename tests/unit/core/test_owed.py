"""What is due and not fired when its job is paused, expired or edited: on record, not forgotten."""

from __future__ import annotations

import random

import pytest

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.model import EveryMode, Instance, JobState, Outcome, Retention, Trigger
from raftsched.core.model import InstanceState as I
from tests.support.memory_view import T0, World, at, cron, every, policy

SECOND = 1_000


def records(world: World, job_id: int) -> list[tuple[str | None, int, int | None, int]]:
    rows = [r for r in world.instances(job_id) if r.state is I.SKIPPED]
    return [(r.reason, r.nominal_at_ms, r.gap_until_ms, r.gap_count) for r in rows]


def ends(world: World, job_id: int, how: str) -> None:
    if how == "edited":
        world.edit(world.job(job_id), trigger=every(7 * SECOND))
    else:
        world.ok(c.SetJobState(job_id, JobState[how.upper()]))


@pytest.mark.parametrize("how", ["suspended", "expired", "edited"])
def test_each_time_that_was_owed(how: str) -> None:
    world = World()
    job = world.create(every(SECOND))
    world.forward(3 * SECOND + 999)  # and no leader, or a paused cluster
    ends(world, job.id, how)
    assert records(world, job.id) == [(how, T0 + SECOND, T0 + 3 * SECOND, 3)]


@pytest.mark.parametrize("how", ["suspended", "expired", "edited"])
def test_nothing_where_nothing_was_due(how: str) -> None:
    world = World()
    job = world.create(every(SECOND))
    world.forward(SECOND - 1)
    ends(world, job.id, how)
    assert world.instances(job.id) == []


def test_replaced_by_name_and_suspended() -> None:
    world = World()
    job = world.create(every(SECOND), name="x")
    world.forward(SECOND)
    content = policy(every(2 * SECOND))
    world.ok(c.CreateJob("default", "x", content, b"{}", suspended=True, replace=True))
    assert records(world, job.id) == [("edited", T0 + SECOND, T0 + SECOND, 1)]
    assert world.job(job.id).state is JobState.SUSPENDED


def test_an_edit_that_leaves_the_trigger_alone_owes_them_still() -> None:
    world = World()
    job = world.create(every(SECOND))
    world.forward(SECOND)
    job = world.edit(job, priority=9)
    assert world.instances(job.id) == []
    world.fire(job)
    assert world.waiting(job.id)[0].nominal_at_ms == T0 + SECOND


def test_suspended_by_failures_in_the_moment_it_was_due() -> None:
    world = World()
    session = world.session()
    job = world.create(every(SECOND), suspend_after=1)
    world.fire(job)
    (row,) = world.waiting(job.id)
    world.assign(row.key, session)
    world.now = T0 + 2 * SECOND
    world.end(row.key, Outcome.FAILED)
    assert world.job(job.id).state is JobState.SUSPENDED
    assert records(world, job.id) == [("suspended", T0 + 2 * SECOND, T0 + 2 * SECOND, 1)]


def test_no_more_than_max_runs() -> None:
    world = World()
    job = world.create(every(SECOND, max_runs=2))
    world.forward(10 * SECOND)
    ends(world, job.id, "suspended")
    assert records(world, job.id) == [("suspended", T0 + SECOND, T0 + 2 * SECOND, 2)]


def test_a_fixed_delay_owes_one() -> None:
    world = World()
    job = world.create(every(SECOND, mode=EveryMode.FIXED_DELAY))
    world.forward(10 * SECOND)
    ends(world, job.id, "suspended")
    assert records(world, job.id) == [("suspended", T0 + SECOND, T0 + SECOND, 1)]


def test_of_a_calendar_the_first() -> None:
    world = World()
    job = world.create(cron())
    world.ok(c.ScheduleJob(job.id, 1, T0 + 60 * SECOND))
    world.forward(200 * SECOND)
    ends(world, job.id, "suspended")
    assert records(world, job.id) == [("suspended", T0 + 60 * SECOND, T0 + 60 * SECOND, 1)]


def test_a_one_shot_is_still_owed_when_it_goes_on() -> None:
    world = World()
    job = world.create(at(T0 + SECOND))
    world.forward(2 * SECOND)
    ends(world, job.id, "suspended")
    assert world.instances(job.id) == []
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    world.fire(job)
    assert len(world.waiting(job.id)) == 1


def test_backfill_makes_up_for_them() -> None:
    world = World()
    job = world.create(every(SECOND))
    world.forward(3 * SECOND)
    ends(world, job.id, "suspended")
    times = tuple(T0 + k * SECOND for k in (1, 2, 3))
    assert world.ok(c.Backfill(job.id, 1, times)).number == 3


def test_what_is_on_record_is_what_a_fire_would_have_dealt_with() -> None:
    """With any trigger and at any time: firing covers the same times."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(150):
        trigger = _any_trigger(rng)
        wait = rng.randrange(1, 40 * SECOND)
        covered = []
        for fires in (True, False):
            world = World()
            job = world.create(trigger)
            row = world.job(job.id)
            world.forward(wait)
            if row.fire_at_ms is not None and row.fire_at_ms <= world.now and fires:
                world.fire(job)
            elif not fires:
                ends(world, job.id, "suspended")
            covered.append(_times(world.instances(job.id), trigger))
        assert covered[0] == covered[1], (trigger, wait)


def _any_trigger(rng: random.Random) -> Trigger:
    period = rng.randrange(SECOND, 9 * SECOND)
    return every(
        period,
        jitter_ms=rng.choice([0, rng.randrange(1, 2 * period)]),
        ends_at_ms=rng.choice([None, T0 + rng.randrange(10 * SECOND, 60 * SECOND)]),
    )


def _times(rows: list[Instance], trigger: Trigger) -> list[int]:
    found: set[int] = set()
    for row in rows:
        last = row.gap_until_ms if row.gap_count else row.nominal_at_ms
        assert last is not None
        times = set(range(row.nominal_at_ms, last + 1, trigger.period_ms))
        assert len(times) == max(1, row.gap_count)
        found |= times
    return sorted(found)


def test_a_record_that_grows_is_kept_from_its_latest_skip_on() -> None:
    """A run that hangs for days, under a job that lets no other start beside it."""
    world = World()
    job = world.create(every(HOUR_MS), retention=Retention(max_age_ms=2 * DAY_MS))
    world.fire(job)
    world.assign(world.waiting(job.id)[0].key, world.session())
    for hour in range(1, 5 * 24 + 1):
        world.fire(job)
        world.ok(c.Prune(world.now, 1_000))
        ((_, first, _, count),) = records(world, job.id)
        assert (first, count) == (T0 + 2 * HOUR_MS, hour)
    world.forward(2 * DAY_MS + 1)
    world.ok(c.Prune(world.now, 1_000))
    assert records(world, job.id) == []
