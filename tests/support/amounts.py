"""How much a test tries: all of it, or a share where `./scripts/test quick` or all of `./scripts/test` runs."""

from __future__ import annotations

import os
import random
from typing import TypeVar

T = TypeVar("T")
TESTS = os.environ.get("RAFTSCHED_TESTS", "")
_PARTS = {"quick": 20, "share": 3}  # of which one is tried; new ones in each run


def examples(count: int) -> int:
    """The number of examples to try: `count`, or in a quick run a twentieth, in a shared run a third of it (5 at the
    least)."""
    return max(5, count // _PARTS[TESTS]) if TESTS in _PARTS else count


def some(all_of_them: list[T]) -> list[T]:
    """Returns those to try: all, or in a quick or shared run one, another in each run."""
    return [random.SystemRandom().choice(all_of_them)] if TESTS in _PARTS else all_of_them
