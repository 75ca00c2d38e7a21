"""Names of runs for people: of their jobs, and of what ran them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def executor_of(found: Mapping[str, Any]) -> str | None:
    """Returns what an instance or an attempt was given to: the id of a node, or "worker/" and a worker's name."""
    worker = found.get("worker")
    return f"worker/{worker}" if worker else found.get("node")


def job_of(run: Mapping[str, Any]) -> str | None:
    """Returns the whole name of a run's job; None: it has none."""
    return f"{run['namespace']}/{run['job_name']}" if run.get("job_name") else None
