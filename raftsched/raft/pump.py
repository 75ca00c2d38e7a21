"""Pumps the replica at the end of what the event loop has at hand, and hands what was sent to the connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pump:
    """However often it is woken meanwhile, `pump` runs once. It calls `flush` as soon as it has sent what others wait
    for; what is sent outside of it is flushed by it, too, where it is to come."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump: Callable[[], None]
        self._flush: Callable[[], None]
        self._woken = False  # a pump is to come
        self._running = False  # one runs, and has not flushed yet

    def start(self, pump: Callable[[], None], flush: Callable[[], None]) -> None:
        """Works from now on, on the running event loop."""
        self._loop, self._pump, self._flush = asyncio.get_running_loop(), pump, flush

    @property
    def flushes(self) -> bool:
        """Returns whether it is about to flush."""
        return self._woken or self._running

    def wake(self) -> None:
        """Asks for a pump after the events at hand."""
        if not self._woken and self._loop is not None:
            self._loop.call_soon(self._on_wake)
            self._woken = True

    def flush(self) -> None:
        self._running = False
        self._flush()

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Brings a thread's result to the event loop, from any thread. The pump follows in the same pass: callers wait
        for what was written."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._posted, callback, *args)

    def _posted(self, callback: Callable[..., object], *args: object) -> None:
        self._woken = True  # by what follows
        try:
            callback(*args)
        finally:
            self._run()

    def _on_wake(self) -> None:
        if self._woken:  # else what was posted was the sooner one
            self._run()

    def _run(self) -> None:
        self._woken, self._running = False, True
        self._pump()
        if self._running:  # a replica that has stopped does nothing
            self.flush()
