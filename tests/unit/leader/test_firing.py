"""How many instances a fire may make, as the leader estimates it before it proposes one."""

from __future__ import annotations

import pytest

from raftsched.core.model import HOUR_MS, Misfire, MisfirePolicy, Overlap
from raftsched.leader.firing import fire_command, runs_at_most, times_due
from tests.support.memory_view import World, every

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
        command = fire_command(job, world.now, 8)
        most = runs_at_most(job, times_due(job, command, world.now), 8)
        before = len([row for row in world.instances(job.id) if not row.gap_count])
        world.ok(command)
        made = len([row for row in world.instances(job.id) if not row.gap_count]) - before
        assert made <= most <= 8
