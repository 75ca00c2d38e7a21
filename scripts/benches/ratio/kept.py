"""What apply executes for the lives of jobs, against what is kept of the last release (figures.KEPT).

Time is not what is kept: from one process of the same code to the next it differs by up to a fifth, measured in what a
fixed piece of work takes there. Counts are the same each time, for one minor version of Python, and time follows them:
28 % more opcodes came with 19 % more time, a field and a question at a time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.benches.figures import Line, emit, note
from scripts.benches.ratio import applied
from scripts.benches.ratio.trees import environment
from tests.support.cluster import ROOT

BENCH = "apply-count"
KEPT = ROOT / "tests" / "unit" / "core" / "apply_cost.json"
MOST = 1.03
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Count:
    """`now` of `what` in an entry of 50 such lives, and what is kept of the last release."""

    life: str
    what: str
    now: int
    kept: int

    @property
    def risen(self) -> bool:
        return self.now > MOST * self.kept

    def __str__(self) -> str:
        return f"{self.life}, {self.what}: {self.kept:,} -> {self.now:,}"


def compared(found: dict[str, dict[str, int]], kept: dict[str, Any]) -> list[Count]:
    """Returns what was counted beside what is kept for this version of Python; nothing where none is kept."""
    before = kept["python"].get(PYTHON)
    if before is None:
        return []
    return [
        Count(life, what, number, before.get(life, {}).get(what, 0))
        for life, counts in found.items()
        for what, number in counts.items()
    ]


def updated(found: dict[str, dict[str, int]], kept: dict[str, Any], reason: str) -> dict[str, Any]:
    """Returns what is kept from now on: a reason for each figure that rose, beside what fell. RuntimeError when
    something rose and there is no reason."""
    risen = [str(count) for count in compared(found, kept) if count.now > count.kept]
    if risen and not reason.strip():
        raise RuntimeError(f"a reason is needed for what rose: {'; '.join(risen)}")
    raised = [{"python": PYTHON, "reason": reason, "what": risen}] if risen else []
    return {"python": {**kept["python"], PYTHON: found}, "raised": [*kept["raised"], *raised]}


def read(path: Path = KEPT) -> dict[str, Any]:
    """Returns what is kept: figures by version of Python, life and kind; and why some were raised."""
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def counted() -> dict[str, dict[str, int]]:
    """Returns what this checkout executes."""
    return applied.counts(environment(ROOT))


def bench_kept(reason: str | None) -> bool:
    """Emits a line for each count; with a reason all of them are kept. False: one is above MOST."""
    found, kept = counted(), read()
    counts = compared(found, kept)
    for count in counts:
        ratio = count.now / count.kept if count.kept else float("inf")
        emit(BENCH, of=f"{count.life}, {count.what}", now=count.now, kept=count.kept, ratio=ratio)
    if reason is not None:
        KEPT.write_text(json.dumps(updated(found, kept, reason), indent=2) + "\n")
        note(f"kept in {KEPT.relative_to(ROOT)}")
        return True
    if not counts:
        note(f"nothing is kept for Python {PYTHON}: --keep REASON does")
    return not any(count.risen for count in counts)


def markdown(lines: Iterable[Line]) -> str:
    """A row for each count; nothing without any."""
    rows = [
        f"| {line['of']} | {line['now']:,} | {line['kept']:,} | {line['ratio']:.3f} |"
        for line in lines
        if line["bench"] == BENCH
    ]
    return "\n".join(["| apply of 50 jobs | this | kept | ratio |", "|---|---:|---:|---:|", *rows]) if rows else ""
