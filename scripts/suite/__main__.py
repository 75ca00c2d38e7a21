"""Checks and tests; without an argument everything, as CI runs it.

  ./scripts/test              everything, but for the parts whose subject has not changed since they ran; it names them
  ./scripts/test quick        style, types, unit and property tests without the slow ones (a minute)
  ./scripts/test changed [BASE]   what depends on what was changed since BASE (default: where the branch left origin)
  ./scripts/test flaky [TESTS] [--times N] [--load CORES]   tests again and again, beside busy cores, with fresh seeds
  ./scripts/test release      everything without exception; keeps what the parts ran with
  ./scripts/test api          everything about the API, in this process and over sockets
  ./scripts/test browser      the page in Chromium, over real nodes
  ./scripts/test faults       the simulators' and the real processes' share of faults
  ./scripts/test durations    keeps the durations of the last run in tests/durations.json, and prints its costs
  ./scripts/test tests/unit -k cron      anything else is pytest's

Each run keeps what its tests cost, and the output of each pytest process, in .test-runs/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from scripts.suite import parts, records, selection
from scripts.suite.bundles import KEPT, ROOT, Bundle, bundles, files_of_tests, kept
from scripts.suite.flaky import flaky
from scripts.suite.pool import Ended, Pool, Stopped

RUNS = ROOT / ".test-runs"
RUNS_KEPT = 10
PYTHON = sys.executable
PYTEST = (PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:anyio", "--timeout", "1200")
# The simulators' share of a run of everything, in seconds of processor.
SIMULATORS = {
    "RAFTSCHED_SIM_PROCESSES": "1",
    "RAFTSCHED_SIM_SECONDS": "20",
    "RAFTSCHED_MUTATION_SECONDS": "10",
    "RAFTSCHED_JOBS_SIM_SECONDS": "20",
    "RAFTSCHED_JOBS_MUTATION_SECONDS": "20",
}
API = (
    "tests/unit/api",
    "tests/integration/api",
    *(f"tests/e2e/test_{t}.py" for t in ("fuzz_api", "api_model", "sdk", "tls")),
)
FAULTS = (
    "tests/sim",
    "tests/mutants",
    *(
        f"tests/e2e/test_{name}.py"
        for name in ("faults", "freeze", "rolling", "endurance", "between_nodes", "full_disk", "under_faults")
    ),
)
STYLE = (
    Bundle("style", ("bash", "-c", ".venv/bin/ruff check . && .venv/bin/ruff format --check ."), 3.0, 3.0),
    Bundle("types", (PYTHON, "-m", "scripts.suite.types"), 60.0, 55.0),
)
SECURITY = (
    Bundle("known weaknesses", (".venv/bin/bandit", "-q", "-c", "pyproject.toml", "-r", "raftsched"), 15.0, 15.0),
    Bundle("dependencies", (PYTHON, "scripts/audit_dependencies.py"), 5.0, 1.0),
)


def say(line: str) -> None:
    print(line, flush=True)


class Installing:
    """Gets Chromium, Prometheus, Helm and Redis meanwhile. Tests that need one wait for it, or are skipped."""

    def __init__(self) -> None:
        self._over: set[str] = set()
        for need, file in (("browser", "chromium"), ("prometheus", "prometheus"), ("helm", "helm"), ("redis", "redis")):
            threading.Thread(target=self._install, args=(need, file), daemon=True).start()

    def _install(self, need: str, file: str) -> None:
        subprocess.run(["bash", "-c", f"source scripts/{file}.sh; install_{file}"], cwd=ROOT, check=False)
        self._over.add(need)

    def ready(self, need: str) -> bool:
        return need in self._over


def new_folder() -> Path:
    """Returns an empty folder for this run. The oldest are removed."""
    RUNS.mkdir(exist_ok=True)
    for old in sorted(RUNS.iterdir())[: -RUNS_KEPT + 1]:
        shutil.rmtree(old, ignore_errors=True)
    folder = RUNS / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir()
    return folder


def environment(folder: Path, share: str) -> dict[str, str]:
    """Returns the environment of the tests. `share`: how much random tests try (tests/support/amounts.py)."""
    return {**os.environ, "RAFTSCHED_TEST_RECORDS": str(folder), "RAFTSCHED_TESTS": share, **SIMULATORS}


def run(chosen: list[Bundle], share: str, *, tables: bool) -> int:
    folder = new_folder()
    installing = Installing() if any(bundle.needs for bundle in chosen) else None
    pool = Pool(folder, environment(folder, share), say, installing.ready if installing else lambda _: True)
    began = time.monotonic()
    try:
        ended = pool.run(chosen)
    except Stopped as stopped:
        say(f"stopped; the output so far is in {folder.relative_to(ROOT)}")
        return 128 + stopped.number
    return report(ended, folder, time.monotonic() - began, tables=tables)


def report(ended: list[Ended], folder: Path, took_s: float, *, tables: bool) -> int:
    """Prints what failed with its output, what was skipped and why, and what it all cost. Returns the exit code."""
    bad = [end for end in ended if not end.good]
    for end in bad:
        say(f"\n== {end.bundle.name} failed: {' '.join(end.bundle.command)}")
        say(end.log.read_text(errors="replace").rstrip())
    found = records.read(folder)
    if tables:
        say(f"\n{records.summary(found)}\n")
    for end in sorted(ended, key=lambda end: end.bundle.name):
        for line in end.log.read_text(errors="replace").splitlines():
            if line.startswith(("SKIPPED", "simulator:", "skipped:")):
                say(line)
    count = len(records.tests(found))
    outcomes = {
        outcome: sum(test["outcome"] == outcome for test in records.tests(found)) for outcome in ("failed", "skipped")
    }
    say(
        f"{count:,} tests in {took_s / 60:.1f} min: {outcomes['failed']} failed, {outcomes['skipped']} skipped"
        f" (logs and costs: {folder.relative_to(ROOT)})"
    )
    if bad:
        say("FAILED: " + ", ".join(end.bundle.name for end in bad))
    return 1 if bad else 0


def everything(*, release: bool) -> int:
    left_out = [] if release else parts.unchanged()
    files = set(files_of_tests(["tests"]))
    for part in left_out:
        say(f"left out, for nothing it is about has changed since it ran: {part.name} ({', '.join(part.tests)})")
        files -= set(files_of_tests(part.tests))
    code = run([*STYLE, *SECURITY, *bundles(files, kept(), PYTEST)], "share", tables=True)
    if release and code == 0:
        parts.keep()
        say(f"{parts.KEPT} says now what the parts ran with; commit it")
    return code


def quick() -> int:
    files = files_of_tests(["tests/unit", "tests/property"])
    return run([*STYLE, *bundles(files, kept(), (*PYTEST, "-m", "not slow"), 20.0)], "quick", tables=False)


def changed(base: str | None) -> int:
    try:
        differing = selection.changed_files(base)
    except selection.NoBase as error:
        say(str(error))
        return 2
    if not differing:
        say("nothing was changed")
        return 0
    files = selection.select(differing)
    if files is None:
        say("a change concerns everything")
        return everything(release=False)
    say(f"{len(differing)} files were changed, {len(files)} test files depend on them")
    return run([*STYLE, *bundles(files, kept(), PYTEST)], "share", tables=False)


def durations() -> int:
    for folder in sorted(RUNS.iterdir(), reverse=True) if RUNS.exists() else ():
        if found := records.read(folder):
            there = {file: took for file, took in kept().items() if (ROOT / file).exists()}
            records.write_durations(KEPT, {**there, **records.durations(found)})
            say(records.summary(found))
            return 0
    say("there was no run yet; ./scripts/test makes one")
    return 2


def main() -> int:
    words = sys.argv[1:]
    command, rest = (words[0], words[1:]) if words else ("all", [])
    os.chdir(ROOT)
    match command:
        case "all" | "release" if not rest:
            return everything(release=command == "release")
        case "quick" if not rest:
            return quick()
        case "api" | "browser" | "faults" if not rest:
            places = {"api": API, "browser": ("tests/e2e/browser",), "faults": FAULTS}[command]
            return run(bundles(files_of_tests(places), kept(), PYTEST), "", tables=False)
        case "changed" if len(rest) <= 1:
            return changed(*rest or [None])
        case "durations" if not rest:
            return durations()
        case "flaky":
            parser = argparse.ArgumentParser(prog="./scripts/test flaky")
            parser.add_argument("tests", nargs="*", default=["tests/integration", "tests/e2e"])
            parser.add_argument("--times", type=int, default=5, help="rounds (5)")
            parser.add_argument("--load", type=int, default=2, help="cores that are kept busy beside them (2)")
            asked = parser.parse_args(rest)
            os.environ.update({"RAFTSCHED_TESTS": "share", **SIMULATORS})
            try:
                return flaky(asked.tests, asked.times, asked.load, PYTEST, new_folder(), say)
            except Stopped as stopped:
                return 128 + stopped.number
        case "-h" | "--help":
            print(__doc__)
            return 0
        case _:
            return subprocess.call([PYTHON, "-m", "pytest", *words])


if __name__ == "__main__":
    sys.exit(main())
