"""Calls that may hang, each in a thread of its own: a store that does not answer holds up neither who else needs a
thread nor the end of the process. Who waits for a call gives up after a time; the call itself counts until it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Calls:
    def __init__(self, most: int) -> None:
        """`most`: calls at one time; others wait."""
        self._free = asyncio.Semaphore(most)

    async def make(self, call: Callable[[], T], timeout_s: float) -> T:
        """Returns what the call returns. Raises what it raises, TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._free.acquire()
            try:
                made = _in_thread(call)
            except BaseException:  # RuntimeError: there cannot be another thread now
                self._free.release()
                raise
            made.add_done_callback(self._over)
            return await asyncio.shield(made)

    def _over(self, made: asyncio.Future[T]) -> None:
        self._free.release()
        if not made.cancelled():
            made.exception()  # perhaps nobody waits for it any more


def _in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
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

    threading.Thread(target=run, name="output-store", daemon=True).start()
    return made
