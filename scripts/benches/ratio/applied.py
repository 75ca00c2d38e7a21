"""What apply_loops prints, by life: it runs in a process of its own, with the apply of the tree that is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOOPS = Path(__file__).with_name("apply_loops.py")
ROUNDS = 150
# By life, its steps. A one-shot is created too; a periodic job is created once for all of its runs.
LIVES = {"one-shot's life": ("create", "fire", "end"), "periodic run": ("periodic-fire", "periodic-end")}


def times(environment: Mapping[str, str]) -> dict[str, float]:
    """Returns the least microseconds of apply, by figure."""
    found = loops(environment, "time", str(ROUNDS))
    return {f"apply, {life}": sum(found[step] for step in steps) for life, steps in LIVES.items()}


def counts(environment: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Returns what is executed for an entry of 50 jobs, by life and kind."""
    found = loops(environment, "count")
    return {life: dict(sum((Counter(found[step]) for step in steps), Counter())) for life, steps in LIVES.items()}


def loops(environment: Mapping[str, str], *arguments: str) -> Any:
    """Returns what apply_loops prints. RuntimeError when it fails; stderr says why."""
    command = [sys.executable, "-P", LOOPS, *arguments]
    told = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, check=False)
    if told.returncode:
        raise RuntimeError("apply's loops failed")
    return json.loads(told.stdout)
