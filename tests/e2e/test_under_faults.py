"""The small edition of jepsen-like/run.py: three real nodes on loopback whose network is cut.

Processes that end, stop or lack room have tests of their own (test_faults, test_freeze, test_full_disk)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.trials.guards import children

RUN = Path(__file__).resolve().parents[2] / "jepsen-like" / "run.py"
SECONDS = 20  # one cut fits for sure: it lasts 12 s at most
CUTS = "partition-leader,partition-one,partition-one-way"


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_everything_promised_holds_while_the_network_is_cut(tmp_path: Path) -> None:
    verdict = tmp_path / "verdict.json"
    command = [sys.executable, str(RUN), "--time", str(SECONDS), "--network", "loopback", "--nemesis", CUTS]
    kept = ["--dir", str(tmp_path / "trial"), "--json", str(verdict)]
    done = subprocess.run([*command, *kept], capture_output=True, text=True, check=False)
    print(done.stdout)  # the seed, and what failed
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("verdict: everything held")
    said = json.loads(verdict.read_text())
    looked_at = {rule["rule"]: rule["looked_at"] for rule in said["rules"]}
    idle = [rule for rule, number in looked_at.items() if number == 0 and rule != "what was refused never runs"]
    assert not idle, f"nothing to look at for: {idle}"
    assert int(said["facts"]["faults"].split(" ")[0]) >= 1


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_one_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    trial = tmp_path / "trial"
    command = [sys.executable, str(RUN), "--network", "loopback", "--nemesis", "stop-worker", "--workload", "once"]
    with subprocess.Popen([*command, "--dir", str(trial)], stdout=subprocess.PIPE, text=True) as harness:
        end = time.monotonic() + 90
        while '"f":"fault"' not in (_text(trial / "history.jsonl")) and time.monotonic() < end:
            time.sleep(0.1)
        assert _processes_of(trial)
        harness.send_signal(signal.SIGTERM)
        out, _ = harness.communicate()
    assert harness.returncode == 130
    assert "verdict: none, it was interrupted" in out
    assert _processes_of(trial) == []


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_nodes_end_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    """Those that it started again as well, with what guards their runs."""
    trial = tmp_path / "trial"
    command = [sys.executable, str(RUN), "--network", "loopback", "--nemesis", "kill-worker", "--workload", "once"]
    with subprocess.Popen([*command, "--dir", str(trial)], stdout=subprocess.DEVNULL) as harness:
        end = time.monotonic() + 90
        while '"f":"healed"' not in (_text(trial / "history.jsonl")) and time.monotonic() < end:
            time.sleep(0.1)
        below = _below(harness.pid)
        assert len(_processes_of(trial)) >= 3
        harness.kill()
    end = time.monotonic() + 60
    while any(_lives(pid, began) for pid, began in below) and time.monotonic() < end:
        time.sleep(0.1)
    left = [pid for pid, began in below if _lives(pid, began)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def _below(pid: int) -> list[tuple[int, str]]:
    """All processes below one, with when each began."""
    found: list[tuple[int, str]] = []
    for child in children(pid):
        found += [(child, _began(child)), *_below(child)]
    return found


def _began(pid: int) -> str:
    """proc(5), stat: nothing for one that is over."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]


def _lives(pid: int, began: str) -> bool:
    return began != "" and _began(pid) == began


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _processes_of(trial: Path) -> list[bytes]:
    """Nodes of it: they name their data directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if f"{trial}/n".encode() in line:
            found.append(line)
    return found
