"""Defines functions that the sample jobs of `raftsched dev` run; also a pattern for handlers of your own.

A python handler is "package.module:function"; it is called with the job's params as keyword arguments in a process of
its own. What it prints is the output of the run, what it returns (JSON) the result; an exception makes the run FAILED.
"""

from __future__ import annotations

import os
import time
from calendar import monthrange


def greet(name: str = "world") -> dict[str, str]:
    """Prints a greeting and says which node ran it."""
    node = os.environ.get("RAFTSCHED_NODE_ID", "nowhere")
    print(f"Hello {name}, this is {node}, attempt {os.environ.get('RAFTSCHED_ATTEMPT', '?')}.")
    return {"greeted": name, "node": node}


def fail(message: str = "this job always fails") -> None:
    """Raises, to show what a failure and its retries look like."""
    raise RuntimeError(message)


def report(month: str) -> dict[str, str | int]:
    """Prints what a report of the month would count, one line after the other, and returns a total. ValueError where
    there is no such month."""
    year, number = (int(part) for part in month.split("-"))
    invoices = monthrange(year, number)[1] * 7
    for kind, count in (("invoices", invoices), ("payments", invoices - 5), ("reminders", 5)):
        print(f"{month}: {count} {kind}", flush=True)
        time.sleep(0.3)
    return {"month": month, "invoices": invoices}


def noop() -> None:
    """Does nothing, as fast as it can be done."""
