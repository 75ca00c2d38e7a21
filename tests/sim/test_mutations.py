"""Each guard is worth something: a rotating few are taken out in every test run, and the simulator must miss them."""

from __future__ import annotations

import ast
import multiprocessing
import os
import random
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from raftsched.raft.guards import Guards
from tests.sim.many import at_once, begin
from tests.sim.mutations import MUTATIONS, Found, hunt, intact
from tests.sim.profiles import PROFILES

BUDGET_S = float(os.environ.get("RAFTSCHED_MUTATION_SECONDS", "40"))  # wall time on all cores
HUNT = 500  # seeds at most: even what one seed in twenty shows is not missed by chance; mostly the time ends first
WHOLE = 5  # seeds at most of the same profile with the guard in
ROOT = Path(__file__).parent.parent.parent


def test_every_guard_is_in_the_table() -> None:
    assert set(MUTATIONS) == {field.name for field in fields(Guards)}
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


def _look(job: tuple[str, int]) -> tuple[Found, list[str]]:
    """Without the guard, and as many of the same seeds with it."""
    guard, first = job
    found = hunt(guard, first, HUNT)
    return found, [
        f"{violation}\n  {task.command()}" for task, violation in intact(guard, first, min(found.tried, WHOLE))
    ]


@pytest.mark.timeout(600)
def test_a_few_guards_are_missed_when_they_are_out(record_property: Callable[[str, object], None]) -> None:
    """Other guards and other seeds in every run; scripts/simulate --mutations takes them all."""
    first = random.SystemRandom().getrandbits(32)
    guards = [name for name, mutation in MUTATIONS.items() if mutation.test is None]
    random.Random(first).shuffle(guards)
    until = time.monotonic() + BUDGET_S
    seen: list[Found] = []
    with multiprocessing.get_context("spawn").Pool(at_once(), begin) as pool:
        results = pool.imap_unordered(_look, [(guard, first) for guard in guards])
        try:
            while True:
                found, broken = results.next(max(0.0, until - time.monotonic()) if seen else None)  # one at least
                assert not broken, "with all guards in:\n" + "\n".join(broken)
                assert found.caught, f"first seed {first}: {found.line()}"
                seen.append(found)
        except (StopIteration, multiprocessing.TimeoutError):
            pass
    names = ", ".join(found.guard for found in seen)
    record_property("simulator", f"{len(seen)} guards missed when out, first seed {first}: {names}")
