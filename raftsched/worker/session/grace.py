"""The time that a node which stops leaves to what it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

SLACK_MS = 2_000  # after the grace period: what was left then is killed and reported by now


class GracePeriod:
    def __init__(self, grace_ms: int) -> None:
        self.grace_ms = grace_ms
        self._hurried = False
        self._changed = asyncio.Event()

    def recheck(self) -> None:
        """There may be nothing to wait for any more."""
        self._changed.set()

    def hurry(self) -> None:
        """Whoever waits, or will, waits no longer."""
        self._hurried = True
        self._changed.set()

    async def wait(self, more: Callable[[], bool]) -> None:
        """Waits until there is no `more` to wait for, or the grace period is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout((self.grace_ms + SLACK_MS) / 1000):
                while more() and not self._hurried:
                    self._changed.clear()
                    await self._changed.wait()
