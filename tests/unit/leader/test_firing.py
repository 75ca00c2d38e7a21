"""How many instances a fire may make, as the leader estimates it before it proposes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from raftsched.bounds import HOUR_MS
from raftsched.core.commands import Fire
from raftsched.core.model import Misfire, MisfirePolicy, Overlap
from raftsched.core.rules.run_keys import Concurrency
from raftsched.leader.due.firing import PermitsLeft, fire_command, runs_at_most, startable, times_due
from raftsched.leader.due.triggers import CalendarJob, with_calendars
from tests.support.memory_view import MemoryView, World, at, cron, every
from tests.support.scheduler import schedule, several

SECOND = 1000


@pytest.mark.parametrize("policy", list(MisfirePolicy))
@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("grace_ms", [0, 5 * SECOND, HOUR_MS])
def test_no_fire_makes_more(policy: MisfirePolicy, overlap: Overlap, grace_ms: int) -> None:
    world = World()
    world.settings(catch_up_max=8)
    job = world.create(every(SECOND), overlap=overlap, misfire=Misfire(policy, grace_ms))
    for outage in (0, 3, 20):
        world.forward((1 + outage) * SECOND)
        job = world.job(job.id)
        command = fire_command(CalendarJob(job, None), world.now, 8)
        assert isinstance(command, Fire)
        most = runs_at_most(job, times_due(job, command, world.now), 8)
        before = len([row for row in world.instances(job.id) if not row.gap_count])
        world.ok(command)
        made = len([row for row in world.instances(job.id) if not row.gap_count]) - before
        assert made <= most <= 8


@pytest.mark.parametrize("policy", list(MisfirePolicy))
@pytest.mark.parametrize("overlap", list(Overlap))
def test_no_fire_of_several_triggers_makes_more(policy: MisfirePolicy, overlap: Overlap) -> None:
    world = World()
    world.settings(catch_up_max=8)
    triggers = several(every(SECOND, id="a"), every(3 * SECOND, id="b"), cron("* * * * *", id="c"))
    job = world.create(overlap=overlap, misfire=Misfire(policy, 0), **triggers)  # type: ignore[arg-type]
    for outage in (0, 3, 20, 70):
        schedule(world)
        world.forward((1 + outage) * SECOND)
        job = world.job(job.id)
        command = fire_command(with_calendars(world.view, job), world.now, 8)
        assert isinstance(command, Fire)
        most = runs_at_most(job, times_due(job, command, world.now), 8)
        before = len([row for row in world.instances(job.id) if not row.gap_count])
        world.ok(command)
        made = len([row for row in world.instances(job.id) if not row.gap_count]) - before
        assert made <= most <= 8


def test_a_time_of_two_triggers_is_one_that_is_due() -> None:
    world = World()
    job = world.create(**several(every(SECOND, id="a"), every(SECOND, id="b")))  # type: ignore[arg-type]
    world.forward(SECOND)
    command = fire_command(with_calendars(world.view, world.job(job.id)), world.now, 8)
    assert isinstance(command, Fire)
    assert times_due(world.job(job.id), command, world.now) == 1


def test_what_finds_no_permit_of_its_key_is_not_startable() -> None:
    world = World()

    @contextmanager
    def read() -> Iterator[MemoryView]:
        yield world.view

    def found() -> list[bool]:
        permits = PermitsLeft(read, jobs, world.now)
        return [startable(job, permits) is not None for job in jobs]

    limits = [
        *[Concurrency("a", "a", 2)] * 3,
        *[Concurrency("b", "b", 0, 1, HOUR_MS)] * 2,
        None,
        Concurrency("{job}", "\0", 1),
    ]
    jobs = [world.create(at(world.now + SECOND), concurrency=one) for one in limits]
    assert found() == [True, True, False, True, False, True, True]
    manual = world.create(overlap=Overlap.ALLOW, concurrency=Concurrency("a", "a", 2))
    for request in (1, 2):
        world.run_now(manual, request)
    assert found() == [False, False, False, True, False, True, True]
    world.run_now(manual, 3)  # it waits in line: nobody passes it
    jobs = [world.create(at(world.now + SECOND), concurrency=Concurrency("a", "a", 9))]
    assert found() == [False]
