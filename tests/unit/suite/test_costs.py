"""What is recorded of tests, and what is made of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.suite import records
from scripts.suite.bundles import ROOT
from scripts.suite.flaky import busy, flaky

TESTS = """
import os, subprocess, sys, pytest
from tests.support.started import started
SPIN = "import time\\nwhile time.process_time() < 0.3: pass"

@pytest.fixture(scope="module")
def dear():
    subprocess.run([sys.executable, "-c", SPIN], check=True)

def test_passes(dear): started("node")
def test_fails(): assert os.environ.get("GOOD")
def test_is_skipped(): pytest.skip("no such thing")
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[records.Record]:
    """Returns what was recorded of these tests."""
    tmp_path = tmp_path_factory.mktemp("costs")
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.costs", "-p", "no:cacheprovider", "--rootdir"]
    folder = tmp_path / "records"
    folder.mkdir()
    environment = {**os.environ, "RAFTSCHED_TEST_RECORDS": str(folder), "RAFTSCHED_TEST_LANE": "1: some"}
    done = subprocess.run(
        [*command, str(tmp_path), str(file)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return records.read(folder)


def test_each_test_has_its_outcome_its_time_and_its_lane(found: list[records.Record]) -> None:
    outcomes = {test["name"].partition("::")[2]: test["outcome"] for test in records.tests(found)}
    assert outcomes == {"test_passes": "passed", "test_fails": "failed", "test_is_skipped": "skipped"}
    assert {record["lane"] for record in found} == {"1: some"}
    first = next(test for test in records.tests(found) if test["name"].endswith("test_passes"))
    assert first["cpu_s"] >= 0.3  # of a process that it waited for
    fixture = next(record for record in found if record["kind"] == "fixture" and record["name"] == "dear")
    assert fixture["cpu_s"] >= 0.3
    assert fixture["scope"] == "module"
    assert records.by_kind(found) == [("node", 1)]


def test_the_dearest_are_named_and_folders_added_up(found: list[records.Record]) -> None:
    table = records.dearest(found, 2).splitlines()
    assert len(table) == 3
    assert {line.split()[-1] for line in table[1:]} & {"test_some.py::test_passes"}
    text = records.summary(found)
    assert "3 tests  all" in text
    assert "Started: 1 node" in text


def test_durations_are_kept_by_file(found: list[records.Record], tmp_path: Path) -> None:
    durations = records.durations(found)
    assert list(durations) == ["test_some.py"]
    kept = tmp_path / "durations.json"
    records.write_durations(kept, durations)
    assert json.loads(kept.read_text()) == {"test_some.py": list(durations["test_some.py"])}


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"kind": "started", "what": "node", "test": ""}\n{"kind": "tes')
    assert records.by_kind(records.read(tmp_path)) == [("node", 1)]


@pytest.mark.slow
def test_flaky_tells_each_failure_with_its_seed_and_log(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    said: list[str] = []
    flaps = tmp_path / "test_flaps.py"
    flaps.write_text(
        "import pathlib\n"
        "def test_good(): pass\n"
        "def test_flaps():\n"
        "    file = pathlib.Path(__file__).with_name('was')\n"
        "    assert file.exists() or file.write_text('x') == 0\n"
    )
    command = (sys.executable, "-m", "pytest", "-p", "tests.support.costs", "-p", "no:cacheprovider")
    code = flaky([f"{flaps}::test_flaps", f"{flaps}::test_good"], 2, 0, command, folder, said.append)
    assert code == 1
    failed = [line for line in said if "test_flaps.py::test_flaps" in line]
    assert len(failed) == 1
    assert "1 of 2" in failed[0]
    assert "seed " in failed[0]
    assert "round-1" in failed[0]
    other = tmp_path / "other"
    other.mkdir()
    assert flaky([f"{flaps}::test_good"], 1, 0, command, other, said.append) == 0


def test_cores_are_busy_while_it_runs() -> None:
    with busy(2) as pids:
        assert all((Path("/proc") / str(pid)).exists() for pid in pids)
    assert not any((Path("/proc") / str(pid)).exists() for pid in pids)
