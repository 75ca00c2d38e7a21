"""Heavy tests of rare subjects: they run where their subject differs from what they last ran with.

`./scripts/test release` runs all tests, and keeps in tests/parts.json a digest of what each part is about: the contents
of its subjects, and of the modules that its tests import from tests/ and scripts/. `./scripts/test` leaves a part out
while its digest is the kept one. A digest needs no history, so it holds in any clone. Whoever changes the dependencies,
the deployment files or the scripts of the suite changes all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.suite.bundles import ROOT, files_of_tests
from scripts.suite.selection import imports

KEPT = "tests/parts.json"
# A change of one of them runs every part.
ALWAYS = (
    "pyproject.toml",
    "requirements.lock",
    "deploy",
    "scripts/test",
    "scripts/suite",
    "scripts/venv.sh",
    ".ci/run",
)


@dataclass(frozen=True)
class Part:
    name: str
    tests: tuple[str, ...]
    subjects: tuple[str, ...]  # files and folders


PARTS = (
    Part(
        "packages on every Python",
        ("tests/e2e/test_packages.py",),
        (
            "hatch_build.py",
            "raftsched/version.py",
            "raftsched/worker/native",
            "README.md",
            "scripts/bill_of_materials.py",
            "scripts/build",
            "scripts/build.py",
        ),
    ),
    Part("Prometheus", ("tests/e2e/test_watch.py",), ("raftsched/metrics.py", "raftsched/node", "raftsched/doctor")),
    Part("alerts", ("tests/unit/docs/test_alerts_ring.py",), ("deploy/prometheus",)),
    Part("Kubernetes", ("tests/e2e/test_kubernetes.py",), ("raftsched/config",)),
    Part(
        "virtual machines", ("tests/e2e/test_virtual_machines.py", "tests/e2e/test_systemd.py"), ("raftsched/config",)
    ),
    Part("proxies", ("tests/e2e/test_proxies.py",), ("raftsched/api/http",)),
    Part(
        "benchmarks",
        ("tests/e2e/test_bench.py", "tests/e2e/test_bench_command.py", "tests/unit/benches"),
        ("scripts/bench", "scripts/bench.py", "scripts/benches"),
    ),
)


def digests(root: Path = ROOT) -> dict[str, str]:
    """Returns for each part the SHA-256 of all that it is about, as hexadecimal digits."""
    graph = imports(root, ("tests", "scripts"))
    return {part.name: _digest(part, root, graph) for part in PARTS}


def _digest(part: Part, root: Path, graph: Mapping[str, set[str]]) -> str:
    files = {file for place in (*ALWAYS, *part.subjects) for file in _files(root / place)}
    files |= {root / file for file in _imports_of(files_of_tests(part.tests, root), graph)}
    hashed = hashlib.sha256()
    for file in sorted(files):
        name, content = str(file.relative_to(root)).encode(), file.read_bytes()
        hashed.update(b"%d %b %d " % (len(name), name, len(content)))
        hashed.update(content)
    return hashed.hexdigest()


def _files(place: Path) -> Iterable[Path]:
    if place.is_dir():
        return (file for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return (place,)


def _imports_of(tests: list[str], graph: Mapping[str, set[str]]) -> set[str]:
    """Returns these tests and the modules that they import, themselves or by others."""
    seen, waiting = set(tests), list(tests)
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def unchanged(root: Path = ROOT) -> list[Part]:
    """Returns the parts that ran whole with just what is here."""
    file = root / KEPT
    kept: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    now = digests(root)
    return [part for part in PARTS if kept.get(part.name) == now[part.name]]


def keep(root: Path = ROOT) -> None:
    """Writes down that all parts ran whole, and passed, with what is here."""
    (root / KEPT).write_text(json.dumps(digests(root), indent=2) + "\n")
