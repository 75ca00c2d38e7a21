"""max_concurrency: so many runs of a job are under way at one time, whatever overlap says of the others."""

from __future__ import annotations

import pytest

from raftsched.core import commands as c
from raftsched.core.model import InstanceState as I
from raftsched.core.model import Outcome, Overlap, Retry
from tests.support.memory_view import World, every

SECOND = 1_000


def states(world: World, job_id: int) -> list[str]:
    return [r.state.name + ("/held" if r.held else "") for r in world.instances(job_id)]


def fired(overlap: Overlap, most: int, times: int) -> tuple[World, int, int]:
    """A job of which each run is assigned as soon as it may be."""
    world = World()
    session = world.session()
    job = world.create(every(SECOND), overlap=overlap, max_concurrency=most)
    for _ in range(times):
        world.fire(job)
        for row in world.waiting(job.id):
            if not row.held:
                world.assign(row.key, session)
    return world, job.id, session


def test_forbid_refuses_what_is_more() -> None:
    world, job_id, _ = fired(Overlap.FORBID, 2, 4)
    assert states(world, job_id) == ["LAUNCHED", "LAUNCHED", "SKIPPED"]
    assert world.refused(c.RunNow(job_id, 1)) == "illegal-transition"
    world.end(world.instances(job_id)[0].key)
    world.run_now(world.job(job_id))


@pytest.mark.parametrize("overlap", [Overlap.ALLOW, Overlap.QUEUE_ALL])
def test_what_is_more_is_held_and_goes_in_order(overlap: Overlap) -> None:
    world, job_id, _ = fired(overlap, 2, 5)
    assert states(world, job_id) == ["LAUNCHED", "LAUNCHED", *["WAITING/held"] * 3]
    rows = world.instances(job_id)
    world.end(rows[1].key)
    assert [r.held for r in world.waiting(job_id)] == [False, True, True]
    world.end(rows[0].key)
    assert [r.held for r in world.waiting(job_id)] == [False, False, True]


def test_queue_one_holds_one() -> None:
    world, job_id, _ = fired(Overlap.QUEUE_ONE, 2, 4)
    assert states(world, job_id) == ["LAUNCHED", "LAUNCHED", "WAITING/held", "SKIPPED"]


def test_replace_ends_the_oldest() -> None:
    world, job_id, _ = fired(Overlap.REPLACE, 2, 3)
    assert states(world, job_id) == ["LAUNCHED", "LAUNCHED", "WAITING/held"]
    assert [r.kill_asked for r in world.instances(job_id)] == [True, False, False]
    world.end(world.instances(job_id)[0].key, Outcome.KILLED)
    assert states(world, job_id) == ["KILLED", "LAUNCHED", "WAITING"]
    world.fire(job_id)
    assert [(r.state, r.kill_asked) for r in world.instances(job_id)[1:]] == [
        (I.LAUNCHED, True),
        (I.WAITING, False),
        (I.WAITING, False),
    ]


def test_between_attempts_counts() -> None:
    world = World()
    session = world.session()
    job = world.create(every(SECOND), max_concurrency=2, retry=Retry((60_000,)))
    for _ in range(2):
        world.fire(job)
        world.run_once(next(r.key for r in world.waiting(job.id)), session, Outcome.FAILED)
    world.fire(job)
    assert states(world, job.id) == ["RETRYING", "RETRYING", "SKIPPED"]


def test_allowed_more_by_an_edit_they_go_at_once() -> None:
    world, job_id, _ = fired(Overlap.ALLOW, 1, 4)
    world.edit(world.job(job_id), max_concurrency=3)
    assert states(world, job_id) == ["LAUNCHED", "WAITING", "WAITING", "WAITING/held"]
    world.edit(world.job(job_id), max_concurrency=0)
    assert states(world, job_id)[-1] == "WAITING"


def test_allowed_fewer_what_runs_goes_on() -> None:
    world, job_id, session = fired(Overlap.ALLOW, 3, 4)
    world.edit(world.job(job_id), max_concurrency=1)
    rows = world.instances(job_id)
    world.end(rows[0].key)
    world.end(rows[1].key)
    assert states(world, job_id)[2:] == ["LAUNCHED", "WAITING/held"]
    world.end(rows[2].key)
    world.run_once(rows[3].key, session)
    assert world.job(job_id).active == 0


def test_one_allows_no_overlap_even_where_it_is_allowed() -> None:
    world, job_id, _ = fired(Overlap.ALLOW, 1, 3)
    assert states(world, job_id) == ["LAUNCHED", "WAITING/held", "WAITING/held"]


def test_killing_one_that_runs_makes_no_room_before_its_end() -> None:
    world, job_id, _ = fired(Overlap.ALLOW, 1, 2)
    first = world.instances(job_id)[0].key
    world.ok(c.Kill(first))
    assert states(world, job_id) == ["LAUNCHED", "WAITING/held"]
    world.end(first, Outcome.KILLED)
    assert states(world, job_id) == ["KILLED", "WAITING"]
