"""python: functions called in a process that is already there.

A run that leaves nothing behind costs a function call and two packets. What a run may change of the interpreter is put
back (interpreter.py). One that left something which cannot be put back is over only when its process is (remains.py);
the supervisor then replaces that process. So it does after many runs, when the process has grown, and when the file of
a module changed since it was imported (functions.py).
"""

from __future__ import annotations

import atexit
import builtins
import json
import math
import os
import resource
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgspec

from raftsched import run as own_run
from raftsched.output.format.redaction import redact_text
from raftsched.run import Teller, Word
from raftsched.system.clock import SystemClock
from raftsched.worker.executors.functions import Changed, Function, Functions, Refused
from raftsched.worker.executors.interpreter import KeeperContext, Streams
from raftsched.worker.executors.raised import described, error_of
from raftsched.worker.executors.remains import Remains, printed
from raftsched.worker.executors.returned import NotRun, encode_result
from raftsched.worker.processes import wire
from raftsched.worker.processes.limits import blamed, confine
from raftsched.worker.processes.linux import become_subreaper
from raftsched.worker.processes.service import PACKET_HEAD, Shared

_LAST_WORDS = 300  # characters of a traceback that say what it came to
_EXIT_AT_IMPORT = "the module of the function ended the process when it was imported, and nothing was called"


class PythonService:
    """Runs in a process of its own; see service.py."""

    def __init__(self, pythonpath: Sequence[str], runs_max: int, memory_max: int) -> None:
        """The process ends after `runs_max` runs, or after the first one that leaves it with more than `memory_max`
        bytes in memory."""
        self._pythonpath = pythonpath
        self._runs_max = runs_max
        self._memory_max = memory_max
        self._clock = SystemClock()

    def __call__(self, work: socket.socket, shared: Shared) -> None:
        become_subreaper()  # so that "I have no children" means that no run left any process
        sys.path[:0] = self._pythonpath
        sys.argv = ["raftsched-python"]
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        self._functions = Functions([*self._pythonpath, *filter(None, given)], self._clock)
        self._streams = Streams()
        self._context = KeeperContext()
        self._remains = Remains(work.fileno())
        self._builtins = dict(vars(builtins))
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
            if runs >= self._runs_max or self._remains.any(self._memory_max, done.outcome == wire.SUCCEEDED):
                flags |= wire.DIRTY
            if printed() or shared.reads != reads:
                flags |= wire.WROTE
            if not self._remains.can_answer():
                shared.answer = bytes((flags | wire.DIRTY,)) + wire.encode(done)
                return
            work.send(bytes((flags,)) + wire.encode(done))

    def _run(self, token: int, task: wire.Python, teller: Teller) -> tuple[int, wire.Finished]:
        started = self._clock.wall_ms()
        outcome, exit_code, error, result, flags = wire.SUCCEEDED, None, None, None, 0
        verdict, delay_ms = 0, None
        function: Function | None = None
        try:
            self._streams.put_back()
            self._surround(task)
            params = json.loads(task.params) if task.params not in (b"", b"{}") else {}
            if not isinstance(params, dict):
                raise Refused("params of a python handler are keyword arguments, so they have to be a JSON object")
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
            result, error = encode_result(value)
        except Changed:
            return wire.STALE, wire.Finished(token, wire.LOST, None, started)
        except (Refused, NotRun) as exc:
            outcome, error, flags = wire.FAILED, str(exc), wire.DIRTY
            _write_error(f"raftsched: {exc}\n")
        except SystemExit as exc:
            self._functions.usual.put_back()
            exit_code, said = _exit_of(exc)
            if said is not None:
                _write_error(f"{said}\n")
            if function is None:
                outcome, flags = wire.FAILED, wire.DIRTY
                what = f"{_EXIT_AT_IMPORT}: exit code {exit_code}"
                error = wire.failure(what, redact_text(said or "", task.hidden) or "")
            elif exit_code:
                outcome = wire.FAILED
                error = wire.failure(f"exit code {exit_code}", redact_text(said or "", task.hidden) or "")
        except Word as exc:
            self._functions.usual.put_back()
            outcome, verdict, delay_ms = wire.FAILED, exc.verdict, exc.delay_ms
            if function is None:
                flags = wire.DIRTY  # half imported
            error = redact_text(_reason_of(exc), task.hidden) or None
        except BaseException as exc:
            self._functions.usual.put_back()
            outcome, error, sound = wire.FAILED, *self._told(exc, task)
            if function is None or not sound:
                flags = wire.DIRTY  # half imported, or what the next run could not work with; it begins anew
        if task.fresh:
            flags |= wire.DIRTY
            atexit._run_exitfuncs()  # as at the end of any process
        if not self._streams.flush():
            flags |= wire.DIRTY
        ended = max(self._clock.wall_ms(), started)
        if error is not None:
            error = wire.shorten(error)
        done = wire.Finished(token, outcome, started, ended, exit_code, error, result)
        if verdict or teller.said:
            words = wire.SelfReport(teller.percent, teller.text, teller.kept, verdict, delay_ms)
            done = msgspec.structs.replace(done, said=words)
        return flags, done

    def _told(self, exc: BaseException, task: wire.Python) -> tuple[str, bool]:
        """Prints what a function raised. Returns the error of its run, and whether the process is fit for another."""
        try:
            text = redact_text(described(exc), task.hidden) or ""  # before it is cut: a piece would not be found
            error = error_of(exc, task.hidden, blamed(task.limits, None, text.rstrip()[-_LAST_WORDS:]))
            sound = True
        except BaseException as failed:  # something that the interpreter needs was replaced in this process
            error, sound = f"{type(exc).__name__}: <cannot be described: {type(failed).__name__}>", False
            text = f"{error}\n"
        return error, _write_error(text) and sound and vars(builtins) == self._builtins

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


def _exit_of(exc: SystemExit) -> tuple[int, str | None]:
    """The exit code of a process that ends by it, and what it says on stderr (as CPython's handle_system_exit)."""
    code: object = exc.code
    if code is None:
        return 0, None
    if isinstance(code, int):
        return (code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF), None
    try:
        text = str(code)
    except BaseException:  # an object of the function's
        text = f"<{type(code).__name__} object, str() failed>"
    return 1, text.encode("utf-8", "backslashreplace").decode()


def _reason_of(exc: Word) -> str:
    try:
        return str(exc)
    except BaseException:  # of a subclass of the function's own
        return ""


def _write_error(text: str) -> bool:
    """Returns False where stderr, which is the job's, did not take it."""
    try:
        sys.stderr.write(text)
    except BaseException:
        return False
    return True
