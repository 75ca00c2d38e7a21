"""Virtual time: one scheduler, and an event loop per process that runs on it.

Each callback belongs to the loop of one process, so a killed process's callbacks vanish, a stopped one's (SIGSTOP) wait
until it goes on, and a slow one's come late. What asyncio itself is built of (Task, sleep, timeout, shield, gather)
works on such a loop unchanged.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import Future, Task
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

_set_running_loop = asyncio._set_running_loop


class Handle:
    """A callback that is due, or will be; cancelled when it has no callback."""

    __slots__ = ("args", "at", "callback", "context", "loop")

    def __init__(
        self, at: float, loop: Loop | None, callback: Callable[..., object] | None, args: Any, context: Context | None
    ) -> None:
        self.at = at
        self.loop = loop
        self.callback = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.at


class Scheduler:
    """The time of the world, in seconds from its beginning, and what happens in it, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.running: Loop | None = None  # whose callback runs
        self._count = 0
        self._heap: list[tuple[float, int, Handle]] = []
        self._ready: deque[Handle] = deque()

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> Handle:
        """Something that happens to the world itself, at a time."""
        return self.add(when, None, callback, args, None)

    def after(self, delay: float, callback: Callable[..., object], *args: Any) -> Handle:
        return self.add(self.now + delay, None, callback, args, None)

    def add(
        self, when: float, loop: Loop | None, callback: Callable[..., object], args: Any, context: Context | None
    ) -> Handle:
        handle = Handle(when, loop, callback, args, context)
        if when <= self.now:
            self._ready.append(handle)
        else:
            self._count += 1
            heapq.heappush(self._heap, (when, self._count, handle))
        return handle

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> bool:
        """Goes on to that time, or until `stop` (asked at every moment) says so; True when it did."""
        heap, ready = self._heap, self._ready
        try:
            while True:
                self._run_ready()
                if stop is not None and stop():
                    return True
                if not heap or heap[0][0] > until:
                    self.now = max(self.now, until)
                    return False
                self.now = now = heap[0][0]
                while heap and heap[0][0] <= now:
                    ready.append(heapq.heappop(heap)[2])
        finally:
            _set_running_loop(None)

    def _run_ready(self) -> None:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            callback = handle.callback
            if callback is None:
                continue
            loop = handle.loop
            if loop is None:
                callback(*handle.args)
            elif loop.dead:
                continue
            elif loop.busy_until > self.now or loop.waiting:
                loop.waiting.append(handle)
            else:
                self._run(loop, handle)

    def _run(self, loop: Loop, handle: Handle) -> None:
        self.steps += 1
        self.running = loop
        _set_running_loop(loop)
        try:
            if handle.context is None:
                handle.callback(*handle.args)  # type: ignore[misc]
            else:
                handle.context.run(handle.callback, *handle.args)  # type: ignore[arg-type]
        finally:
            self.running = None
            _set_running_loop(None)
        loop.stepped()
        if loop.cost and not loop.dead:
            loop.busy_until = max(loop.busy_until, self.now + loop.cost)
            self.at(loop.busy_until, self.wake, loop)

    def wake(self, loop: Loop) -> None:
        """A process that was stopped or busy goes on with what waits for it."""
        while loop.waiting and not loop.dead and loop.busy_until <= self.now:
            handle = loop.waiting.popleft()
            if handle.callback is not None:
                self._run(loop, handle)


class Server:
    """The result of create_server."""

    sockets: tuple[()] = ()  # nothing that a selector could watch

    def __init__(self, listen: Callable[[], Callable[[], None]]) -> None:
        """`listen` begins to, and returns what ends it."""
        self._listen = listen
        self._close: Callable[[], None] | None = None

    async def start_serving(self) -> None:
        if self._close is None:
            self._close = self._listen()

    def close(self) -> None:
        if self._close is not None:
            self._close()

    async def wait_closed(self) -> None:
        """Nothing is left to close."""


class Loop(asyncio.AbstractEventLoop):
    """The event loop of one process. `network` has create_connection and create_server; `stepped` is called after each
    callback; `crashed` with what a callback of asyncio's own reports."""

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        network: Any,
        stepped: Callable[[], None],
        crashed: Callable[[dict[str, Any]], None],
    ) -> None:
        self.name = name
        self.dead = False
        self.busy_until = 0.0
        self.cost = 0.0  # seconds that each callback takes
        self.thread_s: Callable[[], float] | None = None  # that what runs in a thread takes; None: none
        self.waiting: deque[Handle] = deque()
        self.stepped = stepped
        self._scheduler = scheduler
        self._network = network
        self._crashed = crashed
        self._tasks: list[Task[Any]] = []

    # ------------------------------------------------------------ faults

    def stop_until(self, when: float) -> None:
        """SIGSTOP, and SIGCONT at that time."""
        self.busy_until = max(self.busy_until, when)
        self._scheduler.at(when, self._scheduler.wake, self)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more."""
        self.dead = True
        self.waiting.clear()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                try:
                    task.get_coro().close()  # type: ignore[union-attr]
                except RuntimeError:  # it runs, or does not want to end: nobody will hear of it again
                    pass

    # ------------------------------------------------------------ what asyncio asks of a loop

    def time(self) -> float:
        return self._scheduler.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        return self._scheduler.add(0.0, self, callback, args, context)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:  # type: ignore[override]
        return self._scheduler.add(0.0, self, callback, args, context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self._scheduler.add(self._scheduler.now + delay, self, callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self._scheduler.add(when, self, callback, args, context)

    def create_future(self) -> Future[Any]:
        return Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None) -> Task[Any]:  # type: ignore[override]
        if len(self._tasks) > 64:
            self._tasks = [task for task in self._tasks if not task.done()]
        task = Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Future[Any]:  # type: ignore[override]
        """At once where threads take no time. Else it is done when its time is over: a kill before that undoes it."""
        future = self.create_future()
        if self.thread_s is None:
            future.set_result(func(*args))
        else:
            self.call_later(self.thread_s(), lambda: future.done() or future.set_result(func(*args)))
        return future

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return await self._network.connect(self, protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, start_serving: bool = True, **_: Any
    ) -> Any:
        server = Server(lambda: self._network.listen(self, protocol_factory, host, port))
        if start_serving:
            await server.start_serving()
        return server

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            self._crashed(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)
