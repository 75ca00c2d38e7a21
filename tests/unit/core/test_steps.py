"""What is noted of an instance's way: enough to say later why it ran, waited or ended, and no more."""

from __future__ import annotations

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.model import Instance, JobState, Misfire, MisfirePolicy, Outcome, Overlap, Retry, StepKind
from tests.support.memory_view import T0, World, at, every

SECOND = 1000


def kinds(row: Instance | None) -> list[str]:
    assert row is not None
    return [step.kind.name for step in row.steps]


def test_a_one_shot_takes_four() -> None:
    world = World()
    job = world.create(at(T0 + SECOND))
    session = world.session()
    key = world.fire(job).last_instance
    assert key is not None
    world.forward(5)
    token = world.assign(key, session)
    world.forward(7)
    world.ok(c.Started(session, token, world.now))
    world.forward(9)
    row = world.end(key)
    assert kinds(row) == ["CREATED", "ASSIGNED", "STARTED", "FINAL"]
    assert [step.after_ms for step in row.steps] == [0, 5, 12, 21]
    assert [step.token for step in row.steps] == [0, token, token, token]
    assert [step.term for step in row.steps] == [1] * 4
    assert [step.index for step in row.steps] == list(range(world.index - 3, world.index + 1))


def test_retry_loss_and_rerun() -> None:
    world = World()
    job = world.create(at(T0), retry=Retry((SECOND,)))
    session = world.session("n2")
    key = world.fire(job).last_instance
    assert key is not None
    world.assign(key, session)
    row = world.end(key, Outcome.FAILED)
    assert kinds(row) == ["CREATED", "ASSIGNED", "ENDED", "RETRY"]
    assert row.steps[2].detail == "failed"
    assert row.steps[3].detail == "level 1"
    world.forward(SECOND)
    assert row.wake_at_ms is not None
    world.ok(c.Wake(key, row.wake_at_ms))
    lost = world.assign(key, session)
    world.ok(c.EndSession(session, 1))
    row = world.instance(key)
    assert kinds(row)[4:] == ["READY", "ASSIGNED", "LOST"]
    assert row.steps[-1].token == lost
    world.ok(c.Kill(key))
    assert world.instance(key).steps[-1].detail == "killed"
    world.ok(c.Rerun(key))
    assert kinds(world.instance(key))[7:] == ["FINAL", "RERUN"]


def test_held_and_released() -> None:
    world = World()
    job = world.create(every(SECOND), overlap=Overlap.QUEUE_ALL)
    session = world.session()
    first = world.fire(job).last_instance
    second = world.fire(job).last_instance
    assert first is not None
    assert second is not None
    assert kinds(world.row(second)) == ["CREATED", "HELD"]
    world.run_once(first, session)
    assert kinds(world.row(second)) == ["CREATED", "HELD", "RELEASED"]


def test_who_asked_to_end_it() -> None:
    world = World()
    job = world.create(every(SECOND), overlap=Overlap.REPLACE)
    key = world.fire(job).last_instance
    assert key is not None
    token = world.assign(key, world.session())
    world.fire(job)
    world.ok(c.Kill(key))  # asked already: nothing new
    steps = world.instance(key).steps
    assert [s.kind for s in steps][2:] == [StepKind.KILL_ASKED]
    assert (steps[-1].detail, steps[-1].token) == ("replaced", token)


def test_why_it_was_made() -> None:
    world = World()
    job = world.create(every(SECOND), overlap=Overlap.ALLOW, misfire=Misfire(MisfirePolicy.ONCE, 0))
    world.forward(3 * SECOND)
    world.fire(job)
    world.run_now(job)
    rows = world.instances(job.id)
    assert [(r.state.name, r.steps[0].kind.name, r.steps[0].detail) for r in rows] == [
        ("SKIPPED", "FINAL", "misfire"),
        ("WAITING", "CREATED", "missed"),  # one for those that were missed
        ("WAITING", "CREATED", None),  # and the one that is on time
        ("WAITING", "CREATED", "manual"),
    ]


def test_a_gap_that_grows_notes_its_first_skip_and_its_latest() -> None:
    world = World()
    job = world.create(every(SECOND))
    world.fire(job)
    for _ in range(5):
        world.fire(job)
    (gap,) = [r for r in world.instances(job.id) if r.gap_count]
    assert gap.gap_count == 5
    assert [s.after_ms for s in gap.steps] == [0, 4 * SECOND]
    assert gap.steps[-1].index == world.index


def test_jitter_is_kept_with_the_instance() -> None:
    world = World()
    job = world.create(every(DAY_MS, jitter_ms=10_000), overlap=Overlap.ALLOW)
    due = world.job(job.id)
    assert due.fire_at_ms is not None
    assert due.nominal_at_ms is not None
    key = world.fire(job).last_instance
    assert key is not None
    assert world.instance(key).jitter_ms == due.fire_at_ms - due.nominal_at_ms > 0
    assert world.instance(world.run_now(job)).jitter_ms == 0


def test_of_too_many_the_first_and_the_newest_stay() -> None:
    world = World()
    world.settings(steps_kept=4)
    job = world.create(at(T0))
    session = world.session()
    key = world.fire(job).last_instance
    assert key is not None
    for _ in range(3):
        world.run_once(key, session)
        world.ok(c.Rerun(key))
    row = world.instance(key)
    assert kinds(row) == ["CREATED", "ASSIGNED", "FINAL", "RERUN"]
    assert row.steps[1].token == row.attempts[-1].token


def test_a_gap_that_begins_where_a_run_was_before_is_recorded_too() -> None:
    """After the clock went back and the schedule was taken up anew, a time comes again."""
    world = World()
    job = world.create(every(SECOND), overlap=Overlap.ALLOW, misfire=Misfire(MisfirePolicy.SKIP, 0))
    world.fire(job)
    world.now = T0
    world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    assert world.job(job.id).nominal_at_ms == T0 + SECOND
    world.forward(3 * SECOND + 500)
    world.fire(job)
    gaps = [r for r in world.instances(job.id) if r.gap_count]
    assert [(r.nominal_at_ms, r.gap_until_ms, r.gap_count) for r in gaps] == [(T0 + SECOND, T0 + 3 * SECOND, 3)]
