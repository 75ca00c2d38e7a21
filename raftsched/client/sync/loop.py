"""An event loop in a thread of its own, for programs without one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Safe to use from any number of threads. A fork has no thread: see `alive`."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="raftsched client", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False after `stop`, and in a process that was forked off."""
        return self._pid == os.getpid() and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Waits for it. Who is interrupted meanwhile, as by Ctrl-C, cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this would wait for itself; use AsyncClient in coroutines")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, make: Callable[[], AsyncIterator[_T]]) -> Iterator[_T]:
        """Gives the items of an asynchronous iterator, one at a time. Closed with the generator."""
        source = make()
        try:
            while (found := self.run(_next(source))) is not None:
                yield found[0]
        finally:
            if self.alive and hasattr(source, "aclose"):
                self.run(_close(source))

    def stop(self) -> None:
        if not self.alive:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        """Ends the loop where it ran: the thread that stops it may have one of its own that runs."""
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _next(source: AsyncIterator[_T]) -> tuple[_T] | None:
    try:
        return (await anext(source),)
    except StopAsyncIteration:
        return None


async def _close(source: Any) -> None:
    await source.aclose()
