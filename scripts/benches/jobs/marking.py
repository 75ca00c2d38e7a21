"""The job of the lateness benchmark: it writes when it was due and when it began, by the wall clock."""

from __future__ import annotations

import os
import time


def mark(file: str) -> None:
    now_ns = time.time_ns()
    line = f"{os.environ['RAFTSCHED_INSTANCE_ID']} {os.environ['RAFTSCHED_SCHEDULED_AT']} {now_ns}\n"
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(out, line.encode())
    os.close(out)
