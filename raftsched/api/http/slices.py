"""Slices of time: work whose size a caller chooses is done in pieces of 2 ms, and others have their turn between them.

    slices = Slices()
    for row in rows:
        look_at(row)
        await slices.turn()

What is counted is processor time of the thread, so that a busy machine makes no slice shorter. All such work of an
event loop shares one slice in each of its iterations, however many requests there are, and those who made them are
served in turn: one caller's many requests cost another one piece each.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from weakref import WeakKeyDictionary

from raftsched.api.auth.callers import caller
from raftsched.system.clock import passed_s, thread_s

SLICE_S = 0.002  # of processor time between two turns of the event loop


class _Queue:
    """Gives the slices of one event loop to those who wait for one."""

    def __init__(self) -> None:
        self._end_s: float | None = None  # of the slice of this iteration; None: nobody has begun one
        self._waiting: OrderedDict[int | str, deque[asyncio.Future[None]]] = OrderedDict()  # by caller, in turn
        self._turning = False

    def end_s(self) -> float:
        """Returns when the slice of this iteration ends, in processor time of the thread."""
        if self._end_s is None:
            self._end_s = thread_s() + SLICE_S
            asyncio.get_running_loop().call_soon(self._forget)
        return self._end_s

    def _forget(self) -> None:
        self._end_s = None

    async def turn(self, owner: int | str) -> None:
        """Returns when it is the caller's turn, in an iteration of its own."""
        loop = asyncio.get_running_loop()  # not kept: queues go with their loops
        came = loop.create_future()
        self._waiting.setdefault(owner, deque()).append(came)
        if not self._turning:
            self._turning = True
            loop.call_soon(self._turn)
        await came

    def _turn(self) -> None:
        owner, futures = self._waiting.popitem(last=False)
        came = futures.popleft()
        if futures:
            self._waiting[owner] = futures  # behind all others
        self._turning = bool(self._waiting)
        if self._turning:
            asyncio.get_running_loop().call_soon(self._turn)
        self._end_s = None  # it begins when the one whose turn it is goes on
        if not came.done():
            came.set_result(None)


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()


def _queue() -> _Queue:
    loop = asyncio.get_running_loop()
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _Queue()
    return queue


class Slices:
    """The slices of one request. The first is what is left of that of this iteration of the event loop."""

    __slots__ = ("_end_s", "_look_s", "_owner")

    def __init__(self) -> None:
        who = caller()
        self._owner = who.actor or who.name
        self._end_s = _queue().end_s()
        self._look_s = 0.0  # by `passed_s`: before it the slice cannot be over, whatever this thread did

    @property
    def over(self) -> bool:
        """Returns whether others are to have their turn. To be asked after each step that takes more than a few
        microseconds."""
        now_s = passed_s()
        if now_s < self._look_s:
            return False
        left_s = self._end_s - thread_s()
        self._look_s = now_s + left_s
        return left_s <= 0

    async def turn(self) -> None:
        """Lets others have their turn when the slice is over."""
        if self.over:
            await self.next()

    async def next(self) -> None:
        """Lets others have their turn, and begins the next slice."""
        queue = _queue()
        await queue.turn(self._owner)
        self._end_s, self._look_s = queue.end_s(), 0.0
