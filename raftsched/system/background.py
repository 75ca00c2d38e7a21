"""Tasks and timers of a node that nobody waits for. Each has a name. What one raises is counted and told to the log; it
ends no other, and one that is done again and again goes on.

The counts are those of the process, by name: `/metrics` shows them, and an alert rings when they grow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from types import TracebackType
from typing import Any, Literal, TypeVar, get_args
from weakref import WeakSet

TaskName = Literal[
    "api-connections",
    "barrier",
    "bookkeeping",
    "changes",
    "handlers",
    "leader",
    "leader-work",
    "oidc-keys",
    "other",
    "output",
    "output-copies",
    "output-shipping",
    "output-store",
    "peers",
    "systemd",
    "tls",
    "webpage",
    "worker",
    "workers",
]
NAMES: tuple[TaskName, ...] = get_args(TaskName)
_TOLD_MAX = 1_000  # faults that are remembered

log = logging.getLogger(__name__)
T = TypeVar("T")

failures: Counter[TaskName] = Counter()
_told: set[tuple[str, str, int]] = set()  # (name, file, line)
_owned: WeakSet[asyncio.Task[Any]] = WeakSet()


def note(name: TaskName, error: BaseException, words: str = "") -> None:
    """Counts what a task raised, and tells the log when it comes from this line for the first time. `words`: what it
    was about. Never raises, also where memory has run out."""
    failures[name] += 1
    with suppress(Exception):
        place = (name, *_origin(error.__traceback__))
        if place in _told:
            return
        if len(_told) >= _TOLD_MAX:
            _told.clear()
        _told.add(place)
        about = f" ({words})" if words else ""
        log.error("the task %s met a fault%s, and goes on; it is only counted from now on", name, about, exc_info=error)


def _origin(trace: TracebackType | None) -> tuple[str, int]:
    """Returns file and line of where it was raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancels a task, and returns when it has ended."""
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task])


def start(name: TaskName, work: Coroutine[Any, Any, T], context: Context | None = None) -> asyncio.Task[T]:
    """Returns a task that does the work. Who waits for it gets what it raises, which is noted in any case."""
    task = asyncio.get_running_loop().create_task(work, name=name, context=context)
    _owned.add(task)
    task.add_done_callback(lambda done: _look(name, done))
    return task


def repeat(name: TaskName, do: Callable[[], Awaitable[object] | None], each_s: float) -> asyncio.Task[None]:
    """Returns a task that does it again and again until it is cancelled, each time `each_s` seconds later."""

    async def go_on() -> None:
        while True:
            await asyncio.sleep(each_s)
            try:
                doing = do()
                if doing is not None:
                    await doing
            except Exception as error:
                note(name, error)

    return start(name, go_on())


def guarded(name: TaskName, callback: Callable[..., object]) -> Callable[..., None]:
    """Returns a callback for a timer that notes what it raises."""

    def call(*args: object) -> None:
        try:
            callback(*args)
        except Exception as error:
            note(name, error)

    return call


def told() -> list[str]:
    """Returns where the faults came from that the log was told of: task, file and line."""
    return sorted(f"{name} {file}:{line}" for name, file, line in _told)


def forget() -> None:
    """Begins to count anew, for tests."""
    failures.clear()
    _told.clear()


def is_owned(task: asyncio.Task[Any]) -> bool:
    """Returns whether what the task raises is noted here."""
    return task in _owned


def on_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's handler (`set_exception_handler`) of what nobody has handled."""
    error = context.get("exception")
    if isinstance(error, Exception):
        note("other", error, str(context.get("message", "")))
    else:
        loop.default_exception_handler(context)


def _look(name: TaskName, task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        note(name, error)
