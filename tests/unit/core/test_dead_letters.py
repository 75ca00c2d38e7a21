"""Dead letters: what failed for good is listed, kept, requeued, discarded."""

from __future__ import annotations

import pytest

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.model import Delivery, Job, JobState, Outcome, Overlap, Retention, Retry
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import Table, from_dead
from tests.support.memory_view import T0, World, at, every

F = Outcome.FAILED


def listed(world: World) -> list[bytes]:
    return [from_dead(key) for key, _ in world.view.scan(Table.DEAD)]


def dead(world: World, session: int, job: Job, request: int = 1, outcome: Outcome = F) -> bytes:
    key = world.run_now(job, request)
    world.run_once(key, session, outcome)
    return key


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT])
def test_what_failed_for_good_is_listed(outcome: Outcome) -> None:
    world = World()
    session = world.session()
    job = world.create(retry=Retry((1_000,)))
    key = world.run_now(job)
    world.run_once(key, session, outcome)
    assert listed(world) == []  # it is tried again first
    wake = world.instance(key).wake_at_ms
    assert wake is not None
    world.now = wake
    world.ok(c.Wake(key, wake))
    world.run_once(key, session, outcome)
    assert listed(world) == [key]
    assert world.instance(key).dead_at_ms == world.now


def test_what_was_lost_too_often_is_listed_and_what_was_killed_is_not() -> None:
    world = World()
    job = world.create(delivery=Delivery.AT_MOST_ONCE, overlap=Overlap.ALLOW)
    session = world.session()
    lost, killed = world.run_now(job, 1), world.run_now(job, 2)
    world.assign(lost, session)
    world.assign(killed, session)
    world.ok(c.Kill(killed))
    world.ok(c.EndSession(session, 1))
    assert world.instance(killed).state is I.KILLED
    assert listed(world) == [lost]


def test_requeued_it_has_all_its_retries_and_keeps_its_history() -> None:
    world = World()
    session = world.session()
    job = world.create(max_lost=0)
    key = dead(world, session, job)
    world.edit(job, retry=Retry((500,)))
    answer = world.ok(c.Requeue(key))
    row = answer.row
    assert row is not None
    assert (row.state, row.tried, row.lost, row.dead_letter, row.job_revision) == (I.WAITING, 0, 0, False, 2)
    assert listed(world) == []
    world.run_once(key, session, F)
    row = world.instance(key)
    assert row.state is I.RETRYING
    assert [a.number for a in row.attempts] == [1, 2]


def test_requeued_it_waits_its_turn_whatever_overlap_says() -> None:
    for overlap in Overlap:
        world = World()
        session = world.session()
        job = world.create(overlap=overlap)
        keys = [dead(world, session, job, request) for request in range(1, 5)]
        running = world.run_now(job, 9)
        world.assign(running, session)
        world.run(*(c.Requeue(key) for key in keys))
        assert world.instance(running).kill_asked is False  # not even under "replace"
        if overlap is Overlap.ALLOW:
            assert not any(world.instance(key).held for key in keys)
            continue
        assert all(world.instance(key).held for key in keys)
        world.end(running)
        for key in keys:
            assert [r.key for r in world.waiting(job.id) if not r.held] == [key]
            world.run_once(key, session)
        assert world.job(job.id).active == 0


def test_what_is_no_dead_letter_is_refused() -> None:
    world = World()
    session = world.session()
    job = world.create()
    good = dead(world, session, job, 1, Outcome.SUCCEEDED)
    assert world.refused(c.Requeue(good)) == "illegal-transition"
    assert world.refused(c.Discard(good)) == "illegal-transition"
    assert world.refused(c.Requeue(b"x" * 24)) == "not-found"
    assert world.refused(c.Discard(b"x")) == "not-found"
    bad = dead(world, session, job, 2)
    world.ok(c.Requeue(bad))
    assert world.refused(c.Requeue(bad)) == "illegal-transition"  # repeated
    assert world.refused(c.Discard(bad)) == "illegal-transition"


def test_no_more_than_a_job_may_have_active() -> None:
    world = World()
    session = world.session()
    job = world.create()
    keys = [dead(world, session, job, request) for request in (1, 2, 3)]
    world.settings(active_max=2)
    answers = world.run(*(c.Requeue(key) for key in keys))
    assert isinstance(answers[2], c.Rejected)
    assert answers[2].code == "too-many"
    assert listed(world) == [keys[2]]


def test_discarded_it_stays_as_long_as_others_that_failed() -> None:
    world = World()
    session = world.session()
    job = world.create(retention=Retention(max_age_ms=HOUR_MS))
    keys = [dead(world, session, job, request) for request in (1, 2)]
    world.forward(2 * HOUR_MS)
    world.ok(c.Prune(world.now, 100))
    assert listed(world) == keys
    world.ok(c.Discard(keys[0]))
    assert world.instance(keys[0]).state is I.FAILED
    assert listed(world) == [keys[1]]
    world.ok(c.Prune(world.now, 100))
    assert world.row(keys[0]) is None
    world.forward(14 * DAY_MS - 2 * HOUR_MS)
    world.ok(c.Prune(world.now, 100))
    assert world.row(keys[1]) is None
    assert listed(world) == []


def test_the_count_of_failures_kept_holds_for_them_too() -> None:
    world = World()
    session = world.session()
    job = world.create(retention=Retention(failed=2))
    keys = []
    for request in range(1, 5):
        world.forward(1)
        keys.append(dead(world, session, job, request))
    assert listed(world) == keys[2:]


def test_rerun_takes_it_off_the_list() -> None:
    world = World()
    session = world.session()
    key = dead(world, session, world.create())
    world.ok(c.Rerun(key))
    assert listed(world) == []


def test_a_one_shot_takes_its_dead_letters_along() -> None:
    world = World()
    session = world.session()
    job = world.create(at(T0))
    world.fire(job)
    key = world.waiting(job.id)[0].key
    world.run_once(key, session, F)
    assert listed(world) == [key]
    assert world.job(job.id).purge_at_ms == world.now + 14 * DAY_MS
    world.ok(c.Discard(key))
    assert world.job(job.id).purge_at_ms == world.now + 7 * DAY_MS
    world.ok(c.Rerun(key))
    world.run_once(key, session, F)
    world.forward(14 * DAY_MS)
    world.ok(c.Prune(world.now, 100))
    assert listed(world) == []
    assert world.find(job.id) is None


def test_they_go_with_a_deleted_job() -> None:
    world = World()
    session = world.session()
    job = world.create()
    key = dead(world, session, job)
    world.ok(c.DeleteJob(job.id))
    assert world.refused(c.Requeue(key)) == "not-found"
    world.ok(c.Prune(world.now, 100))
    assert listed(world) == []


def test_an_expired_job_runs_what_is_requeued() -> None:
    world = World()
    session = world.session()
    job = world.create(every(1_000), max_lost=0)
    world.fire(job)
    key = world.waiting(job.id)[0].key
    world.run_once(key, session, F)
    world.ok(c.SetJobState(job.id, JobState.EXPIRED))
    world.ok(c.Requeue(key))
    world.run_once(key, session)
    assert world.instance(key).state is I.SUCCEEDED
    assert world.job(job.id).state is JobState.EXPIRED


def test_a_rerun_under_a_key_is_done_once() -> None:
    world = World()
    session = world.session()
    key = dead(world, session, world.create())
    rerun = c.Rerun(key, b"k" * 32, b"d" * 32)
    world.ok(rerun)
    world.run_once(key, session)
    assert world.ok(rerun).instance == key
    assert world.instance(key).state is I.SUCCEEDED
    assert world.do(c.Rerun(key, b"k" * 32, b"e" * 32)) == c.Rejected(
        "idempotency-mismatch",
        "This Idempotency-Key came with another request before; use a new key for a new request.",
    )
