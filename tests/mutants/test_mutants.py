"""Mutants keep up with the source: a rule that has moved is to be found again, or nobody looks after it."""

from __future__ import annotations

import pytest

from tests.mutants.all import MUTANTS
from tests.mutants.mutant import ROOT, Mutant
from tests.sim.profiles import PROFILES

every = pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))


@every
def test_the_rule_is_where_it_was(mutant: Mutant) -> None:
    source = (ROOT / "raftsched" / mutant.file).read_text()
    changed = mutant.applied_to(source)
    assert changed != source
    compile(changed, mutant.file, "exec")


@every
def test_what_is_to_miss_it_is_there(mutant: Mutant) -> None:
    assert mutant.tests
    assert all((ROOT / "tests" / place).exists() for place in mutant.tests)
    assert mutant.profile is None or mutant.profile in PROFILES


def test_a_rule_that_has_moved_is_told() -> None:
    gone = Mutant("gone", "a rule", "raft/consensus/engine.py", "what is not there", "")
    with pytest.raises(ValueError, match=r"gone: raftsched/raft/consensus/engine\.py has 0 times"):
        gone.applied_to("something else")
