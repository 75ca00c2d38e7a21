"""python: functions called in a process that is already there.

A run that leaves nothing behind costs a function call and two packets. What a run may change of the interpreter is put
back (interpreter.py). One that left something which cannot be put back is over only when its process is (remains.py);
the supervisor then replaces that process. So it does after many runs, when the process has grown, and when the file of
a module changed since it was imported (functions.py).
"""

from __future__ import annotations

import atexit
import math
import os
import resource
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from raftsched import run as own_run
from raftsched.run import Teller
from raftsched.system.clock import SystemClock
from raftsched.worker.executors.endings import Ending, Endings
from raftsched.worker.executors.functions import Changed, Function, Refused, begin, params_of
from raftsched.worker.executors.interpreter import KeeperContext, Streams
from raftsched.worker.executors.remains import Remains
from raftsched.worker.executors.returned import encode_result
from raftsched.worker.processes import wire
from raftsched.worker.processes.limits import confine
from raftsched.worker.processes.service import PACKET_HEAD, Shared


class PythonService:
    """Runs in a process of its own; see service.py."""

    def __init__(self, pythonpath: Sequence[str], runs_max: int, memory_max: int, first: Sequence[str] = ()) -> None:
        """The process ends after `runs_max` runs, or after the first one that leaves it with more than `memory_max`
        bytes in memory."""
        self._pythonpath = pythonpath
        self._runs_max = runs_max
        self._memory_max = memory_max
        self._first = first
        self._clock = SystemClock()

    def concurrent(self, work: socket.socket, shared: Shared) -> None:
        """Serves functions of which a process takes several runs at a time."""
        # Loaded where it is needed: asyncio would double the size of every process forked from the supervisor.
        from raftsched.worker.executors.concurrent_python import ConcurrentPython

        ConcurrentPython(self._pythonpath, self._runs_max, self._memory_max, self._first)(work, shared)

    def __call__(self, work: socket.socket, shared: Shared) -> None:
        self._functions = begin(self._pythonpath, self._clock, self._first)
        self._streams = Streams()
        self._context = KeeperContext()
        self._remains = Remains(work.fileno())
        self._endings = Endings()
        me = os.getpid()
        runs = 0
        buffer = bytearray(wire.PACKET_MAX)
        view = memoryview(buffer)
        while True:
            size = work.recv_into(buffer)
            if size == 0:
                return
            token, _op = PACKET_HEAD.unpack_from(buffer)
            task = wire.decode_task(view[PACKET_HEAD.size : size])
            shared.hide(task.hidden)
            reads = shared.reads
            own_run.in_process = teller = Teller(partial(_send_self_report, work, token))
            flags, done = self._run(token, task, teller)
            own_run.in_process = None
            if os.getpid() != me:  # a child forked by the function came back from it
                os._exit(0)
            self._functions.note_new_modules(done.started_at_ms or 0)
            runs += 1
            if self._remains.any(self._memory_max, done.outcome == wire.SUCCEEDED) or runs >= self._runs_max:
                flags |= wire.DIRTY
            if self._remains.printed or shared.reads != reads:
                flags |= wire.WROTE
            if not self._remains.can_answer:
                shared.answer = bytes((flags | wire.DIRTY,)) + wire.encode(done)
                return
            work.send(bytes((flags,)) + wire.encode(done))

    def _run(self, token: int, task: wire.Python, teller: Teller) -> tuple[int, wire.Finished]:
        started = self._clock.wall_ms()
        end, flags = Ending(), 0
        function: Function | None = None
        try:
            self._streams.put_back()
            self._surround(task)
            params = params_of(task.params)
            function = self._functions.known(task.function)
            if function is None:
                function = self._functions.load(task.function, task.allowed)
                self._remains.imported()
            if task.limits is not None:
                flags = wire.DIRTY  # they hold for the process, which therefore ends with this run
                used = resource.getrusage(resource.RUSAGE_SELF)
                confine(task.limits, math.ceil(used.ru_utime + used.ru_stime))
            value = function.call(params)
            self._functions.usual.put_back()  # first of all the depth of recursion, and what traces calls
            end.result, end.error = encode_result(value)
        except Changed:
            return wire.STALE, wire.Finished(token, wire.LOST, None, started)
        except BaseException as exc:
            if not isinstance(exc, Refused):
                self._functions.usual.put_back()
            end = self._endings.of(exc, task, called=function is not None)
        flags |= end.flags
        if task.fresh:
            flags |= wire.DIRTY
            atexit._run_exitfuncs()  # as at the end of any process
        if not self._streams.flush():
            flags |= wire.DIRTY
        return flags, end.finished(token, started, self._clock.wall_ms(), teller)

    def _surround(self, task: wire.Python) -> None:
        self._context.put_back(task.env)
        try:
            self._context.enter(task.cwd)
        except OSError as exc:
            raise Refused(f"cannot work in cwd {task.cwd!r}: {exc.strerror}") from None
        if task.within is not None:
            from raftsched.core.rules.allowed import directory_error

            wrong = directory_error(os.getcwd(), tuple(map(os.path.realpath, task.within)))
            if wrong is not None:
                raise Refused(f"this node {wrong}")


def _send_self_report(
    work: socket.socket, token: int, percent: int | None, text: str | None, kept: bytes | None
) -> None:
    """Tells the supervisor what the run says of itself, unless there is no room for it now."""
    packet = bytes((wire.SAYS,)) + wire.encode(wire.Progress(token, wire.SelfReport(percent, text, kept)))
    with suppress(OSError):
        work.send(packet, socket.MSG_DONTWAIT)
