"""scripts/mutate: makes the mutants, and tells for each who misses the rule."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.mutants.all import MUTANTS
from tests.mutants.mutant import Mutant, make

TEST_S = 900.0  # that a mutant's tests may take
OTHERS = ("unit/raft", "unit/store", "unit/core", "unit/leader")
SEEDS_MAX = 10_000
_FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Missed:
    """`test`: the first one that failed; None: none did. `hunts`: (seeds tried, what was found) of each."""

    mutant: Mutant
    test: str | None
    test_s: float
    hunts: tuple[tuple[int, str | None], ...]
    hunts_s: float

    @property
    def found(self) -> list[int]:
        return [tried for tried, violation in self.hunts if violation is not None]

    @property
    def caught(self) -> bool:
        return self.test is not None or bool(self.found)

    def row(self) -> str:
        test = f"{self.test} ({self.test_s:.0f} s)" if self.test else f"no test ({self.test_s:.0f} s)"
        if not self.hunts:
            seeds = "-"
        elif self.found:
            of = f", {len(self.found)} of {len(self.hunts)} hunts" if len(self.hunts) > 1 else ""
            seeds = f"{median(self.found):g} ({self.mutant.profile}{of}, {self.hunts_s:.0f} s)"
        else:
            seeds = f"none of {sum(tried for tried, _ in self.hunts)} ({self.mutant.profile}, {self.hunts_s:.0f} s)"
        return f"| `{self.mutant.name}` | {self.mutant.rule} | {test} | {seeds} |"


def look(mutant: Mutant, first: int, seconds: float, hunts: int, tests: bool) -> Missed:
    with tempfile.TemporaryDirectory(prefix="raftsched-mutant-") as name:
        directory = Path(name)
        make(mutant, directory)
        began = time.monotonic()
        failed = _first_failure(mutant.name, mutant.tests, directory) if tests else None
        test_s = time.monotonic() - began
        began = time.monotonic()
        found = tuple(_hunts(mutant, directory, first, seconds, hunts)) if mutant.profile else ()
        return Missed(mutant, failed, test_s, found, time.monotonic() - began)


def intact() -> str | None:
    """The first test that fails in a copy as it is: then nothing can be said of mutants."""
    with tempfile.TemporaryDirectory(prefix="raftsched-mutant-") as name:
        make(None, Path(name))
        return _first_failure("as it is", ("unit/harness/test_power_loss.py",), Path(name))


def _first_failure(name: str, first: tuple[str, ...], directory: Path) -> str | None:
    """Of the tests in these places, and then of the others; as `unit/raft/consensus/test_rules.py::test_x`."""
    for places in (first, tuple(place for place in OTHERS if place not in first)):
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        command += ["--timeout", "300", *(f"tests/{place}" for place in places)]
        try:
            ran = _run(command, directory, TEST_S)
        except subprocess.TimeoutExpired:
            return f"{places[0]} (does not end)"
        if ran.returncode == 1:
            failed = _FAILED.search(ran.stdout)
            hangs = " (does not end)" if "Timeout (>" in ran.stdout or "Timeout >" in ran.stdout else ""
            return (failed[1] if failed is not None else places[0]) + hangs
        if ran.returncode != 0:
            raise RuntimeError(f"{name}: the tests do not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return None


def _hunts(mutant: Mutant, directory: Path, first: int, seconds: float, hunts: int) -> Iterator[tuple[int, str | None]]:
    """Each begins with seeds of its own; `seconds` are for all of them."""
    end = time.monotonic() + seconds
    for number in range(hunts):
        left = (end - time.monotonic()) / (hunts - number)
        if left <= 0:
            return
        begin = str((first + number * SEEDS_MAX) % 2**32)
        how = [str(mutant.profile), str(mutant.nodes), str(mutant.seconds), begin, str(SEEDS_MAX), str(left)]
        ran = _run([sys.executable, "-m", "tests.mutants.seeds", *how], directory, None)
        if ran.returncode != 0:
            raise RuntimeError(f"{mutant.name}: the simulator does not run:\n{ran.stderr[-2000:]}")
        said = json.loads(ran.stdout.splitlines()[-1])
        yield said["tried"], said["violation"]


def _run(command: list[str], directory: Path, timeout: float | None) -> subprocess.CompletedProcess[str]:
    """The copy comes before what is installed: it is the working directory of `python -m`."""
    env = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False, timeout=timeout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("--list", action="store_true", help="the rules, and where they are")
    parser.add_argument("--only", metavar="A,B", help="these mutants (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the simulator for each; 0: tests only (60)")
    parser.add_argument("--hunts", type=int, default=1, help="the seconds are shared by so many, for a median (1)")
    parser.add_argument("--no-tests", action="store_true", help="the simulator only")
    parser.add_argument("--first-seed", type=int, help="default: a fresh one, printed")
    parser.add_argument("--processes", type=int, default=0, help="so many mutants at a time (one per core)")
    asked = parser.parse_args()
    if asked.list:
        for mutant in MUTANTS.values():
            print(f"{mutant.name:28} raftsched/{mutant.file:30} {mutant.rule}")
        return 0
    names = asked.only.split(",") if asked.only else list(MUTANTS)
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        parser.error(f"no such mutant: {', '.join(unknown)}; see --list")
    first = random.SystemRandom().getrandbits(32) if asked.first_seed is None else asked.first_seed
    print(
        f"first seed {first}\n\n| mutant | rule | first test that fails | seeds until the simulator does |", flush=True
    )
    print("|---|---|---|---|", flush=True)
    if not asked.no_tests and (broken := intact()) is not None:
        raise SystemExit(f"nothing is taken out yet, and {broken} fails")
    began, caught = time.monotonic(), 0
    with ThreadPoolExecutor(asked.processes or os.cpu_count() or 1) as pool:
        jobs = [
            pool.submit(
                look, MUTANTS[name], first, asked.seconds, asked.hunts if asked.seconds else 0, not asked.no_tests
            )
            for name in names
        ]
        for job in jobs:
            missed = job.result()
            caught += missed.caught
            print(missed.row(), flush=True)
    print(f"\n{caught} of {len(names)} rules missed when out, {time.monotonic() - began:.0f} s")
    return 0 if caught == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
