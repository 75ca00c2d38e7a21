"""raftsched held against its peers: figures of the same work in one run, divided. Of figures and nothing else.

Of several rounds the medians are divided. A ratio above 1 is raftsched's advantage with rates; with times, below 1.

Beside each rate stands the processor time that a job costs all processes together, the system's and the load's: what
else runs on the machine changes it far less than the rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from scripts.benches.figures import OURS, Line
from scripts.benches.table import name, number, quantity

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


@dataclass(frozen=True, slots=True)
class Ratio:
    of: str  # the figure, as ours is called without what peers have no choice of
    peer: str
    field: str
    ours: float
    theirs: float

    @property
    def value(self) -> float:
        return self.ours / self.theirs if self.theirs else float("nan")


def ratios(lines: Iterable[Line]) -> list[Ratio]:
    """One for each of a peer's figures and each of ours that did the same work, ours in their order."""
    values: dict[tuple[str, str, str], list[float]] = {}  # (system, figure, field) -> a value a round
    for line in lines:
        for field, value in _values(line):
            values.setdefault((line["system"], _figure(line), field), []).append(value)
    found = []
    for (system, figure, field), ours in values.items():
        if system != OURS:
            continue
        bench, _, conditions = figure.partition(", ")
        asked = [bench, *(theirs for theirs, ways in OTHER_WAYS.items() if bench in ways)]
        same = [", ".join(filter(None, (way, conditions))) for way in asked]
        for (peer, other, others_field), theirs in values.items():
            if peer != OURS and other in same and others_field == field:
                found.append(Ratio(figure, peer, field, median(ours), median(theirs)))
    return found


def markdown(found: Iterable[Ratio]) -> str:
    """A row a figure; a pair of columns a peer: what it did, and raftsched's figure divided by that."""
    found = list(found)
    peers = list(dict.fromkeys(ratio.peer for ratio in found))
    rows = [
        "| figure | raftsched | " + " | ".join(f"{peer} | raftsched / {peer}" for peer in peers) + " |",
        "|---|---|" + "---|---|" * len(peers),
    ]
    for figure, field in dict.fromkeys((ratio.of, ratio.field) for ratio in found):
        of = {ratio.peer: ratio for ratio in found if (ratio.of, ratio.field) == (figure, field)}
        words = quantity(field)
        ours = next(iter(of.values())).ours
        cells = [figure + (", less is better" if field.endswith(("_ms", "_us")) else ""), words(ours)]
        for peer in peers:
            cells += [words(of[peer].theirs), number(of[peer].value)] if peer in of else ["", ""]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _values(line: Line) -> Iterator[tuple[str, float]]:
    """Those fields that are compared."""
    field = FIELD.get(line["bench"], "")
    value = line.get(field)
    if isinstance(value, int | float):
        yield field, value
        used = line["cpu_busy"] - line["cpu_others"] if "cpu_others" in line else 0.0
        if value and field.endswith("per_second") and used > 0:  # else it was too little to be told from the others'
            yield "cpu_us", used * line["cores"] / value * 1e6


def _figure(line: Line) -> str:
    """Its name without whose it is, and without what peers have no choice of: the node that is asked, the handler."""
    return name({field: value for field, value in line.items() if field not in ("system", "through", "handler")})
