"""Knows whether somebody still waits for a call that blocks in a thread of its own: what it reads ends once nobody
does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from raftsched.system.clock import Clock, SystemClock


class NobodyWaits(Exception):
    """Raised for a call whose caller has given up."""


class Waiter:
    """Whoever waits for a call, until a time or until it gives up."""

    def __init__(self, timeout_s: float, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._until = self._clock.monotonic() + timeout_s
        self._gave_up = False

    def give_up(self) -> None:
        self._gave_up = True

    def left_s(self) -> float:
        """Returns how long it still waits, in seconds. Raises NobodyWaits."""
        left = self._until - self._clock.monotonic()
        if self._gave_up or left <= 0:
            raise NobodyWaits("nobody waits for it any more")
        return left


_waiter: ContextVar[Waiter | None] = ContextVar("waiter", default=None)


@contextmanager
def waited_for(waiter: Waiter) -> Iterator[None]:
    """Ends what the calls inside read from a network once the waiter has given up."""
    before = _waiter.set(waiter)
    try:
        yield
    finally:
        _waiter.reset(before)


def left_s() -> float | None:
    """Returns how long the one who asked still waits; None: for as long as it takes. Raises NobodyWaits."""
    waiter = _waiter.get()
    return None if waiter is None else waiter.left_s()
