"""How much a test tries: all of it, or a share where `./scripts/test quick` or all of `./scripts/test` runs."""

from __future__ import annotations

import os
import random
from typing import TypeVar

T = TypeVar("T")
TESTS = os.environ.get("RAFTSCHED_TESTS", "")
_PARTS = {"quick": 20, "share": 4}  # of which one is tried; new ones in each run

SHARED = TESTS in _PARTS


def examples(count: int) -> int:
    """The number of examples to try: `count`, or in a quick run a twentieth, in a shared run a quarter of it (5 at the
    least)."""
    return max(5, count // _PARTS[TESTS]) if SHARED else count


def a_share(all_of_them: list[T], part: int) -> list[T]:
    """Returns those to try: all, or in a quick or shared run one of `part`, others in each run, in their order. What
    fails is tried again by its name with pytest itself, which tries all."""
    if not SHARED:
        return all_of_them
    count = max(1, len(all_of_them) // part)
    chosen = set(random.SystemRandom().sample(range(len(all_of_them)), count))
    return [one for number, one in enumerate(all_of_them) if number in chosen]


def some(all_of_them: list[T]) -> list[T]:
    """Returns those to try: all, or in a quick or shared run one, another in each run."""
    return [random.SystemRandom().choice(all_of_them)] if SHARED else all_of_them
