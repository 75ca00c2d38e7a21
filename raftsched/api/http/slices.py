"""Slices of time: work whose size a caller chooses is done in pieces of 2 ms, and others have their turn between them.

    slices = Slices()
    for row in rows:
        look_at(row)
        await slices.turn()

What is counted is processor time of the thread, so that a busy machine makes no slice shorter. All such work of an
event loop shares one queue: one piece in each of its iterations, however many requests there are.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from raftsched.api.http.turnstile import Turnstile
from raftsched.clock import thread_s

SLICE_S = 0.002  # of processor time between two turns of the event loop

_turnstiles: WeakKeyDictionary[asyncio.AbstractEventLoop, Turnstile] = WeakKeyDictionary()


class Slices:
    """The slices of one request. The first begins when this is made."""

    __slots__ = ("_end_s",)

    def __init__(self) -> None:
        self._end_s = thread_s() + SLICE_S

    @property
    def over(self) -> bool:
        """Whether others are to have their turn: for code that cannot wait, and ends its piece instead."""
        return thread_s() >= self._end_s

    async def turn(self) -> None:
        """Lets others have their turn when the slice is over. To be called after each step that takes more than a few
        microseconds."""
        if thread_s() >= self._end_s:
            await self.next()

    async def next(self) -> None:
        """Lets others have their turn, and begins the next slice."""
        loop = asyncio.get_running_loop()
        turnstile = _turnstiles.get(loop)
        if turnstile is None:
            turnstile = _turnstiles[loop] = Turnstile()
        await turnstile.turn()
        self._end_s = thread_s() + SLICE_S
