"""Due times far ahead: kept by the day, found where they are, and near before they are due."""

from __future__ import annotations

import random

import pytest

from raftsched.bounds import DAY_MS
from raftsched.core import commands as c
from raftsched.core.actions import JobDue, JobNear
from raftsched.core.commands import PromoteDue
from raftsched.core.model import Job, JobState
from raftsched.core.rows import decode_job
from raftsched.core.rules.due_times import DueLaterFirst
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import Walk, match, walk
from raftsched.core.tables import FAR_DAY_MS, Table, due_day, due_key, due_later_key, u64
from tests.support.memory_view import T0, World, at, every

TODAY = due_day(T0)


def far_world(days: int = 3) -> World:
    world = World()
    world.ok(PromoteDue(TODAY + days, 100))
    return world


def in_days(days: float, more_ms: int = 0) -> int:
    return int((TODAY + days) * DAY_MS) + more_ms


def places(world: World, job: Job) -> str:
    """Returns the names of the tables that the job's due time is in."""
    found = []
    for table in (Table.DUE, Table.DUE_LATER):
        found += [table.name for key, _ in world.view.scan(table) if key[-8:] == u64(job.id)]
    return " ".join(found)


def test_the_days_are_days() -> None:
    assert FAR_DAY_MS == DAY_MS


def test_until_somebody_asks_for_it_all_due_times_are_in_due() -> None:
    world = World()
    job = world.create(at(in_days(400)))
    assert places(world, job) == "DUE"
    assert world.meta.due_boundary == b""


def test_a_due_time_is_far_from_the_day_on_that_the_first_command_says() -> None:
    world = far_world()
    assert places(world, world.create(at(in_days(3, -1)))) == "DUE"
    assert places(world, world.create(at(in_days(3)))) == "DUE_LATER"
    assert places(world, world.create(at(T0 - 1))) == "DUE"
    assert any(isinstance(action, JobDue) for action in world.actions)


def test_rows_from_before_stay_and_are_found_when_they_go() -> None:
    world = World()
    gone, moved, kept = (world.create(at(in_days(9))) for _ in range(3))
    world.ok(PromoteDue(TODAY + 3, 100))
    assert places(world, kept) == "DUE"
    world.ok(c.DeleteJob(gone.id))
    assert places(world, gone) == ""
    moved = world.edit(moved, trigger=at(in_days(12)))
    assert places(world, moved) == "DUE_LATER"
    assert places(world, world.edit(moved, trigger=at(in_days(1)))) == "DUE"


@pytest.mark.parametrize("state", [JobState.SUSPENDED, JobState.EXPIRED])
def test_a_far_due_time_goes_as_a_near_one(state: JobState) -> None:
    world = far_world()
    job = world.create(at(in_days(9)))
    world.ok(c.SetJobState(job.id, state))
    assert places(world, job) == ""


def test_days_come_near() -> None:
    world = far_world()
    third, fourth = world.create(at(in_days(3, 5))), world.create(at(in_days(4)))
    assert world.ok(PromoteDue(TODAY + 4, 100)).number == 1
    assert world.actions == [JobNear(third.id, in_days(3, 5))]
    assert (places(world, third), places(world, fourth)) == ("DUE", "DUE_LATER")
    assert world.view.get(Table.DUE, due_key(in_days(3, 5), third.id)) == b""
    assert places(world, world.create(at(in_days(4, -1)))) == "DUE"
    world.fire(third)


def test_a_repeat_changes_nothing_and_the_border_never_goes_back() -> None:
    world = far_world()
    job = world.create(at(in_days(3)))
    before = world.meta.due_boundary
    for day in (TODAY + 3, TODAY, 0, -1):
        assert world.ok(PromoteDue(day, 100)).number == 0
        assert world.meta.due_boundary == before
    assert places(world, job) == "DUE_LATER"


def test_a_bounded_number_of_rows_moves_at_once_and_the_border_goes_with_them() -> None:
    world = far_world()
    day = [world.create(at(in_days(3, 10 - i))) for i in range(5)]
    assert world.ok(PromoteDue(TODAY + 4, 2)).number == 2
    assert [places(world, job) for job in day] == ["DUE", "DUE", "DUE_LATER", "DUE_LATER", "DUE_LATER"]
    late = world.create(at(in_days(3, 1)))  # of the day that is on its way
    assert places(world, late) == "DUE_LATER"
    early = world.edit(day[0], trigger=at(in_days(3, 2)))
    assert places(world, early) == "DUE"
    assert world.ok(PromoteDue(TODAY + 4, 2)).number == 2
    assert world.ok(PromoteDue(TODAY + 4, 2)).number == 2
    assert world.count(Table.DUE_LATER) == 0
    assert (
        places(world, world.create(at(in_days(3)))) == "DUE_LATER"
    )  # there may be more: nothing says that the day is over
    assert world.ok(PromoteDue(TODAY + 4, 2)).number == 1
    assert places(world, world.create(at(in_days(3)))) == "DUE"
    assert world.ok(PromoteDue(TODAY + 4, 2)).number == 0


@pytest.mark.parametrize("limit", [0, -5, 2**63])
def test_whatever_the_limit_it_gets_on(limit: int) -> None:
    world = far_world()
    for _ in range(3):
        world.create(at(in_days(3)))
    for _ in range(4):
        world.ok(PromoteDue(TODAY + 4, limit))
    assert world.count(Table.DUE_LATER) == 0


def test_after_an_outage_what_was_due_first_comes_near_first() -> None:
    world = far_world()
    jobs = [world.create(at(in_days(days))) for days in (7, 3, 5, 4, 90)]
    world.ok(PromoteDue(TODAY + 20, 2))
    assert [places(world, job) for job in jobs] == ["DUE_LATER", "DUE", "DUE_LATER", "DUE", "DUE_LATER"]
    world.ok(PromoteDue(TODAY + 20, 100))
    assert [places(world, job) for job in jobs] == ["DUE"] * 4 + ["DUE_LATER"]


def test_a_job_that_fires_seldom_goes_far_again_when_it_has_fired() -> None:
    world = far_world(1)
    job = world.create(every(2 * DAY_MS))
    assert places(world, job) == "DUE_LATER"
    world.ok(PromoteDue(TODAY + 3, 100))
    assert places(world, world.fire(job)) == "DUE_LATER"


def test_moved_and_edited_in_one_entry() -> None:
    world = far_world()
    job = world.create(at(in_days(3)))
    world.run(
        c.SetJobState(job.id, JobState.SUSPENDED),
        c.SetJobState(job.id, JobState.SCHEDULED),
        PromoteDue(TODAY + 4, 10),
        c.SetJobState(job.id, JobState.SUSPENDED),
        c.SetJobState(job.id, JobState.SCHEDULED),
    )
    assert places(world, job) == "DUE"
    assert world.in_one_batch() == world.view.dump()


# ---------------------------------------------------------------- lists


def mixed_world(r: random.Random) -> World:
    world = World()
    for days in (0, 2, 4):  # before there is DUE_LATER, and while it comes nearer
        for _ in range(25):
            world.forward(r.choice([0, 0, 1]))
            world.create(at(in_days(r.choice([0, 1, 2, 3, 4, 5, 9, 40]), r.choice([0, 1, 2, r.randrange(DAY_MS)]))))
        world.ok(PromoteDue(TODAY + days, r.choice([1, 3, 100])))
    return world


def in_order(world: World, way: Walk, last: bytes | None, r: random.Random, reverse: bool) -> list[bytes]:
    """Returns the keys of all pages, some of them of a look at a few rows of DUE_LATER."""
    keys: list[bytes] = []
    while True:
        far = DueLaterFirst(way, last, reverse=reverse, count=r.choice([1, 2, 5, 1_000]))
        while not far.read_rows(world.view, r.choice([1, 3, 1_000])):
            pass
        rows, end = far.rows(world.view)
        found = list(rows)
        assert all(last is None or (key < last if reverse else key > last) for key in found)
        keys += found
        if end is None:
            return keys
        assert found[-1] == end
        last = end


@pytest.mark.parametrize("reverse", [False, True])
def test_lists_by_next_fire_time_are_in_order_wherever_the_rows_are(reverse: bool) -> None:
    seed = random.getrandbits(32)
    print("seed", seed)
    r = random.Random(seed)
    world = mixed_world(r)
    assert world.count(Table.DUE_LATER) > 5
    jobs = [decode_job(raw) for _, raw in world.view.scan(Table.JOBS)]
    times = [job.fire_at_ms for job in jobs if job.fire_at_ms is not None]
    for _ in range(100):
        wanted = JobFilter(
            next_from_ms=r.choice([None, 0, r.choice(times), r.choice(times) + 1]),
            next_to_ms=r.choice([None, r.choice(times), r.choice(times) + 1]),
        )
        if wanted.is_empty:
            continue
        expected = sorted(
            (due_key(job.fire_at_ms, job.id) for job in jobs if job.fire_at_ms and match(wanted, encoded(world, job))),
            reverse=reverse,
        )
        way = walk(wanted)
        last = r.choice([None, None, *expected])
        behind = [key for key in expected if last is None or (key < last if reverse else key > last)]
        assert in_order(world, way, last, r, reverse) == behind
        near = DueLaterFirst(way, last, reverse=reverse, count=1).walk_before(world.view)
        if near is not None:  # what it leaves out is behind what it has
            first = [key for key, _ in near.rows(world.view, last, reverse=reverse)]
            assert first == behind[: len(first)]
        else:
            assert [key for key, _ in way.rows(world.view, last, reverse=reverse)] == behind
        keys = [key for part in way.parts for key, _ in part.rows(world.view) if matches(world, wanted, part, key)]
        assert sorted(key[-8:] for key in keys) == sorted(key[8:] for key in expected)


def encoded(world: World, job: Job) -> bytes:
    raw = world.view.get(Table.JOBS, u64(job.id))
    assert raw is not None
    return raw


def matches(world: World, wanted: JobFilter, part: Walk, key: bytes) -> bool:
    raw = part.job(world.view, key, b"")
    return raw is not None and match(wanted, raw) is not None


def test_a_row_that_comes_near_between_two_looks_is_listed_once() -> None:
    world = far_world()
    jobs = [world.create(at(in_days(3, i))) for i in range(3)]
    far = DueLaterFirst(walk(JobFilter(next_from_ms=0)), None, reverse=False, count=10)
    assert far.read_rows(world.view, 100)
    world.ok(PromoteDue(TODAY + 4, 2))
    rows, end = far.rows(world.view)
    assert list(rows) == [due_key(in_days(3, i), job.id) for i, job in enumerate(jobs)]
    assert end is None


def test_the_last_day_there_is_takes_all_that_is_later() -> None:
    assert due_later_key(2**63, 7) == b"\xff" * 4 + u64(7)
    world = far_world()
    world.ok(PromoteDue(2**63, 10))
    assert places(world, world.create(at(in_days(4_000)))) == "DUE"
