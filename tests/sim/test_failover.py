"""How long a cluster is without a leader when its leader is killed, and nothing else is wrong: in virtual time."""

from __future__ import annotations

import random

import pytest

from raftsched.raft.options import RaftOptions
from tests.sim.profiles import Profile
from tests.sim.world import World, scratch

# Those who lost the leader's connection stand within half a second; where two that do so at once both failed, the next
# election would be due a second or two later.
WITHIN_S = 1.2


QUIET = {"quiet": Profile(faults={}, swarm=False, options=RaftOptions(), clients=2, think_s=0.2)}


class Quiet(World):
    profiles = QUIET


@pytest.mark.parametrize(("nodes", "kills"), [(3, 12), (5, 4)])
def test_a_killed_leader_is_soon_followed_by_another(nodes: int, kills: int) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with scratch() as directory:
        world = Quiet(seed, nodes, "quiet", directory)
        try:
            for machine in world.machines.values():
                world.scheduler.at(rng.uniform(0, 0.2), machine.start)
            world.clients.start()
            took = [fail_over(world, rng) for _ in range(kills)]
        finally:
            world.close()
    assert max(took) < WITHIN_S, took


def led(world: World) -> bool:
    leader = world.leader()
    return leader is not None and leader.raft is not None and leader.raft.leading


def fail_over(world: World, rng: random.Random) -> float:
    """Kills the leader of a cluster in which all is well; virtual seconds until another one leads."""
    assert world.go(15.0, lambda: led(world))
    world.go(3.0 + rng.uniform(0.0, 0.5))
    killed = world.leader()
    assert killed is not None
    since = world.scheduler.now
    killed.kill()
    assert world.go(15.0, lambda: led(world) and world.leader() is not killed)
    took = world.scheduler.now - since
    killed.start()
    return took
