"""python, for functions with `concurrency`: a process takes several runs of one function at a time, on one event loop.

What they print, say of themselves and read of their variables is told apart by the context of each run. Nothing else
is: the process is theirs together, and is looked at (remains.py) only when none of them is at work. A run ends when
its coroutine and all tasks that it began have ended. One that does not end when it is cancelled takes the process with
it (pool.py).
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import sys
from collections.abc import Coroutine, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from raftsched import handlers
from raftsched import run as own_run
from raftsched.run import Teller
from raftsched.system.clock import SystemClock
from raftsched.worker.executors.endings import Ending, Endings
from raftsched.worker.executors.functions import Changed, Function, begin, params_of
from raftsched.worker.executors.interpreter import Streams
from raftsched.worker.executors.remains import Remains
from raftsched.worker.executors.returned import check_run, encode_result
from raftsched.worker.executors.run_streams import RunOutput, context_streams
from raftsched.worker.processes import wire
from raftsched.worker.processes.service import OP_RUN, PACKET_HEAD, Shared

LOOK_EVERY = 64  # runs, between two looks at the memory of a process that is always at work


class _Run:
    __slots__ = ("asked", "main", "output", "started_at_ms", "task", "tasks", "teller", "token")

    def __init__(self, token: int, task: wire.Python, teller: Teller, output: RunOutput, started_at_ms: int) -> None:
        self.token = token
        self.task = task
        self.teller = teller
        self.output = output
        self.started_at_ms = started_at_ms
        self.asked = False  # to end
        self.main: asyncio.Task[Any] | None = None  # once it is at work
        self.tasks: set[asyncio.Task[Any]] = set()  # those that it began, and that have not ended

    def enter(self) -> None:
        """Makes this context the run's."""
        _current.set(self)
        own_run.in_context.set(self.teller)
        handlers.variables.set(self.task.env)


_current: contextvars.ContextVar[_Run | None] = contextvars.ContextVar("run", default=None)


class ConcurrentPython:
    """Runs in a process of its own; see service.py."""

    def __init__(self, pythonpath: Sequence[str], runs_max: int, memory_max: int, first: Sequence[str] = ()) -> None:
        """The process takes nothing new after `runs_max` runs, or with more than `memory_max` bytes in memory."""
        self._pythonpath = pythonpath
        self._runs_max = runs_max
        self._memory_max = memory_max
        self._first = first
        self._clock = SystemClock()

    def __call__(self, work: socket.socket, shared: Shared) -> None:
        self._functions = begin(self._pythonpath, self._clock, self._first)
        self._work = work
        self._outputs_fd = shared.outputs_fd
        self._runs: dict[int, _Run] = {}  # by token
        self._importing: _Run | None = None
        self._served = 0
        self._dirty = False
        self._answers: list[bytes] = []
        self._buffer = bytearray(wire.PACKET_MAX)
        self._view = memoryview(self._buffer)
        Streams().put_back()
        self._out, self._err = context_streams(self._output_now, sys.stdout, sys.stderr)  # type: ignore[arg-type]
        self._take_streams()
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._loop.set_task_factory(_task_of_run)
        self._loop.add_reader(work.fileno(), self._receive)
        os.register_at_fork(after_in_child=self._leave_runs)
        self._remains = Remains(work.fileno())
        self._endings = Endings()
        while True:
            try:
                self._loop.run_forever()
                return
            except (SystemExit, KeyboardInterrupt):  # of a task that a run began; whoever awaits it has it, too
                continue

    def _leave_runs(self) -> None:
        """Ends a child that a run forked, once it gets back to the loop: the others go on in the parent alone."""
        ready: Any = getattr(self._loop, "_ready")  # noqa: B009  # CPython's, and there is no other way to it
        ready.clear()
        self._loop.call_soon(os._exit, 0)

    def _take_streams(self) -> None:
        system: Any = sys
        if sys.stdout is not self._out or sys.stderr is not self._err:
            system.stdout, system.stderr = self._out, self._err

    def _output_now(self) -> RunOutput | None:
        run = _current.get() or self._importing
        return None if run is None else run.output

    # ------------------------------------------------------------ what comes

    def _receive(self) -> None:
        try:
            size = self._work.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if size == 0:
            self._loop.stop()
            return
        for packet in wire.framed(self._view[:size]):
            token, op = PACKET_HEAD.unpack_from(packet)
            if op == OP_RUN:
                self._begin(token, wire.decode_task(packet[PACKET_HEAD.size :]))
            else:
                self._cancel(token)

    def _begin(self, token: int, task: wire.Python) -> None:
        teller = Teller(partial(self._send_self_report, token))
        try:
            output = RunOutput(self._outputs_fd, token, task.hidden)
        except OSError:  # a run closed it
            os._exit(1)
        run = self._runs[token] = _Run(token, task, teller, output, self._clock.wall_ms())
        try:
            function = self._functions.known(task.function)
            if function is None:
                function = self._load(run)
        except Changed:
            self._answer(run, Ending(wire.LOST, flags=wire.STALE))
        except BaseException as exc:
            self._importing = run
            end = self._endings.of(exc, task, called=False)
            self._importing = None
            self._answer(run, end)
        else:
            self._loop.create_task(self._run(run, function), context=function.context(run.enter))

    def _load(self, run: _Run) -> Function:
        self._importing = run
        try:
            function = self._functions.load(run.task.function, run.task.allowed)
            self._take_streams()
            self._remains.imported()
            return function
        finally:
            self._importing = None

    def _cancel(self, token: int) -> None:
        run = self._runs.get(token)
        if run is not None and not run.asked:
            run.asked = True
            if run.main is not None:  # else a cancelled task would end without a step, and nobody would tell
                run.main.cancel()

    # ------------------------------------------------------------ runs

    async def _run(self, run: _Run, function: Function) -> None:
        end = Ending()
        run.main = asyncio.current_task()
        try:
            if run.asked:
                raise asyncio.CancelledError
            value = function.target(**function.arguments(params_of(run.task.params)))
            if asyncio.iscoroutine(value):
                value = await value
            check_run(value)
            end.result, end.error = encode_result(value)
        except BaseException as exc:
            if run.asked and isinstance(exc, asyncio.CancelledError):
                end.outcome = wire.FAILED  # what it was asked for counts, and the supervisor knows that
            else:
                end = self._endings.of(exc, run.task, called=True)
        while run.tasks:
            for task in list(run.tasks):  # what it cancels may begin others
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait(run.tasks)
        self._answer(run, end)

    def _answer(self, run: _Run, end: Ending) -> None:
        del self._runs[run.token]
        try:
            run.output.flush()
        except (OSError, ValueError):
            end.flags |= wire.DIRTY
        self._functions.note_new_modules(run.started_at_ms)
        self._served += 1
        if run.output.used:
            end.flags |= wire.WROTE
        if self._served % LOOK_EVERY == 0 and self._remains.larger(self._memory_max):
            self._dirty = True
        if not self._runs:
            self._take_streams()
            if self._remains.any(self._memory_max, True, threads=False):
                self._dirty = True
        if self._dirty or self._served >= self._runs_max:
            end.flags |= wire.DIRTY
        done = end.finished(run.token, run.started_at_ms, self._clock.wall_ms(), run.teller)
        self._answers.append(_packet(run.token, end.flags, wire.encode(done)))
        if len(self._answers) == 1:
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        """Sends the answers of the runs that ended in one turn of the loop."""
        answers, self._answers = self._answers, []
        while answers:
            size = count = 0
            for answer in answers:
                size += len(answer)
                if count and size > wire.PACKET_MAX:
                    break
                count += 1
            try:
                self._work.send(b"".join(answers[:count]))
            except OSError:  # a run closed it
                os._exit(1)
            del answers[:count]

    def _send_self_report(self, token: int, percent: int | None, text: str | None, kept: bytes | None) -> None:
        """Tells the supervisor what a run says of itself, unless there is no room for it now."""
        said = wire.encode(wire.Progress(token, wire.SelfReport(percent, text, kept)))
        with suppress(OSError):
            self._work.send(_packet(token, wire.SAYS, said), socket.MSG_DONTWAIT)


def _packet(token: int, flags: int, message: bytes) -> bytes:
    return wire.frame(PACKET_HEAD.pack(token, flags) + message)


def _task_of_run(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
) -> asyncio.Task[Any]:
    """Makes a task; the run that began it ends no sooner."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    run = _current.get()
    if run is not None:
        run.tasks.add(task)
        task.add_done_callback(run.tasks.discard)
    return task
