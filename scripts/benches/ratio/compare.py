"""Processor time of this checkout against BASE: a commit, a wheel's file, or a released version.

In each pair both do the same fixed work, one after the other, each with fresh nodes; who is first alternates. Both run
with this interpreter and its libraries, and either both with TLS between nodes, or none where BASE does not know it.
What counts is the processor time of all processes of the three nodes, by their own clocks, which others on the machine
change far less than rates. The table has the median of the pairs' ratios (this checkout divided by BASE: less is
better), the least and the most, and the medians of both. `apply`: the least time of apply alone, in one process.

Parts: idle, create, batch, python, http, exec, shell (one-shots, from create to end), python-periodic and so on, apply;
and floors, of this checkout alone, within one run: a run of a program over posix_spawn of it, apply over LMDB and
msgspec of the same rows, a periodic run over a one-shot's, a job of a batch over a single create, a no-op run over
BullMQ's job, a node's start, and all killed until the next write. With no BASE, floors alone.

--short counts what apply executes (opcodes of Python, calls of C, rows, bytes), which is the same each time, against
what is kept of the last release; exit code 1 above 1.03. CI does that, too. --keep REASON keeps what is counted now.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from scripts.benches.bars import BARS
from scripts.benches.event_loop import Loop
from scripts.benches.figures import Line, emit, note
from scripts.benches.ratio import applied, floors, kept
from scripts.benches.ratio.trees import Tree, this, unpacked
from scripts.benches.ratio.work import PARTS, STARTED_S
from scripts.benches.table import name, number

BENCH = "ratio"  # of the lines that have one
NAMES = (*(part.name for part in PARTS), "apply", "floors")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", nargs="?", metavar="BASE", help="a commit, a wheel's file, or a released version")
    parser.add_argument("--pairs", type=int, default=5, help="how often each has its turn (5)")
    parser.add_argument("--parts", type=_parts, metavar="PARTS", help=f"of {','.join(NAMES)} (default: all but floors)")
    parser.add_argument("--less", type=float, default=1.0, help="divides the amounts of work (1)")
    parser.add_argument("--short", action="store_true", help="what apply executes against what is kept; no nodes")
    parser.add_argument("--keep", metavar="REASON", help="keep what --short counts; why, where something rose")
    floors.options(parser)


def bench_ratio(loop: Loop, given: argparse.Namespace) -> bool:
    """False: --short found more than is allowed."""
    if given.short or given.keep is not None:
        return kept.bench_kept(given.keep)
    parts = given.parts or (NAMES[:-1] if given.base else ("floors",))
    if "floors" in parts:
        floors.bench_floors(loop, given)
    others = [name for name in parts if name != "floors"]
    if others:
        if given.base is None:
            raise RuntimeError(f"{', '.join(others)}: against which BASE?")
        with tempfile.TemporaryDirectory(prefix="raftsched-base-") as directory:
            ours, theirs = this(), unpacked(given.base, Path(directory))
            _pairs(loop, ours, theirs, others, given)
    return True


def _pairs(loop: Loop, ours: Tree, theirs: Tree, parts: Sequence[str], given: argparse.Namespace) -> None:
    """Measures, and emits a line for each figure of what was measured, also where it is cut short."""
    sealed = ours.seals and theirs.seals
    note("TLS between nodes" if sealed else f"no TLS between nodes: {theirs.name} does not speak it")
    found: dict[str, dict[str, list[float]]] = {}  # figure -> tree -> of each pair
    try:
        for pair in range(given.pairs):
            for tree in (ours, theirs) if pair % 2 else (theirs, ours):
                note(f"pair {pair + 1} of {given.pairs}: {tree.name}")
                for figure, cost in _costs(loop, tree, parts, sealed=sealed, less=given.less).items():
                    found.setdefault(figure, {}).setdefault(tree.name, []).append(cost)
    finally:
        for figure, by_tree in found.items():
            both = list(zip(by_tree.get(ours.name, ()), by_tree.get(theirs.name, ()), strict=False))
            if both:
                emit(BENCH, of=figure, base=theirs.name, sealed_links=sealed, **ratio(both))


def ratio(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Returns what a line says of these costs, ours and theirs: medians, and of each pair's ratio least and most."""
    each = [mine / other if other else float("nan") for mine, other in pairs]
    return {
        "pairs": len(pairs),
        "ours_us": median(mine for mine, _ in pairs),
        "theirs_us": median(other for _, other in pairs),
        "ratio": median(each),
        "ratio_least": min(each),
        "ratio_most": max(each),
    }


def _costs(loop: Loop, tree: Tree, parts: Sequence[str], *, sealed: bool, less: float) -> dict[str, float]:
    """Returns microseconds by figure."""
    costs = {}
    if "apply" in parts:
        costs |= applied.times(tree.environment())
    wanted = [part for part in PARTS if part.name in parts]
    if wanted:
        with tree.cluster(sealed=sealed) as cluster:
            cluster.leader()
            time.sleep(STARTED_S)
            for part in wanted:
                costs[part.figure] = loop(part.measure(cluster, less)).each
                note(f"  {part.figure}: {costs[part.figure]:,.0f} us")
    return costs


def markdown(lines: Iterable[Line]) -> str:
    """A row for each line that has a ratio; then the table of what is kept."""
    lines = list(lines)
    ratios = [line for line in lines if line["bench"] == BENCH]
    rows = [f"| {' | '.join(_cells(line))} |" for line in ratios]
    if rows:
        line = ratios[0]
        links = "TLS between nodes" if line["sealed_links"] else "no TLS between nodes"
        head = f"| processor time of all processes | this | {line['base']} | ratio | of {line['pairs']} pairs | bar |"
        rows = [head, "|---|---:|---:|---:|---|---|", *rows, "", f"{links}; Python {line['python']}."]
    return "\n\n".join(filter(None, ("\n".join(rows), kept.markdown(lines))))


def _cells(line: Line) -> tuple[str, ...]:
    spread = f"{line['ratio_least']:.2f} to {line['ratio_most']:.2f}" if line["pairs"] > 1 else ""
    bar = BARS.get((name(line), "ratio"))
    told = f"{bar.words(number)}: {'met' if bar.met(line['ratio']) else 'not met'}" if bar else ""
    return line["of"], _time(line["ours_us"]), _time(line["theirs_us"]), f"{line['ratio']:.2f}", spread, told


def _time(us: float) -> str:
    return f"{number(us / 1000)} ms" if us >= 2_000 else f"{number(us)} us"


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    if unknown := [part for part in parts if part not in NAMES]:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return parts
