"""Any calls in any order, through any node, leaders killed in between: the API does what a plain model of it does.

Longer, or again: API_MODEL_SECONDS=600, API_MODEL_SEED=..., API_MODEL_SHRINK=1 for the shortest way to a failure."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.api_machine import ApiMachine
from tests.support.api_model import Caller
from tests.support.cluster import Cluster

SECONDS = float(os.environ.get("API_MODEL_SECONDS", "8"))
ROUND = 10  # machines, for Hypothesis begins with short ones: of two both have next to no step; and
STEPS = 60  # calls of each
CALLS = 500  # at the least, of all, however slow the machine is

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS + 600)]


@pytest.fixture
def paused() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        assert cluster.nodes[0].request("POST", "/v1/cluster/pause", {}).status == 200
        yield cluster


def test_the_api_does_what_a_model_of_it_does(paused: Cluster) -> None:
    number = int(os.environ.get("API_MODEL_SEED") or secrets.randbits(32))
    caller = Caller(paused)

    class Machine(ApiMachine):
        pass

    Machine.cluster, Machine.caller, Machine.kills = paused, caller, True
    phases = [Phase.generate, *([Phase.shrink] if os.environ.get("API_MODEL_SHRINK") else [])]
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline or caller.calls < CALLS:
            print(f"API_MODEL_SEED={number}", flush=True)
            run_state_machine_as_test(
                seed(number)(Machine),
                settings=settings(
                    max_examples=ROUND,
                    stateful_step_count=STEPS,
                    phases=phases,
                    database=None,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
            number += 1
    finally:
        caller.close()
        print(f"{caller.calls} calls, {caller.kills} leaders killed")
