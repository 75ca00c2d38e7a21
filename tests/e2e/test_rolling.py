"""A bounded share of scripts/rolling: nodes are upgraded, taken back and upgraded for good under six jobs a second."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROLLING = Path(__file__).resolve().parents[2] / "scripts" / "rolling.py"


def test_an_upgrade_and_the_way_back_cost_no_run_an_attempt() -> None:
    command = [sys.executable, str(ROLLING), "--upgrade", "--run", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "handed back after they began 0" in done.stdout, done.stdout
    assert "restarts 9," in done.stdout
