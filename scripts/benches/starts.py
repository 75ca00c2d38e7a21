"""What was due is held against what began: every due target counts, also one that never did (no coordinated omission).

The jobs write their own lines (jobs/marking.py), in memory where there is such a file system: what is measured is the
nodes, not a file of the benchmark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from scripts.benches.figures import percentile

JOBS = Path(__file__).resolve().parent / "jobs"
MEMORY = Path("/dev/shm")

Target = TypeVar("Target", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Mark:
    which: str
    due_ms: float
    at_ms: float


@dataclass(frozen=True, slots=True)
class Account:
    late: list[float]  # ms, of each target; of one that has not begun as long as it was waited for
    not_run: int
    again: int  # starts beyond the first of a target
    early: int

    def figures(self) -> dict[str, float | int]:
        return {
            "p50_ms": percentile(self.late, 0.5),
            "p90_ms": percentile(self.late, 0.9),
            "p99_ms": percentile(self.late, 0.99),
            "max_ms": max(self.late, default=float("nan")),
            "due": len(self.late),
            "not_run": self.not_run,
            "started_again": self.again,
            "early": self.early,
        }


def account(due: Mapping[Target, float], starts: Mapping[Target, list[float]], until_ms: float) -> Account:
    """Times in ms; `until_ms`: when the waiting ended. Starts of what was not due are not looked at."""
    late: list[float] = []
    not_run = again = early = 0
    for target, due_ms in due.items():
        at = starts.get(target)
        if at:
            late.append(min(at) - due_ms)
            again += len(at) - 1
            early += late[-1] < 0
        else:
            late.append(until_ms - due_ms)
            not_run += 1
    return Account(late, not_run, again, early)


@contextmanager
def marks_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-", dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory) / "marks"


def handler(file: Path, number: int | None = None) -> dict[str, object]:
    """Of a job that marks; for the body that creates it. Needs a cluster with JOBS as its pythonpath."""
    params = {"file": str(file)} if number is None else {"file": str(file), "number": number}
    return {"handler": {"python": "marking:mark"}, "params": params}


def read_marks(file: Path) -> Iterator[Mark]:
    if file.exists():
        with file.open() as lines:
            for line in lines:
                which, due, at_ns = line.split()
                yield Mark(which, parse_ms(due), int(at_ns) / 1e6)


def wait_marks(file: Path, count: int, limit_s: float) -> float:
    """Until the file has so many lines, or for so long; when that was, in ms."""
    deadline = time.time() + limit_s
    seen, at = 0, 0
    while True:
        if file.exists():
            with file.open("rb") as data:
                data.seek(at)
                while chunk := data.read(1 << 20):
                    seen += chunk.count(b"\n")
                at = data.tell()
        if seen >= count or time.time() > deadline:
            return time.time() * 1000
        time.sleep(0.1)


def parse_ms(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000
