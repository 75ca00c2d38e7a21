"""A run that takes its time."""

from __future__ import annotations

import time


def nap(seconds: float) -> None:
    time.sleep(seconds)
