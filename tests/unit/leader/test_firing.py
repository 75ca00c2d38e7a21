"""How many instances a fire may make, as the leader estimates it before it proposes one."""

from __future__ import annotations

import pytest

from raftsched.core.commands import Fire
from raftsched.core.model import HOUR_MS, Misfire, MisfirePolicy, Overlap
from raftsched.leader.firing import fire_command, runs_at_most, times_due
from raftsched.leader.triggers import CalendarJob, with_calendars
from tests.support.memory_view import World, cron, every
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
