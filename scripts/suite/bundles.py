"""Cuts the test files into bundles, each for one pytest process, by how long they took before."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests" / "durations.json"
BUNDLE_S = 150.0  # a pytest process costs some seconds to start; much longer bundles leave a core idle at the end
UNKNOWN = (2.0, 1.0)  # wall and processor seconds of a file that nobody has timed
_CLOCKLESS = 10  # the nice level of tests that have no clock; what they wait for is a core:
_BUSY = 0.9  # so they keep one busy, however long they waited for it when they were timed


@dataclass(frozen=True)
class Bundle:
    """`cpu_s` is what all processes spent, so `cpu_s / wall_s` is the number of cores that it keeps busy."""

    name: str
    command: tuple[str, ...]
    wall_s: float
    cpu_s: float
    nice: int = 0
    needs: str = ""  # what has to be installed before: "browser", or one of _NEEDS
    files: tuple[str, ...] = field(default=(), compare=False)

    @property
    def cores(self) -> float:
        least = _BUSY if self.nice >= _CLOCKLESS else 0.1
        return min(2.0, max(least, self.cpu_s / max(self.wall_s, 0.1)))


Durations = dict[str, tuple[float, float]]  # by test file: wall and processor seconds


def kept() -> Durations:
    """Returns the durations that lie in the repository; {} where there are none."""
    if not KEPT.exists():
        return {}
    return {name: (wall, cpu) for name, (wall, cpu) in json.loads(KEPT.read_text()).items()}


def files_of_tests(places: Iterable[str], root: Path = ROOT) -> list[str]:
    """Returns the test files at and below these places, relative to the root, each once."""
    found: set[str] = set()
    for place in places:
        path = root / place
        files = path.rglob("test_*.py") if path.is_dir() else [path]
        found |= {str(file.relative_to(root)) for file in files}
    return sorted(found)


def area(file: str) -> str:
    """Returns the folder whose tests may share a process: their fixtures are made once for all of them."""
    parts = Path(file).parts
    depth = 3 if parts[:2] in (("tests", "integration"), ("tests", "e2e")) and len(parts) > 3 else 2
    return "/".join(parts[:depth])


def bundles(
    files: Iterable[str], durations: Durations, pytest: tuple[str, ...], bundle_s: float = BUNDLE_S
) -> list[Bundle]:
    """Returns bundles of about `bundle_s` seconds, the longest first."""
    made: list[Bundle] = []
    for where, of_area in groupby(sorted(files, key=lambda file: (area(file), file)), key=area):
        gathered: list[str] = []
        groups: list[list[str]] = []
        for file in of_area:
            if gathered and _sum([*gathered, file], durations)[0] > bundle_s:
                groups.append(gathered)
                gathered = []
            gathered.append(file)
        groups.append(gathered)
        for number, group in enumerate(groups, 1):
            name = where.removeprefix("tests/") + (f" {number}" if len(groups) > 1 else "")
            wall_s, cpu_s = _sum(group, durations)
            made.append(
                Bundle(name, (*pytest, *group), wall_s, cpu_s, _nice(where), _needs(where, group), tuple(group))
            )
    return sorted(made, key=lambda bundle: -bundle.wall_s)


def _sum(files: list[str], durations: Durations) -> tuple[float, float]:
    known = [durations.get(file, UNKNOWN) for file in files]
    return sum(wall for wall, _ in known), sum(cpu for _, cpu in known)


def _nice(where: str) -> int:
    """Returns the nice level: real processes go before tests that have no clock."""
    return {"tests/e2e": 0, "tests/integration": 5}.get("/".join(where.split("/")[:2]), _CLOCKLESS)


_NEEDS = {
    "test_watch.py": "prometheus",
    "test_alerts_ring.py": "prometheus",
    "test_chart.py": "helm",
    "test_kubernetes.py": "helm",
    "e2e/test_celery.py": "redis",
}


def _needs(where: str, files: list[str]) -> str:
    if where == "tests/e2e/browser":
        return "browser"
    return next((need for end, need in _NEEDS.items() if any(file.endswith(end) for file in files)), "")
