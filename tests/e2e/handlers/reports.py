"""Handlers that the tests' jobs name."""

from __future__ import annotations

import sys


def greet(name: str, times: int = 1) -> dict[str, object]:
    print("hello " * times + name)
    print("aside", file=sys.stderr)
    return {"greeted": name, "times": times}


def fail(message: str) -> None:
    raise ValueError(message)
