"""A bounded share of scripts/endurance: real processes, real faults, every run accounted for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ENDURANCE = Path(__file__).resolve().parents[2] / "scripts" / "endurance.py"


def test_jobs_live_through_faults_and_everything_is_accounted_for() -> None:
    command = [sys.executable, str(ENDURANCE), "--seconds", "6", "--jobs", "24"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # the seed is in there
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["held"] is True
    assert told["violations"] == 0
    assert told["attempts_lost"] > 0
    assert told["runs_that_wrote_their_end"] > 0
