"""A share of the simulator in every test run: fresh seeds, those that once found something, and its own promises."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.many import Budget, Task, nodes_of, regressions, run_many
from tests.sim.world import simulate
from tests.support.amounts import some

SECONDS = 30.0
BUDGET_S = float(os.environ.get("RAFTSCHED_SIM_SECONDS", "60"))  # processor time
SELDOM_S = 3.0  # of each such profile
HERE = Path(__file__).parent


@pytest.mark.timeout(600)
def test_fresh_seeds(record_property: Callable[[str, object], None]) -> None:
    """Each run of the tests tries others; the first is printed, also when all is well."""
    first = random.SystemRandom().getrandbits(32)
    budget = Budget(BUDGET_S)
    tasks = [Task(seed, nodes_of(seed, "mixed"), SECONDS, "mixed") for seed in range(first, first + 2_000)]
    runs, failed, acknowledged = 0, [], 0
    for task, outcome in run_many(tasks):
        runs += 1
        acknowledged += outcome.acknowledged
        if outcome.violation is not None:
            failed.append(f"{outcome.violation}\n  {task.command()}")
        if budget.spent(outcome.cost_s):
            break
    record_property("simulator", f"{runs} seeds from {first}, {acknowledged} calls acknowledged, {len(failed)} failed")
    assert not failed, "\n".join(failed)
    assert acknowledged > 0


@pytest.mark.parametrize(
    ("profile", "seconds"),
    [("forming", 15.0), ("split-formation", 15.0), ("rolled-back", 15.0), ("untold-moves", 2.0), ("versions", 15.0)],
)
def test_fresh_seeds_of_what_strikes_seldom(
    profile: str, seconds: float, record_property: Callable[[str, object], None]
) -> None:
    """Disks that are lost while a cluster is formed, and disks that go back to an earlier state. Members that move, one
    soon after the other, and are not told where the others are. Nodes of two versions."""
    first = random.SystemRandom().getrandbits(32)
    budget = Budget(SELDOM_S)
    failed, runs = [], 0
    for seed in range(first, first + 1_000):
        task = Task(seed, nodes_of(seed, "mixed") if profile == "rolled-back" else 3, seconds, profile)
        outcome = simulate(task.seed, task.nodes, task.seconds, task.profile)
        runs += 1
        if outcome.violation is not None:
            failed.append(f"{outcome.violation}\n  {task.command()}")
        if budget.spent(outcome.cost_s):
            break
    record_property("simulator", f"{profile}: {runs} seeds from {first}, {len(failed)} failed")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(
    "task", some(regressions(HERE / "regressions.txt")), ids=lambda task: f"{task.seed}-{task.nodes}-{task.profile}"
)
def test_seeds_that_once_failed(task: Task) -> None:
    outcome = simulate(task.seed, task.nodes, task.seconds, task.profile)
    assert outcome.violation is None, f"{outcome.violation}\n  {task.command()}"


def test_one_seed_is_one_run() -> None:
    """Byte for byte, in another process with another hash seed."""
    seed = str(random.SystemRandom().getrandbits(32))
    command = [sys.executable, "-m", "tests.sim", "--seed", seed, "--seconds", "15", "--nodes", "5", "-v"]
    traces = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            cwd=HERE.parent.parent,
            capture_output=True,
            check=False,
        ).stdout
        for hashes in ("0", "4711")
    ]
    assert b"leading" in traces[0], traces[0][-1000:]
    assert traces[0] == traces[1], f"seed {seed} is not one run"
