"""raftsched compared with its peers: figures of the same work in one run, divided. Of figures and nothing else.

A ratio is that of the medians over all rounds in which both were measured; its spread goes from the least ratio of a
single round to the most. With rates, a ratio above 1 is raftsched's advantage; with times, below 1.

Beside each rate stands the processor time that a job costs all processes together, the system's and the load's: what
else runs on the machine changes it far less than the rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scripts.benches.bars import BARS
from scripts.benches.figures import OURS, Line
from scripts.benches.table import OTHERS_TOLD, name, number, quantity

# What of a bench is compared.
FIELD = {
    "create": "per_second",
    "create-sdk": "per_second",
    "create-batch": "jobs_per_second",
    "run": "per_second",
    "burst": "last_start_ms",
    "periodic": "p99_ms",
}
# Ours that do the same as a bench of theirs in another way.
OTHER_WAYS = {"create": ("create-sdk",)}
# How long a single one takes: compared where nothing else is in flight. With more, it follows from the rate.
ALONE = "p50_ms"
# What is compared beside the field above, in words.
ASPECTS = {"cpu_us": "processor time", ALONE: "p50"}
BENCH = "against"  # of the lines that have a ratio
COLUMNS = ("figure", "peer", "raftsched", "the peer", "ratio", "spread", "bar", "met")


@dataclass(frozen=True, slots=True)
class Ratio:
    of: str  # the figure, as ours is called without what peers have no choice of
    peer: str
    field: str
    rounds: tuple[tuple[float, float], ...]  # of each round that measured both: ours, theirs

    @property
    def ours(self) -> list[float]:
        return [ours for ours, _ in self.rounds]

    @property
    def theirs(self) -> list[float]:
        return [theirs for _, theirs in self.rounds]

    @property
    def value(self) -> float:
        return _divided(median(self.ours), median(self.theirs))

    def figures(self) -> dict[str, Any]:
        """What a line says of it: medians, the ratio of these, and the least and the most of all rounds."""
        each = {"ours": self.ours, "theirs": self.theirs, "ratio": [_divided(*both) for both in self.rounds]}
        found: dict[str, Any] = {"of": self.of, "field": self.field, "rounds": len(self.rounds)}
        for what, values in each.items():
            middle = self.value if what == "ratio" else median(values)
            found |= {what: middle, f"{what}_least": min(values), f"{what}_most": max(values)}
        return found


def ratios(rounds: Sequence[Iterable[Line]]) -> list[Ratio]:
    """One for each of a peer's figures and each of ours that did the same work, ours in their order."""
    values: dict[tuple[str, str, str], dict[int, float]] = {}  # (system, figure, field) -> round -> value
    for i, lines in enumerate(rounds):
        for line in lines:
            for field, value in _values(line):
                values.setdefault((line["system"], _figure(line, field), field), {})[i] = value
    found = []
    for (system, figure, field), ours in values.items():
        if system != OURS:
            continue
        bench, _, conditions = figure.partition(", ")
        asked = [bench, *(theirs for theirs, ways in OTHER_WAYS.items() if bench in ways)]
        same = [", ".join(filter(None, (way, conditions))) for way in asked]
        for (peer, other, others_field), theirs in values.items():
            if peer != OURS and other in same and others_field == field:
                both = tuple((ours[i], theirs[i]) for i in ours if i in theirs)
                if both:
                    found.append(Ratio(figure, peer, field, both))
    return found


def markdown(lines: Iterable[Line]) -> str:
    """A row for each line that has a ratio, beside the bar asked for; then which peers ran, and which were skipped."""
    lines = list(lines)
    rows = [f"| {' | '.join(_cells(line))} |" for line in lines if line["bench"] == BENCH]
    head = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"] if rows else []
    return "\n".join((*head, *rows, *_peers(lines), *(_others(lines) if rows else ()))).strip()


def _cells(line: Line) -> Iterator[str]:
    """One for each column."""
    yield line["of"] + (", less is better" if line["field"].endswith(("_ms", "_us")) else "")
    yield line["system"]
    yield _measured(line, "ours")
    yield _measured(line, "theirs")
    yield number(line["ratio"])
    yield _spread(line, "ratio")
    bar = BARS.get((name(line), "ratio"))
    yield bar.words(number) if bar else ""
    yield ("yes" if bar.met(line["ratio"]) else "no") if bar else ""


def _peers(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        if line["bench"] == "peer":
            for field, words in (("versions", "runs as"), ("skipped", "is skipped:"), ("failed", "failed:")):
                if field in line:
                    said = line[field]
                    yield f"\n{line['system']} {words} {said if isinstance(said, str) else '; '.join(said)}"


def _others(lines: Iterable[Line]) -> Iterator[str]:
    """Says so when other programs used the machine while figures were taken that are compared."""
    taken = [line["cpu_others"] for line in lines if line["bench"] in FIELD and line.get("cpu_others") is not None]
    if taken and max(taken) > OTHERS_TOLD:
        yield f"\nOther programs took {min(taken):.0%} to {max(taken):.0%} of the machine: measure again without them."


def _measured(line: Line, whose: str) -> str:
    spread = _spread(line, whose)
    return quantity(line["field"])(line[whose]) + (f" ({spread})" if spread else "")


def _spread(line: Line, of: str) -> str:
    """From the least of all rounds to the most; nothing when there was a single one."""
    return f"{number(line[f'{of}_least'])} to {number(line[f'{of}_most'])}" if line["rounds"] > 1 else ""


def _divided(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else float("nan")


def _values(line: Line) -> Iterator[tuple[str, float]]:
    """Those fields that are compared."""
    field = FIELD.get(line["bench"], "")
    value = line.get(field)
    if isinstance(value, int | float):
        yield field, value
        used = line["cpu_busy"] - line["cpu_others"] if "cpu_others" in line else 0.0
        if value and field.endswith("per_second") and used > 0:  # else it was too little to be told from the others'
            yield "cpu_us", used * line["cores"] / value * 1e6
        if field != ALONE and line.get("in_flight") == 1 and isinstance(line.get(ALONE), int | float):
            yield ALONE, line[ALONE]


def _figure(line: Line, field: str) -> str:
    """Its name without whose it is, and without what peers have no choice of: the node that is asked, the handler."""
    named = name({key: value for key, value in line.items() if key not in ("system", "through", "handler")})
    return f"{named}, {ASPECTS[field]}" if field in ASPECTS else named
