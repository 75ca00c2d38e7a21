"""The names of what ran something, in a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def executor_of(found: Mapping[str, Any]) -> str | None:
    """Returns what an instance or an attempt was given to: the id of a node, or "worker/" and a worker's name."""
    worker = found.get("worker")
    return f"worker/{worker}" if worker else found.get("node")
