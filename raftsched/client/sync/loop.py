"""An event loop in a thread of its own, for programs without one."""

from __future__ import annotations

import asyncio
import atexit
import os
import select
import selectors
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

_T = TypeVar("_T")

LAST_S = 2.0  # for the end of a client that nobody closed


class LoopThread:
    """Safe to use from any number of threads. A fork has no thread: see `alive`."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self.last: Callable[[], Coroutine[Any, Any, None]] | None = None  # done before it ends with the program
        self._ending: asyncio.Task[None] | None = None
        _LOOPS.add(self)
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
        if self._pid != os.getpid():
            work.close()
            raise RuntimeError("this was begun before this process was forked off; begin it again")
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

    def end(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Ends it once `last` is done, and does not wait for that: where nobody is there to wait."""

        async def ended() -> None:
            try:
                with suppress(Exception):
                    async with asyncio.timeout(LAST_S):
                        await last()
            finally:
                self._loop.stop()

        def begin() -> None:
            self._ending = self._loop.create_task(ended())

        if self.alive:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(begin)

    def end_with_program(self) -> None:
        """Ends it and waits, but not for long."""
        if self.alive and self.last is not None:
            self.end(self.last)
            self._thread.join(LAST_S)

    def part(self) -> None:
        """In a process that was forked off: takes the connections of its parent away from what was copied. Descriptors
        and epoll's list of them are shared: what closes a connection here would make the parent deaf for it, and its
        farewell would reach the parent's peer."""
        self._loop.set_exception_handler(lambda loop, context: None)  # of connections that nobody closed
        inherited = [key.fd for key in self._selector.get_map().values()] if not self._loop.is_closed() else []
        if inherited and isinstance(self._selector, selectors.EpollSelector):
            with select.epoll() as own:
                os.dup2(own.fileno(), self._selector.fileno(), inheritable=False)
        dead, other = socket.socketpair()
        other.close()
        with dead:
            for descriptor in inherited:
                os.dup2(dead.fileno(), descriptor, inheritable=False)

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


def _part_all() -> None:
    for one in list(_LOOPS):
        one.part()


def _end_all() -> None:
    for one in list(_LOOPS):
        one.end_with_program()


_LOOPS: weakref.WeakSet[LoopThread] = weakref.WeakSet()
atexit.register(_end_all)
os.register_at_fork(after_in_child=_part_all)
