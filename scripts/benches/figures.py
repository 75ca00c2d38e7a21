"""How every figure is printed: one JSON line on stdout; what is going on goes to stderr."""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def emit(bench: str, **figures: Any) -> None:
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}
    print(json.dumps({"bench": bench, **rounded, "cores": os.cpu_count(), "python": platform.python_version()}))
    sys.stdout.flush()


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
