"""Runs chosen tests again and again beside busy cores, with fresh seeds; reports each failure with its seed and log."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.suite import records
from scripts.suite.bundles import Bundle, bundles, files_of_tests, kept
from scripts.suite.pool import Ended, Pool


@contextmanager
def busy(cores: int) -> Iterator[list[int]]:
    """Keeps so many cores busy, each by a process of its own, and yields their ids."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield [process.pid for process in spinning]
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def flaky(
    places: list[str], times: int, load: int, pytest: tuple[str, ...], folder: Path, say: Callable[[str], None]
) -> int:
    """Returns 1 when a test failed in one of the rounds. `places` are test files, folders, or single tests."""
    failed: Counter[str] = Counter()
    where: dict[str, str] = {}
    with busy(load):
        for number in range(1, times + 1):
            seed = random.SystemRandom().getrandbits(32)
            round_folder = folder / f"round-{number}"
            round_folder.mkdir()
            say(f"round {number} of {times}, seed {seed}")
            environment = {**os.environ, "RAFTSCHED_TEST_RECORDS": str(round_folder), "PYTHONHASHSEED": str(seed)}
            seeded = (*pytest, f"--hypothesis-seed={seed}")
            ended = Pool(round_folder, environment, say).run(_bundles(places, seeded))
            explained: set[Ended | None] = set()
            broken = {end.bundle.name: end for end in ended if not end.good}
            for test in records.tests(records.read(round_folder)):
                if test["outcome"] == "failed":
                    failed[test["name"]] += 1
                    end = broken.get(test["lane"].partition(": ")[2])
                    explained.add(end)
                    where.setdefault(test["name"], f"seed {seed}, {end.log if end else round_folder}")
            for name, end in broken.items():
                if end not in explained:  # it did not get as far as a test, or not to the end
                    failed[name] += 1
                    where.setdefault(name, f"seed {seed}, {end.log}")
    if not failed:
        say(f"no test failed in {times} rounds beside {load} busy cores")
        return 0
    say(f"failed in {times} rounds beside {load} busy cores:")
    for name, count in failed.most_common():
        say(f"  {count} of {times}  {name}  (first: {where[name]})")
    return 1


def _bundles(places: list[str], pytest: tuple[str, ...]) -> list[Bundle]:
    """Returns bundles of whole files, and one of the tests that are named one by one."""
    single = [place for place in places if "::" in place]
    made = bundles(files_of_tests(place for place in places if "::" not in place), kept(), pytest)
    if single:
        made.append(Bundle("single tests", (*pytest, *single), 60.0, 60.0))
    return made
