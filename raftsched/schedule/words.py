"""Lists, ordinals and names of days, for texts that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ORDINALS = ("first", "second", "third", "fourth", "fifth")


def listed(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def spans(values: Iterable[int], name: Callable[[int], str], merged: Callable[[int, int], str] | None = None) -> str:
    """Values by name; three or more in a row as one span; four or more at even distances shortened."""
    values = list(values)
    steps = {b - a for a, b in pairwise(values)}
    if len(values) > 3 and len(steps) == 1 and steps != {1}:
        return f"{name(values[0])}, {name(values[1])}, .. {name(values[-1])}"
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts = []
    for run in runs:
        if merged is not None and len(run) > 1:
            parts.append(merged(run[0], run[-1]))
        elif len(run) > 2:
            parts.append(f"{name(run[0])} to {name(run[-1])}")
        else:
            parts += [name(value) for value in run]
    return listed(parts)
