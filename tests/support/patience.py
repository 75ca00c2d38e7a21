"""How long a test waits: for an event, and as long as this machine needs. Nothing is waited for by hand elsewhere."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0  # for what must come, on a machine as it should be
_ROUNDS = 20_000
_REFERENCE_S = 0.002  # processor time of the rounds on such a machine
_SLOWEST = 12.0  # what failed is to be told in minutes


@cache
def _slower() -> float:
    """How many times the reference figure this machine's processor takes; others at work do not count."""
    took = []
    for _ in range(3):
        began = time.thread_time()
        sum(number * number for number in range(_ROUNDS))
        took.append(time.thread_time() - began)
    return min(took) / _REFERENCE_S


def _crowd() -> float:
    """How many want each processor: those that run at this moment, or did in the last minute."""
    with open("/proc/loadavg", encoding="ascii") as file:
        minute, _, _, now, _ = file.read().split()
    return max(float(minute), float(now.partition("/")[0])) / (os.cpu_count() or 1)


def patient(seconds: float) -> float:
    """Returns the seconds that this takes here, never fewer: by this machine's speed, and its load as it is now."""
    return seconds * min(_SLOWEST, max(1.0, _slower()) * max(1.0, _crowd()))


def patient_ms(ms: int) -> int:
    """Returns such a time in milliseconds."""
    return round(patient(ms / 1000) * 1000)


def wait_until(
    condition: Callable[[], T | None],
    what: str | Callable[[], str],
    *,
    seconds: float = PATIENCE_S,
    every: float = 0.02,
    passing: tuple[type[Exception], ...] = (),
) -> T:
    """Returns what the condition gives once that is true. `what` was waited for, in the words of the failure;
    `passing`: errors that count as not yet."""
    ends_at = time.monotonic() + patient(seconds)
    while True:
        try:
            if found := condition():
                return found
        except passing:
            pass
        if time.monotonic() > ends_at:
            raise AssertionError(f"waited in vain for: {what if isinstance(what, str) else what()}")
        time.sleep(every)


async def until(condition: Callable[[], T | None], what: str = "", *, seconds: float = PATIENCE_S) -> T:
    """Returns what the condition gives once that is true; the loop's own events bring it about, or another process."""
    ends_at = time.monotonic() + patient(seconds)
    while not (found := condition()):
        assert time.monotonic() < ends_at, f"waited in vain for: {what or 'the condition'}"
        await asyncio.sleep(0.005)
    return found


async def within(awaitable: Awaitable[T], seconds: float = PATIENCE_S) -> T:
    """Returns the result; a TimeoutError when it does not come in as long as this machine may need."""
    return await asyncio.wait_for(awaitable, patient(seconds))
