"""The job of the benchmarks of lateness: it writes when it was due and when it began, by the wall clock."""

from __future__ import annotations

import os
import time
from functools import cache


def mark(file: str, number: int | None = None) -> None:
    """A line of `file`: the number, without one the instance; when it was due; when this began (ns)."""
    now_ns = time.time_ns()
    which = os.environ["RAFTSCHED_INSTANCE_ID"] if number is None else number
    os.write(_opened(file), f"{which} {os.environ['RAFTSCHED_SCHEDULED_AT']} {now_ns}\n".encode())


@cache
def _opened(file: str) -> int:
    """Once in the life of a warm process."""
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
