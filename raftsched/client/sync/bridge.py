"""The way from any thread to an AsyncClient in a thread of its own, and back."""

from __future__ import annotations

import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar

from raftsched.client.aio import AsyncClient
from raftsched.client.errors import ClientError
from raftsched.client.sync.loop import LoopThread

_T = TypeVar("_T")


class Bridge(Protocol):
    def run(self, work: Callable[[AsyncClient], Coroutine[Any, Any, _T]]) -> _T:
        """Waits for it."""

    def each(self, work: Callable[[AsyncClient], AsyncIterator[_T]]) -> Iterator[_T]:
        """One after the other, as they are asked for."""


class Threaded:
    """The thread is started when it is needed first. Safe to use from any number of threads."""

    def __init__(self, make: Callable[[], AsyncClient]) -> None:
        self._make = make
        self._inner = make()  # says at once what is wrong with the addresses
        self._thread: LoopThread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._unclosed: weakref.finalize[[Callable[[], Coroutine[Any, Any, None]]], Threaded] | None = None

    def run(self, work: Callable[[AsyncClient], Coroutine[Any, Any, _T]]) -> _T:
        thread = self._running()
        try:
            return thread.run(work(self._inner))
        except ClientError as error:  # how it came through threads and tasks says nothing to the caller
            raise error.with_traceback(None) from None

    def each(self, work: Callable[[AsyncClient], AsyncIterator[_T]]) -> Iterator[_T]:
        thread = self._running()
        return _shortly(thread.each(lambda: work(self._inner)))

    def close(self) -> None:
        """Creates that are under way are answered first."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
            if self._unclosed is not None:
                self._unclosed.detach()
        if thread is not None and thread.alive:
            thread.run(self._inner.close())
            thread.stop()

    def _running(self) -> LoopThread:
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if self._thread is None or not self._thread.alive:
                if self._thread is not None:  # in a process that was forked off: the connections are its parent's
                    self._inner = self._make()
                    if self._unclosed is not None:
                        self._unclosed.detach()
                self._thread = LoopThread()
                # A client that nobody closes is closed with its last reference, or at the end of the program.
                self._unclosed = weakref.finalize(self, self._thread.end, self._inner.close)
                self._unclosed.atexit = False  # loop.py waits for it then
                self._thread.last = self._inner.close
            return self._thread


def _shortly(items: Iterator[_T]) -> Iterator[_T]:
    """Gives the items; an error of the client is raised without the way that it came."""
    try:
        yield from items
    except ClientError as error:
        raise error.with_traceback(None) from None


class Within:
    """Another bridge, with a time for each call."""

    def __init__(self, bridge: Bridge, seconds: float) -> None:
        self._bridge = bridge
        self._seconds = seconds

    def run(self, work: Callable[[AsyncClient], Coroutine[Any, Any, _T]]) -> _T:
        return self._bridge.run(lambda c: work(c.within(self._seconds)))

    def each(self, work: Callable[[AsyncClient], AsyncIterator[_T]]) -> Iterator[_T]:
        return self._bridge.each(lambda c: work(c.within(self._seconds)))
