"""A function that knows nothing of raftsched: its entry point gives it a name."""

from __future__ import annotations


def count(text: str) -> int:
    return len(text.split())
