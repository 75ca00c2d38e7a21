"""Forbid, allow, queue one, queue all, replace: for fires and for runs by hand."""

from __future__ import annotations

import msgspec
import pytest

from raftsched.core import commands as c
from raftsched.core.actions import KillAsked
from raftsched.core.limits import REVISIONS_MAX
from raftsched.core.model import InstanceState as I
from raftsched.core.model import JobState, Outcome, Overlap, Retry
from raftsched.core.tables import Table, u64
from tests.support.memory_view import T0, World, after, every

SECOND = 1000


def states(world: World, job_id: int) -> list[str]:
    return [r.state.name + ("/held" if r.held else "") for r in world.instances(job_id)]


def fire_thrice(overlap: Overlap) -> tuple[World, int, bytes, int]:
    """A job whose first run is running when the second and third fire come."""
    world = World()
    session = world.session()
    job = world.create(every(SECOND), overlap=overlap)
    world.fire(job)
    first = world.waiting(job.id)[0].key
    world.assign(first, session)
    world.fire(job)
    world.fire(job)
    return world, job.id, first, session


def test_forbid() -> None:
    world, job_id, first, _ = fire_thrice(Overlap.FORBID)
    assert states(world, job_id) == ["LAUNCHED", "SKIPPED"]
    world.end(first)
    world.fire(job_id)
    assert states(world, job_id)[2] == "WAITING"


def test_allow() -> None:
    world, job_id, _, session = fire_thrice(Overlap.ALLOW)
    assert states(world, job_id) == ["LAUNCHED", "WAITING", "WAITING"]
    for row in world.waiting(job_id):
        world.assign(row.key, session)


def test_queue_one() -> None:
    world, job_id, first, session = fire_thrice(Overlap.QUEUE_ONE)
    assert states(world, job_id) == ["LAUNCHED", "WAITING/held", "SKIPPED"]
    held = world.waiting(job_id)[0]
    assert held.reason == "overlap"
    assert world.refused(c.Assign(held.key, session)) == "stale"
    world.end(first)
    assert states(world, job_id)[1] == "WAITING"
    assert world.instance(held.key).ready_at_ms == world.now
    world.assign(held.key, session)


def test_queue_all_first_come_first_served_up_to_its_limit() -> None:
    world = World()
    world.settings(queue_all_max=3)
    session = world.session()
    job = world.create(every(SECOND), overlap=Overlap.QUEUE_ALL)
    for _ in range(6):
        world.fire(job)
    assert states(world, job.id) == ["WAITING", *["WAITING/held"] * 3, "SKIPPED"]
    order = []
    while ready := [r for r in world.waiting(job.id) if not r.held]:
        assert len(ready) == 1
        order.append(ready[0].nominal_at_ms)
        world.run_once(ready[0].key, session)
    assert order == [T0 + k * SECOND for k in (1, 2, 3, 4)]


def test_replace_asks_what_runs_and_waits_for_its_end() -> None:
    world, job_id, first, _ = fire_thrice(Overlap.REPLACE)
    assert states(world, job_id) == ["LAUNCHED", "KILLED", "WAITING/held"]
    assert world.instance(first).kill_asked
    world.end(first, Outcome.KILLED)
    assert world.instance(first).reason == "replaced"
    assert states(world, job_id) == ["KILLED", "KILLED", "WAITING"]


@pytest.mark.parametrize("state", [I.WAITING, I.RETRYING])
def test_replace_of_what_has_not_started(state: I) -> None:
    """Nothing is active for a moment, in the middle of the fire: the job goes on all the same."""
    world = World()
    session = world.session()
    job = world.create(every(SECOND), overlap=Overlap.REPLACE, retry=Retry((60_000,)))
    world.fire(job)
    if state is I.RETRYING:
        world.run_once(world.waiting(job.id)[0].key, session, Outcome.FAILED)
    for _ in range(3):
        fired = world.fire(job)
        assert fired.state is JobState.SCHEDULED
        assert fired.nominal_at_ms == world.now + SECOND
    assert states(world, job.id) == ["KILLED", "KILLED", "KILLED", "WAITING"]


def test_who_replaces_what_waits_has_its_place() -> None:
    """Else a job that is due more often than a busy cluster comes to it would never run at all."""
    world = World()
    job = world.create(every(1_000), overlap=Overlap.REPLACE)
    world.fire(job)
    since = world.now
    (first,) = world.waiting(job.id)
    for _ in range(5):
        world.fire(job)
    (row,) = world.waiting(job.id)
    assert (row.nominal_at_ms, row.ready_at_ms) == (world.now, since)
    assert row.score_ms == first.score_ms
    assert row.wake_at_ms == world.now + world.meta.settings.start_deadline_ms
    world.assign(row.key, world.session())
    world.fire(job)
    (held,) = world.waiting(job.id)
    assert held.ready_at_ms == world.now  # what ran had its turn
    world.forward(10)
    world.end(row.key, Outcome.KILLED)
    assert world.instance(held.key).ready_at_ms == world.now


def test_between_attempts_counts_as_running() -> None:
    world = World()
    session = world.session()
    job = world.create(every(SECOND), retry=Retry((10_000,)))
    world.fire(job)
    world.run_once(world.waiting(job.id)[0].key, session, Outcome.FAILED)
    world.fire(job)
    assert states(world, job.id) == ["RETRYING", "SKIPPED"]
    assert world.refused(c.RunNow(job.id, 1)) == "illegal-transition"


def test_lost_and_waiting_again_counts_as_running() -> None:
    world, job_id, first, session = fire_thrice(Overlap.FORBID)
    world.ok(c.EndSession(session, 1))
    assert world.instance(first).state is I.WAITING
    world.fire(job_id)
    assert states(world, job_id) == ["WAITING", "SKIPPED"]


class TestRunNow:
    def test_alongside(self) -> None:
        world = World()
        job = world.create(overlap=Overlap.ALLOW, priority=3)
        key = world.run_now(job, 5, params=b"{}", priority=8)
        row = world.instance(key)
        assert (row.request, row.priority, row.params, row.nominal_at_ms) == (5, 8, b"{}", T0)
        assert world.instance(world.run_now(job, 6)).priority == 3

    def test_the_same_request_is_the_same_run(self) -> None:
        world = World()
        job = world.create(overlap=Overlap.ALLOW)
        key = world.run_now(job, 5)
        again = world.ok(c.RunNow(job.id, 5))
        assert (again.instance, again.created) == (key, False)
        assert world.job(job.id).active == 1

    @pytest.mark.parametrize(("overlap", "second"), [(Overlap.QUEUE_ONE, "held"), (Overlap.REPLACE, "ready")])
    def test_queued_or_replacing(self, overlap: Overlap, second: str) -> None:
        world = World()
        job = world.create(overlap=overlap)
        world.run_now(job, 1)
        key = world.run_now(job, 2)
        assert world.instance(key).held is (second == "held")
        assert world.job(job.id).active == (2 if second == "held" else 1)

    def test_of_a_suspended_job(self) -> None:
        world = World()
        job = world.create(every(SECOND), suspended=True)
        world.run_now(job, 1)

    def test_of_an_expired_or_deleted_one(self) -> None:
        world = World()
        job = world.create(every(SECOND))
        world.ok(c.SetJobState(job.id, JobState.EXPIRED))
        assert world.refused(c.RunNow(job.id, 1)) == "illegal-transition"
        world.ok(c.DeleteJob(job.id))
        assert world.refused(c.RunNow(job.id, 1)) == "not-found"

    def test_counts_for_no_max_runs_and_has_no_start_deadline(self) -> None:
        world = World()
        job = world.create(every(SECOND, max_runs=1), overlap=Overlap.ALLOW)
        key = world.run_now(job, 1)
        assert world.job(job.id).runs == 0
        assert world.instance(key).wake_at_ms is None  # somebody asked for this run: it waits as long as it takes

    def test_too_many_active(self) -> None:
        world = World()
        world.settings(active_max=3)
        job = world.create(every(SECOND), overlap=Overlap.ALLOW)
        for request in (1, 2, 3):
            world.run_now(job, request)
        assert world.refused(c.RunNow(job.id, 4)) == "too-many"
        world.fire(job)
        assert [r.reason for r in world.instances(job.id) if r.state is I.SKIPPED] == ["overlap"]


class TestEditWhileActive:
    def test_from_allow_to_forbid(self) -> None:
        world, job_id, first, session = fire_thrice(Overlap.ALLOW)
        world.edit(world.job(job_id), overlap=Overlap.FORBID)
        for row in world.waiting(job_id):
            world.assign(row.key, session)
        world.fire(job_id)
        assert world.job(job_id).active == 3
        for row in world.instances(job_id)[:3]:
            world.end(row.key)
        assert world.instance(first).state is I.SUCCEEDED
        world.fire(job_id)
        assert world.job(job_id).active == 1

    def test_from_queue_to_allow_lets_the_held_go(self) -> None:
        """Else those that come now and need not wait would hold them up for ever."""
        world, job_id, _, session = fire_thrice(Overlap.QUEUE_ALL)
        assert [r.held for r in world.waiting(job_id)] == [True, True]
        world.edit(world.job(job_id), overlap=Overlap.ALLOW)
        assert [r.held for r in world.waiting(job_id)] == [False, False]
        for row in world.waiting(job_id):
            world.assign(row.key, session)

    def test_what_was_made_keeps_its_retries(self) -> None:
        world = World()
        session = world.session()
        job = world.create(every(SECOND), retry=Retry((7_000, 8_000)))
        world.fire(job)
        key = world.waiting(job.id)[0].key
        world.edit(job, retry=Retry())
        world.edit(job, retry=Retry((1,)))
        assert world.count(Table.REVISIONS) == 1  # only what somebody still runs
        world.run_once(key, session, Outcome.FAILED)
        assert world.instance(key).wake_at_ms == world.now + 7_000
        world.ok(c.Kill(key))
        assert world.count(Table.REVISIONS) == 0


class TestRevisions:
    """Of a job of which something is always active."""

    @pytest.mark.slow
    def test_those_that_nobody_runs_any_more_go(self) -> None:
        world = World()
        session = world.session()
        job = world.create(overlap=Overlap.ALLOW)
        first = oldest = world.run_now(job, 1)
        for request in range(2, 3 * REVISIONS_MAX):
            world.edit(job, timeout_ms=request * 1_000)
            newest = world.run_now(job, request)
            if oldest != first:
                world.run_once(oldest, session)
            oldest = newest
            assert world.count(Table.REVISIONS) <= REVISIONS_MAX
        assert world.view.get(Table.REVISIONS, u64(job.id) + u64(1)) is not None  # one run still is of it

    def test_no_more_of_them_than_the_limit(self) -> None:
        world = World()
        job = world.create(overlap=Overlap.ALLOW, name=None)
        for request in range(1, REVISIONS_MAX + 1):
            world.run_now(job, request)
            world.edit(job, timeout_ms=request * 1_000)
        world.run_now(job, REVISIONS_MAX + 1)
        row = world.job(job.id)
        changed = msgspec.structs.replace(row.policy, priority=1)
        assert world.refused(c.EditJob(job.id, changed, row.body, name="renamed")) == "too-many"
        world.ok(c.Kill(world.waiting(job.id)[0].key))
        world.ok(c.EditJob(job.id, changed, row.body, name="renamed"))


def test_release_gives_a_start_deadline_to_what_was_due_by_itself() -> None:
    world, job_id, first, _ = fire_thrice(Overlap.QUEUE_ONE)
    world.end(first)
    assert world.waiting(job_id)[0].wake_at_ms == world.now + world.meta.settings.start_deadline_ms


def test_killing_what_is_held_leaves_the_rest_in_order() -> None:
    world, job_id, first, session = fire_thrice(Overlap.QUEUE_ALL)
    second, third = (r.key for r in world.waiting(job_id))
    world.ok(c.Kill(second))
    world.end(first)
    assert [r.key for r in world.waiting(job_id) if not r.held] == [third]
    world.run_once(third, session)


def test_expire_kills_only_when_told_to() -> None:
    world, job_id, first, _ = fire_thrice(Overlap.QUEUE_ALL)
    world.ok(c.SetJobState(job_id, JobState.EXPIRED))
    assert states(world, job_id) == ["LAUNCHED", "WAITING/held", "WAITING/held"]
    live = world.instance(first).live
    assert live is not None
    world.ok(c.SetJobState(job_id, JobState.EXPIRED, kill=True))
    assert states(world, job_id) == ["LAUNCHED", "KILLED", "KILLED"]
    assert KillAsked("n2", live.session, live.token) in world.actions
    world.end(first, Outcome.KILLED)
    assert world.instance(first).reason == "expired"
    assert world.job(job_id).active == 0


def test_expire_with_kill_of_a_one_shot_lets_it_go() -> None:
    world = World()
    job = world.create(after(0))
    world.fire(job)
    world.ok(c.SetJobState(job.id, JobState.EXPIRED))
    world.ok(c.SetJobState(job.id, JobState.EXPIRED, kill=True))
    assert world.job(job.id).purge_at_ms is not None
