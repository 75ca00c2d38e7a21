"""Calls that may hang, each in a thread of its own: a store or a receiver that does not answer holds up neither who
else needs a thread nor the end of the process. Who waits for a call gives up after a time, and what it reads from a
network ends then; the call itself counts until it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from raftsched.objectstore.waiting import Waiter, waited_for

T = TypeVar("T")


class Calls:
    def __init__(self, most: int) -> None:
        """`most`: calls at one time; others wait."""
        self._free = asyncio.Semaphore(most)

    async def make(self, call: Callable[[], T], timeout_s: float) -> T:
        """Returns what the call returns. Raises what it raises, TimeoutError."""
        waiter = Waiter(timeout_s)
        async with asyncio.timeout(timeout_s):
            await self._free.acquire()
            try:
                made = in_daemon_thread(partial(_as_long_as, waiter, call), "output-store")
            except BaseException:  # RuntimeError: there cannot be another thread now
                self._free.release()
                raise
            made.add_done_callback(self._over)
            try:
                return await asyncio.shield(made)
            finally:
                waiter.give_up()

    def _over(self, made: asyncio.Future[T]) -> None:
        self._free.release()
        if not made.cancelled():
            made.exception()  # perhaps nobody waits for it any more


def _as_long_as(waiter: Waiter, call: Callable[[], T]) -> T:
    with waited_for(waiter):
        return call()


def in_daemon_thread(call: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Begins it in a thread of its own, which does not keep the process from ending, and returns what it will return.
    Who waits for that and is cancelled, leaves the thread behind."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if made.cancelled():
            return
        if error is None:
            made.set_result(result)  # type: ignore[arg-type]  # it is None where T is
        else:
            made.set_exception(error)

    def run() -> None:
        result, failed = None, None
        try:
            result = call()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed: the node has stopped
            loop.call_soon_threadsafe(tell, result, failed)

    threading.Thread(target=run, name=name, daemon=True).start()
    return made
