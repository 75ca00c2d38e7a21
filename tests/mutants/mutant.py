"""One mutant, and how its copy of the tree is made."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
COPIED = ("raftsched", "tests", "jepsen-like", "docs", "deploy", "scripts", "pyproject.toml")


@dataclass(frozen=True)
class Mutant:
    """`old` stands once in `file` (below raftsched/), and `new` takes its place. `tests` are looked at first, by
    folder or file below tests/. `profile`, `nodes` and `seconds` are the simulator's; None: it has no such fault, or
    does not run that code."""

    name: str
    rule: str  # what the code has to do, and does not any more
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ("unit/raft",)
    profile: str | None = "mixed"
    nodes: int = 3
    seconds: float = 20.0

    def applied_to(self, source: str) -> str:
        """The changed text. Raises ValueError when the rule is not where it was."""
        found = source.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: raftsched/{self.file} has {found} times, not once:\n{self.old}")
        return source.replace(self.old, self.new)


def copy_tree(directory: Path) -> None:
    for name in COPIED:
        source, target = ROOT / name, directory / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def make(mutant: Mutant | None, directory: Path) -> None:
    """None: a copy as it is. Raises ValueError, see Mutant.applied_to."""
    copy_tree(directory)
    if mutant is None:
        return
    file = directory / "raftsched" / mutant.file
    file.write_text(mutant.applied_to(file.read_text()))
