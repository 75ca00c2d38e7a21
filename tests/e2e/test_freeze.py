"""The least share of scripts/freeze: guards of runs are stopped for longer than a lease and its margin, which are 6.25
seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

FREEZE = Path(__file__).resolve().parents[2] / "scripts" / "freeze.py"


def test_what_a_stopped_node_ran_is_dead_before_it_runs_again() -> None:
    command = [sys.executable, str(FREEZE), "--seconds", "8", "--jobs", "4", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # the seed is in there
