"""The benchmarks work, and what must hold holds; how fast anything is does not matter here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench.py"


def bench(*arguments: str) -> dict[str, Any]:
    """The last figure that is printed."""
    done = subprocess.run([sys.executable, BENCH, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figure: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figure


def test_failover_loses_nothing() -> None:
    found = bench("failover", "--kills", "2")
    assert found["kills"] == 2
    assert found["acknowledged_writes"] > 0
    assert found["lost_acknowledged_writes"] == 0


@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="the shim needs a C compiler")
def test_slow_flushes_reach_the_store() -> None:
    found = bench("slowdisk", "--rounds", "1", "--seconds", "0.5", "--delay-ms", "20")
    assert found["flushes"] > 0
    assert found["dsync_writes"] > 0


def test_a_node_catches_up() -> None:
    found = bench("catchup", "--jobs", "2000", "--seconds", "1", "--per-second", "100")
    assert found["seconds"] > 0


def test_all_that_is_due_starts_though_the_leader_is_killed() -> None:
    found = bench("lateness", "--per-second", "20", "--seconds", "6", "--kill", "only")
    assert found["started"] == found["due"] > 0
    assert found["early"] == 0, "nothing starts before its time"


def test_all_jobs_are_paused_by_one_call_and_listed_once() -> None:
    found = bench("bulk", "--jobs", "1500", "--per-second", "20")
    assert found["jobs"] == 1500


def test_creates_through_the_client() -> None:
    found = bench("sdk", "--seconds", "0.3")
    assert found["in_flight"] == 1_000
    assert found["per_second"] > 0
