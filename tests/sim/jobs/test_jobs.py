"""A share of the simulator with jobs in every test run: fresh seeds, those that once found something, one twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.jobs.mutations import MUTATIONS, hunt, intact
from tests.sim.jobs.profiles import PROFILES
from tests.sim.many import Budget, Task, nodes_of, regressions, run_many, shown
from tests.support.amounts import some

SECONDS = 60.0
BUDGET_S = float(os.environ.get("RAFTSCHED_JOBS_SIM_SECONDS", "40"))  # processor time
RULES_BUDGET_S = float(os.environ.get("RAFTSCHED_JOBS_MUTATION_SECONDS", "25"))
ROUNDS = 100  # seeds of each rule at most; mostly the time ends first
ROOT = Path(__file__).parent.parent.parent.parent


@pytest.mark.timeout(600)
def test_fresh_seeds(record_property: Callable[[str, object], None]) -> None:
    """Each run of the tests tries others; the first is printed, also when all is well."""
    first = random.SystemRandom().getrandbits(32)
    budget = Budget(BUDGET_S)
    tasks = []
    for seed in range(first, first + 1_000):
        profile = ("mixed", "workers")[seed % 2]
        tasks.append(Task(seed, nodes_of(seed, "mixed", True), SECONDS, profile, jobs=True))
    count, runs, failed = 0, 0, []
    for task, outcome in run_many(tasks):
        count += 1
        runs += outcome.runs
        if outcome.violation is not None:
            failed.append(f"{outcome.violation}\n  {task.command()}")
        if budget.spent(outcome.cost_s):
            break
    record_property("simulator", f"jobs: {count} seeds from {first}, {runs} runs, {len(failed)} failed")
    assert not failed, "\n".join(failed)
    assert runs > 0


@pytest.mark.parametrize(
    "task",
    some(regressions(Path(__file__).with_name("regressions.txt"), jobs=True)),
    ids=lambda task: f"{task.seed}-{task.nodes}-{task.profile}",
)
def test_seeds_that_once_failed(task: Task) -> None:
    outcome = task.play()
    assert outcome.violation is None, f"{outcome.violation}\n  {task.command()}"


@pytest.mark.parametrize("profile", some(["mixed", "workers"]))
def test_one_seed_is_one_run(profile: str) -> None:
    """Byte for byte, in another process with another hash seed."""
    seed = str(random.SystemRandom().getrandbits(32))
    asked = ["--jobs", "--profile", profile, "--seed", seed, "--seconds", "20", "-v"]
    command = [sys.executable, "-m", "tests.sim", *asked]
    traces = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hashes}, cwd=ROOT, capture_output=True, check=False
        ).stdout
        for hashes in ("0", "4711")
    ]
    assert b" run " in traces[0], traces[0][-1000:]
    assert traces[0] == traces[1], f"seed {seed} is not one run"


# ---------------------------------------------------------------- what each rule is good for


def test_the_profiles_of_rules_are_there() -> None:
    assert {mutation.profile for mutation in MUTATIONS.values()} <= set(PROFILES)


@pytest.mark.parametrize("rule", MUTATIONS)
def test_a_rule_that_is_out_is_in_again_afterwards(rule: str) -> None:
    """And what is patched is there."""
    with MUTATIONS[rule].patch():
        pass


def _look(job: tuple[str, int]) -> tuple[str | None, list[str], float]:
    """Runs a seed without the rule and, where that shows the harm, with it."""
    rule, seed = job
    began = time.process_time()
    harmed = hunt(rule, seed, 1).seed is not None
    broken = intact(rule, seed, 1) if harmed else []
    return rule if harmed else None, broken, time.process_time() - began


@pytest.mark.timeout(600)
def test_a_few_rules_are_missed_when_they_are_out(record_property: Callable[[str, object], None]) -> None:
    """Others in every run, and other seeds; scripts/simulate --jobs --mutations takes all, for as long as each needs.

    Here a seed of each rule has its turn: some show in one seed of twenty, and none is waited for."""
    first = random.SystemRandom().getrandbits(32)
    rules = list(MUTATIONS)
    random.Random(first).shuffle(rules)
    seen, tried = shown(_look, rules, first, Budget(RULES_BUDGET_S), ROUNDS)
    assert seen, f"first seed {first}: {tried} seeds of {len(rules)} rules that were out showed nothing"
    names = ", ".join(sorted(seen))
    record_property("simulator", f"jobs: {len(seen)} rules missed when out, first seed {first}: {names}")
