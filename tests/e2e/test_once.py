"""The same request fifty times at once over all nodes during a kill -9 of the leader: done once, and never denied."""

from __future__ import annotations

import random
import secrets

import pytest

from scripts.trials.once import KINDS, run_round
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e


def test_sent_fifty_times_while_the_leader_is_killed_it_is_done_once() -> None:
    """A job by an Idempotency-Key, or by a name without one; a batch, a run, and a time left out, by their keys."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Cluster(3) as cluster:
        rounds = [run_round(cluster, rng, kind) for kind in KINDS]
    for one in rounds:
        print(one)
    assert [what for one in rounds for what in one.wrong] == []
    assert any(one.met for one in rounds), "no request met the kill"
