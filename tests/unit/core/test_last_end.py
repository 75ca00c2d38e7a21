"""A job's row says how the run that ended last ended, and how long its last attempt took."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.levels import LAST_END_IS_KEPT
from raftsched.core.model import InstanceState, Job, Outcome, Overlap, Retry, Verdict
from tests.support.memory_view import World, at, every

SECOND = 1_000
TOOK_MS = 250


def run(world: World, key: bytes, outcome: Outcome, verdict: Verdict | None = None) -> None:
    session = world.session()
    token = world.assign(key, session)
    began_ms = world.now
    world.forward(TOOK_MS)
    if verdict is None:
        world.ok(c.Ended(session, token, outcome, began_ms, world.now))
    else:
        world.ok(c.EndedWithReport(session, token, outcome, began_ms, world.now, verdict=verdict))


def last(world: World, job: Job) -> tuple[InstanceState | None, int | None]:
    row = world.job(job.id)
    return row.last_state, row.last_duration_ms


def fired(world: World, job: Job) -> bytes:
    key = world.fire(job).last_instance
    assert key is not None
    return key


@pytest.mark.parametrize(
    ("outcome", "verdict", "state"),
    [
        (Outcome.SUCCEEDED, None, InstanceState.SUCCEEDED),
        (Outcome.FAILED, None, InstanceState.FAILED),
        (Outcome.TIMED_OUT, None, InstanceState.TIMED_OUT),
        (Outcome.FAILED, Verdict.CANCEL, InstanceState.KILLED),
    ],
)
def test_each_end(outcome: Outcome, verdict: Verdict | None, state: InstanceState) -> None:
    world = World()
    for job in (world.create(every(60 * SECOND)), world.create(at(world.now + SECOND))):
        assert last(world, job) == (None, None)
        run(world, fired(world, job), outcome, verdict)
        assert last(world, job) == (state, TOOK_MS)


def test_a_retry_does_not_end_the_run() -> None:
    world = World()
    job = world.create(every(60 * SECOND), retry=Retry((SECOND,)))
    key = fired(world, job)
    run(world, key, Outcome.FAILED)
    assert last(world, job) == (None, None)
    assert world.job(job.id).last_end_at_ms == world.now
    world.forward(SECOND)
    world.ok(c.Wake(key, world.now))
    run(world, key, Outcome.SUCCEEDED)
    assert last(world, job) == (InstanceState.SUCCEEDED, TOOK_MS)


def test_one_that_was_killed_before_it_started_took_no_time() -> None:
    world = World()
    job = world.create(every(60 * SECOND))
    run(world, fired(world, job), Outcome.SUCCEEDED)
    world.ok(c.Kill(fired(world, job)))
    assert last(world, job) == (InstanceState.KILLED, None)


def test_what_is_skipped_is_no_end() -> None:
    world = World()
    world.settings(start_deadline_ms=10 * SECOND)
    job = world.create(every(60 * SECOND), overlap=Overlap.ALLOW)
    run(world, fired(world, job), Outcome.FAILED)
    key = fired(world, job)
    at_ms = world.instance(key).wake_at_ms
    assert at_ms is not None
    world.now = at_ms
    world.ok(c.Wake(key, at_ms))
    assert world.instance(key).state is InstanceState.SKIPPED
    assert last(world, job) == (InstanceState.FAILED, TOOK_MS)


def test_a_rerun_ends_anew() -> None:
    world = World()
    job = world.create(every(60 * SECOND))
    key = fired(world, job)
    run(world, key, Outcome.FAILED)
    world.ok(c.Rerun(key))
    assert last(world, job) == (InstanceState.FAILED, TOOK_MS)
    run(world, key, Outcome.SUCCEEDED)
    assert last(world, job) == (InstanceState.SUCCEEDED, TOOK_MS)


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_nothing_is_noted_before_the_level(outcome: Outcome) -> None:
    world = World(level=LAST_END_IS_KEPT - 1)
    job = world.create(every(60 * SECOND))
    run(world, fired(world, job), outcome)
    assert last(world, job) == (None, None)


def test_a_run_of_parts_takes_as_long_as_its_parts() -> None:
    world = World()
    session = world.session()
    job = world.create(every(60 * SECOND), shards=2)
    key = fired(world, job)
    began_ms = world.now
    world.ok(c.Split(key))
    parts = [one.key for one in world.instances(job.id) if one.parent == key]
    assert len(parts) == 2
    for part in parts:
        world.forward(TOOK_MS)
        world.run_once(part, session)
    assert world.instance(key).state is InstanceState.SUCCEEDED
    assert last(world, job) == (InstanceState.SUCCEEDED, world.now - began_ms)
