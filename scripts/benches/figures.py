"""Where every figure goes: one JSON line on stdout, and kept for the table at the end; what is going on goes to stderr.

A line says `bench` (what was measured), `system` (raftsched, or what it is held against), under which conditions (the
fields in `table.CONDITIONS`), and what came out. Lines of the same `bench` and conditions can be compared.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from typing import Any, TextIO

OURS = "raftsched"

Line = dict[str, Any]

_lines: list[Line] = []
_outputs: list[TextIO] = [sys.stdout]


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else math.nan


def emit(bench: str, *, system: str = OURS, **figures: Any) -> Line:
    """The line, as it was written."""
    line: Line = {"bench": bench, "system": system}
    line |= {name: _rounded(value) for name, value in figures.items()}
    line |= {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    _lines.append(line)
    for output in _outputs:
        print(json.dumps(line), file=output, flush=True)
    return line


def keep(line: Line) -> None:
    """A line of an earlier run, for the table."""
    _lines.append(line)


def lines() -> list[Line]:
    """All that were emitted up to now."""
    return list(_lines)


def write_to(*outputs: TextIO) -> None:
    """From here on lines are written to these, in place of stdout alone."""
    _outputs[:] = outputs


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _rounded(value: Any) -> Any:
    """JSON has no NaN."""
    if not isinstance(value, float):
        return value
    return round(value, 3) if math.isfinite(value) else None
