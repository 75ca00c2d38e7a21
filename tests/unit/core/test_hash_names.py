"""What `H` in the cron expressions of a job is hashed from: its namespace and name, or its id."""

from __future__ import annotations

from raftsched.core import commands as c
from raftsched.core.levels import HASHED_BY_NAME
from raftsched.core.model import Job
from raftsched.leader.due.triggers import source_of, with_calendars
from raftsched.schedule import describe
from tests.support.memory_view import T0, World, cron, every
from tests.support.scheduler import several

DAILY = cron("H H * * *")


def due(world: World, job: Job) -> int:
    """Returns the first time of the job after T0, as a leader computes it."""
    found, _ = source_of(with_calendars(world.view, world.job(job.id))).next_after(T0)
    assert found is not None
    return found


def test_a_job_that_is_made_again_under_its_name_keeps_its_times() -> None:
    world = World()
    first = world.create(DAILY, name="backup")
    at_ms = due(world, first)
    world.ok(c.DeleteJob(first.id))
    world.forward(5_000)
    again = world.create(DAILY, name="backup")
    assert again.id != first.id
    assert due(world, again) == at_ms


def test_another_cluster_gives_it_the_same_times() -> None:
    """They are written down, for they must never change."""
    world = World(now_ms=T0 + 12_345_678)
    job = world.create(DAILY, name="backup")
    assert job.seed == 1528997235663415862
    assert describe(DAILY, hash_id=job.hash_id) == "at 21:25 every day, UTC time"


def test_names_namespaces_and_ids_spread_them() -> None:
    world = World()
    named = [world.create(DAILY, name=f"job-{number}") for number in range(20)]
    elsewhere = [world.create(DAILY, name=f"job-{number}", namespace="other") for number in range(20)]
    nameless = [world.create(DAILY) for _ in range(20)]
    assert len({due(world, job) for job in (*named, *elsewhere, *nameless)}) > 50
    assert {job.seed for job in nameless} == {0}


def test_a_new_name_moves_no_times() -> None:
    world = World()
    for job in (world.create(DAILY, name="old"), world.create(DAILY)):
        at_ms = due(world, job)
        world.ok(c.EditJob(job.id, job.policy, job.body, name=f"new-{job.id}"))
        assert due(world, job) == at_ms


def test_one_that_gets_an_h_later_has_it_from_its_name_too() -> None:
    world = World()
    job = world.create(every(60_000), name="backup")
    assert job.seed == 0
    edited = world.edit(job, trigger=DAILY)
    assert edited.seed == World().create(DAILY, name="backup").seed
    assert world.edit(edited, trigger=cron("H/5 * * * *")).seed == edited.seed
    assert world.edit(edited, **several(cron("h 1 * * *", id="a"), cron(id="b"))).seed == edited.seed


def test_a_job_of_an_earlier_level_goes_on_by_its_id() -> None:
    world = World(level=HASHED_BY_NAME - 1)
    job = world.create(DAILY, name="backup")
    at_ms = due(world, job)
    assert (job.seed, job.hash_id) == (0, job.id)
    world.ok(c.RaiseLevel(HASHED_BY_NAME))
    assert due(world, world.edit(job, trigger=cron("H H * * ?"))) == at_ms
    assert world.create(DAILY, name="other").seed
