"""Each guard is worth something: a rotating few are taken out in every test run, and the simulator must miss them."""

from __future__ import annotations

import ast
import os
import random
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from raftsched.raft.guards import Guards
from tests.sim.broken import PATCHES
from tests.sim.many import Budget, shown
from tests.sim.mutations import MUTATIONS, hunt, intact
from tests.sim.profiles import PROFILES

BUDGET_S = float(os.environ.get("RAFTSCHED_MUTATION_SECONDS", "20"))  # processor time
ROUNDS = 100  # seeds of each guard at most; mostly the time ends first
ROOT = Path(__file__).parent.parent.parent


def test_every_guard_is_in_the_table() -> None:
    assert set(MUTATIONS) == {field.name for field in fields(Guards)} | set(PATCHES)
    for name, mutation in MUTATIONS.items():
        assert mutation.profile in PROFILES, name
        assert mutation.masked_by is None or mutation.masked_by in MUTATIONS, name
        assert bool(mutation.shows) != bool(mutation.test), (
            f"{name}: either the simulator shows it or a plain test does"
        )


@pytest.mark.parametrize("test", [m.test for m in MUTATIONS.values() if m.test is not None])
def test_what_the_simulator_cannot_show_has_a_plain_test(test: str) -> None:
    path, name = test.split("::")
    tree = ast.parse((ROOT / path).read_text())
    assert name in [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _look(job: tuple[str, int]) -> tuple[str | None, list[str], float]:
    """Runs a seed without the guard and, where that shows the harm, with it."""
    guard, seed = job
    began = time.process_time()
    harmed = bool(hunt(guard, seed, 1).caught)
    whole = intact(guard, seed, 1) if harmed else []
    broken = [f"{violation}\n  {task.command()}" for task, violation in whole]
    return guard if harmed else None, broken, time.process_time() - began


@pytest.mark.timeout(600)
def test_a_few_guards_are_missed_when_they_are_out(record_property: Callable[[str, object], None]) -> None:
    """Other guards and other seeds in every run; scripts/simulate --mutations takes all, for as long as each needs.

    Here a seed of each guard has its turn: many a guard is missed by one seed in twenty, and none is waited for."""
    first = random.SystemRandom().getrandbits(32)
    print("first seed", first)
    guards = [name for name, mutation in MUTATIONS.items() if mutation.test is None]
    random.Random(first).shuffle(guards)
    missed, tried = shown(_look, guards, first, Budget(BUDGET_S), ROUNDS)
    assert missed, f"first seed {first}: {tried} seeds of {len(guards)} guards that were out showed nothing"
    names = ", ".join(sorted(missed))
    record_property("simulator", f"{len(missed)} guards missed when out, first seed {first}: {names}")
