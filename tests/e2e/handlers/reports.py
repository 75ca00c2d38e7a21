"""Handlers that the tests' jobs name."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def greet(name: str, times: int = 1) -> dict[str, object]:
    print("hello " * times + name)
    print("aside", file=sys.stderr)
    return {"greeted": name, "times": times}


def fail(message: str) -> None:
    raise ValueError(message)


def meet(directory: str, count: int) -> None:
    """Ends when so many runs are in here at one time."""
    place = Path(directory)
    (place / f"{os.getpid()}").touch()
    while len(list(place.iterdir())) < count:
        time.sleep(0.02)
