"""Bounded shares of scripts/rolling: nodes are upgraded under six jobs a second, taken back, and upgraded for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.releases import RELEASES

pytestmark = pytest.mark.e2e

ROLLING = Path(__file__).resolve().parents[2] / "scripts" / "rolling.py"


def test_an_upgrade_from_the_last_release_and_the_way_back_cost_no_run_an_attempt(tmp_path: Path) -> None:
    last = RELEASES[-1]
    if last.unpack_source(tmp_path) is None:
        pytest.skip(f"this checkout has not the commit of {last.version}, {last.commit}: it is shallow, or no clone")
    done = rolled("--upgrade", "--from", last.version, "--run", "1")
    assert "restarts 9," in done


def test_an_upgrade_to_a_version_that_knows_more_costs_no_run_an_attempt() -> None:
    assert "restarts 3," in rolled("--upgrade", "--straight", "--run", "1")


def rolled(*arguments: str) -> str:
    """Returns what it printed."""
    command = [sys.executable, str(ROLLING), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "handed back after they began 0" in done.stdout, done.stdout
    return done.stdout
