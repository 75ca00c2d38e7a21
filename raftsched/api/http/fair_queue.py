"""Fairness between connections: requests that came right behind others on their connection wait in a queue.

One such request goes through in each iteration of the event loop, whichever connection it is of; requests that come
alone do not wait. So clients that send many at once get them answered one after the other, and cost everybody else one
request's time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 4  # requests of one connection that are refused or answered at once without waiting


class FairQueue:
    """The queue of one server."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, go: Callable[[], None]) -> None:
        """Calls `go` when it is first in the queue."""
        self._waiting.append(go)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    async def turn(self) -> None:
        """Returns when the caller is first in the queue."""
        came = asyncio.get_running_loop().create_future()

        def go() -> None:
            if not came.done():
                came.set_result(None)

        self.enter(go)
        await came

    def _turn(self) -> None:
        go = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        go()
