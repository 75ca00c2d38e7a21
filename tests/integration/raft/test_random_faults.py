"""Three replicas under random faults on virtual time: agreement, no acknowledged write lost, and life after calm."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from raftsched.raft.options import RaftOptions
from tests.support.raft_net import OPTIONS, Net, Violation

CPU_SECONDS = 12.0
STORM_S = 15.0
CALM_S = 20.0


def storm(net: Net, seconds: float) -> None:
    rng, names = net.rng, net.names
    end = net.now + seconds

    def client() -> None:
        if net.now < end:
            net.at(rng.expovariate(20), client)
            for _ in range(rng.choice([1, 1, 8])):
                if net.nodes:
                    net.propose(rng.choice(sorted(net.nodes)))

    def nemesis() -> None:
        if net.now >= end:
            return
        net.at(rng.expovariate(2.5), nemesis)
        net.faults += 1
        leader = net.leader()
        some = leader.name if leader is not None and rng.random() < 0.5 else rng.choice(names)
        other = rng.choice([name for name in names if name != some])
        match rng.choice(["kill", "reset", "reset", "cut", "isolate", "pause", "hand over", "kill all", "slow disk"]):
            case "kill":
                net.kill(some)
                net.at(rng.uniform(0.1, 3), net.start, some)
            case "reset":
                net.disconnect(some, other)
            case "cut":
                net.partition(some, other)
                net.at(rng.uniform(0.2, 5), net.heal, some, other)
            case "isolate":
                for name in names:
                    if name != some:
                        net.partition(some, name)
                        net.at(rng.uniform(1, 6), net.heal, some, name)
            case "pause":
                if some in net.nodes:
                    net.nodes[some].paused_until = net.now + rng.uniform(0.3, 4)
            case "kill all":
                for name in names:
                    net.kill(name)
                    net.at(rng.uniform(0.05, 1.5), net.start, name)
            case "slow disk":
                net.slowness = {some: 20.0}
            case "hand over":
                if leader is not None:
                    leader.replica.step_down()

    net.at(1.0, client)
    net.at(1.5, nemesis)
    net.run(seconds)


def calm(net: Net) -> None:
    for a, b in list(net.cut):
        net.heal(a, b)
    for name in net.names:
        net.start(name)
        net.nodes[name].paused_until = 0.0
    net.slowness.clear()
    stores = net.stores.values()
    last: set[int] = set()

    def ask() -> None:
        """Again and again: a snapshot that jumps over one of these answers "unknown outcome"."""
        if not last & net.acknowledged:
            last.add(net.propose(net.names[0], timeout=CALM_S))
            net.at(1.0, ask)

    def settled() -> bool:
        return len({store.applied_index for store in stores}) == 1 and bool(last & net.acknowledged)

    net.run(CALM_S / 2)
    ask()
    if not net.run(CALM_S, settled):
        where = {name: node.replica.engine.role for name, node in net.nodes.items()}
        raise Violation(f"no progress after calm: {where}, applied {[s.applied_index for s in stores]}")
    net.check_all()


@pytest.mark.parametrize(
    ("names", "options"),
    [
        ("abc", OPTIONS),
        ("abcde", OPTIONS),
        ("abc", replace(OPTIONS, keep_entries=3, memory_max_entries=4)),  # snapshots all the time
    ],
    ids=["three", "five", "snapshots"],
)
def test_random_faults(tmp_path: Path, names: str, options: RaftOptions) -> None:
    started, rounds, acknowledged, faults = time.process_time(), 0, 0, 0
    while time.process_time() - started < CPU_SECONDS / 3 or rounds == 0:
        seed = random.SystemRandom().getrandbits(32)
        net = Net(tmp_path / str(seed), seed, names, options=options)
        try:
            storm(net, STORM_S)
            calm(net)
        except Exception as error:
            pytest.fail(f"seed {seed} with {names}, {options.keep_entries} kept: {error!r}")
        rounds, acknowledged, faults = rounds + 1, acknowledged + len(net.acknowledged), faults + net.faults
    print(f"{names}: {rounds} rounds, {faults} faults, {acknowledged} acknowledged writes")
    assert acknowledged > 0
