"""Linearizable reads: waiting reads share one barrier.

A barrier is an entry that changes nothing; a node that has applied it has applied everything that was committed before
it was proposed. A read must not use one that was proposed before the read arrived: an acknowledged write may lie
between the two (Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 6.4). So all reads that arrive while a
barrier is on its way share the next one, and there is never more than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from raftsched.core import commands
from raftsched.errors import NoLeader, Overloaded, UnknownOutcome
from raftsched.system import background

WAITING_MAX = 10_000  # reads of this node
TRIES_MAX = 3  # attempts at one barrier whose outcome is unknown: it changes nothing

_BARRIER = (commands.encode(commands.Barrier()),)
_TOO_LATE = "No majority confirmed in time that this is the newest; try again shortly, or read without it."


class Barriers:
    """The barriers of one node. `propose(commands, timeout_s)` is done when the commands are applied on this node."""

    def __init__(self, propose: Callable[[Sequence[bytes], float], Awaitable[object]]) -> None:
        self._propose = propose
        self._waiting: list[tuple[asyncio.Future[None], float]] = []  # (read, its deadline by the loop's time)
        self._runner: asyncio.Task[None] | None = None

    async def wait(self, timeout: float) -> None:
        """Waits until everything that was committed before the call is applied here; `timeout` in seconds. Raises
        NoLeader, Overloaded."""
        loop = asyncio.get_running_loop()
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded()
        reached = loop.create_future()
        self._waiting.append((reached, loop.time() + timeout))
        if self._runner is None:
            self._runner = background.start("barrier", self._run())
        try:
            async with asyncio.timeout(timeout):
                await reached
        except TimeoutError:
            raise NoLeader(_TOO_LATE) from None

    async def _run(self) -> None:
        """Proposes one barrier after the other, as long as a read waits."""
        try:
            while waiting := [w for w in self._waiting if not w[0].done()]:
                self._waiting.clear()
                error = await self._pass(max(until for _, until in waiting))
                for reached, _ in waiting:
                    if reached.done():
                        continue
                    if error is None:
                        reached.set_result(None)
                    else:
                        reached.set_exception(error)
        finally:
            self._waiting.clear()
            self._runner = None

    async def _pass(self, until: float) -> Exception | None:
        """Proposes one barrier; returns its error, None when it was applied."""
        loop = asyncio.get_running_loop()
        for _ in range(TRIES_MAX):
            try:
                await self._propose(_BARRIER, until - loop.time())
            except UnknownOutcome:
                continue
            except Exception as error:
                return error
            return None
        return NoLeader(_TOO_LATE)
