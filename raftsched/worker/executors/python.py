"""python: functions called in a process that is already there.

A run that leaves nothing behind costs a function call and two packets. Environment and directory are set anew for each.
One that leaves threads or processes behind, that exchanged stdout or stderr, or that changed what is common to a
process, such as its signal handlers, limits or user, is over only when its process is; the supervisor then replaces
that process. The same happens when the file of the function's module changed since it was imported.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.getsignal() makes an enum of what this one says
import _thread
import fcntl
import importlib
import json
import math
import os
import resource
import signal
import socket
import struct
import sys
import termios
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import msgspec

from raftsched.clock import SystemClock
from raftsched.worker import cgroup, wire
from raftsched.worker.hiding import hide_in_text
from raftsched.worker.limits import OOM_SCORE, blamed, confine
from raftsched.worker.processes import become_subreaper, has_children, oom_score
from raftsched.worker.service import PACKET_HEAD, Shared

RESULT_MAX = 8 * 1024  # bytes of JSON
_LAST_WORDS = 300  # characters of a traceback that say what it came to

_INT = struct.Struct("@i")
_SIGNALS = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGALRM),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGCONT, signal.SIGXCPU),
)
_RLIMITS = sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")})


class _Refused(Exception):
    """Why the function could not be called."""


class _Changed(Exception):
    """The module's file is not the one that was imported."""


class _Functions:
    """The functions found so far, each with the file of its module and that file's modification time."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Callable[..., Any], str | None, int]] = {}

    def get(self, name: str) -> Callable[..., Any]:
        """Raises _Refused, _Changed, and whatever the module raises."""
        known = self._known.get(name)
        if known is not None:
            function, origin, mtime = known
            if origin is not None and _mtime(origin) != mtime:
                raise _Changed
            return function
        module_name, colon, path = name.partition(":")
        if not colon or not module_name or not path:
            raise _Refused(f'{name!r} names no function; write "package.module:function"')
        importlib.invalidate_caches()
        module = importlib.import_module(module_name)
        origin = getattr(module.__spec__, "origin", None)
        target: Any = module
        for part in path.split("."):
            try:
                target = getattr(target, part)
            except AttributeError:
                raise _Refused(f"module {module_name!r} has no {path!r}") from None
        if not callable(target):
            raise _Refused(f"{name!r} is a {type(target).__name__}, not a function")
        if origin is not None and not os.path.isfile(origin):
            origin = None
        self._known[name] = (target, origin, _mtime(origin) if origin else 0)
        return target  # type: ignore[no-any-return]


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


class PythonService:
    """Runs in a process of its own; see service.py."""

    def __init__(self, pythonpath: Sequence[str], cgroups: str | None = None) -> None:
        self._pythonpath = pythonpath
        self._cgroups = cgroups
        self._clock = SystemClock()
        self._functions = _Functions()

    def __call__(self, work: socket.socket, shared: Shared) -> None:
        oom_score(OOM_SCORE)
        become_subreaper()  # so that "I have no children" means that no run left any process
        sys.path[:0] = self._pythonpath
        sys.argv = ["raftsched-python"]
        sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115  (for as long as the process lives)
        sys.stdout = _text(1)
        sys.stderr = _text(2)
        self._home = os.getcwd()
        self._env = dict(os.environb)
        self._attributes = _attributes()
        self._files = (os.fstat(1).st_ino, os.fstat(2).st_ino)
        me = os.getpid()
        buffer = bytearray(wire.PACKET_MAX)
        view = memoryview(buffer)
        while True:
            size = work.recv_into(buffer)
            if size == 0:
                return
            token, _op = PACKET_HEAD.unpack_from(buffer)
            task = wire.decode_task(view[PACKET_HEAD.size : size])
            shared.token = token
            shared.hide(task.hidden)
            reads = shared.reads
            flags, done = self._run(token, task)
            if os.getpid() != me:  # a child forked by the function came back from it
                os._exit(0)
            flags |= self._left_behind()
            if self._printed() or shared.reads != reads:
                flags |= wire.WROTE
            work.send(bytes((flags,)) + wire.encode(done))

    def _run(self, token: int, task: wire.Python) -> tuple[int, wire.Done]:
        started = self._clock.wall_ms()
        outcome, exit_code, error, result, flags = wire.SUCCEEDED, None, None, None, 0
        function: Callable[..., Any] | None = None
        try:
            self._surround(task)
            params = json.loads(task.params) if task.params not in (b"", b"{}") else {}
            if not isinstance(params, dict):
                raise _Refused("params of a python handler are keyword arguments, so they have to be a JSON object")
            function = self._functions.get(task.function)
            if task.limits is not None:
                flags = wire.DIRTY  # they hold for the process, which therefore ends with this run
                used = resource.getrusage(resource.RUSAGE_SELF)
                confine(task.limits, cgroup.of_run(self._cgroups, token), math.ceil(used.ru_utime + used.ru_stime))
            value = function(**params)
            if isinstance(value, types.CoroutineType):
                import asyncio

                value = asyncio.run(value)
            result, error = encode_result(value)
        except _Changed:
            return wire.STALE, wire.Done(token, wire.LOST, None, started)
        except _Refused as exc:
            outcome, error, flags = wire.FAILED, str(exc), wire.DIRTY
            print(f"raftsched: {exc}", file=sys.stderr)
        except SystemExit as exc:
            exit_code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
            if exit_code:
                outcome, error = wire.FAILED, f"exit code {exit_code}"
                if not isinstance(exc.code, int):
                    error += f"\n{exc.code}"
                    print(exc.code, file=sys.stderr)
        except BaseException as exc:
            text = "".join(traceback.format_exception(type(exc), exc, _outside(exc.__traceback__)))
            text = hide_in_text(text, task.hidden) or ""  # before it is cut: a piece would not be found
            outcome, error = wire.FAILED, wire.shorten(text.rstrip())
            why = blamed(task.limits, None, error[-_LAST_WORDS:])
            if why is not None:
                error = wire.shorten(f"{error}\n{why}")
            if function is None:
                flags = wire.DIRTY  # half imported; the next run begins anew
            try:
                sys.stderr.write(text)
            except Exception:  # stderr is the job's; it may have closed it
                flags = wire.DIRTY
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            flags = wire.DIRTY
        ended = max(self._clock.wall_ms(), started)
        return flags, wire.Done(token, outcome, started, ended, exit_code, error, result)

    def _surround(self, task: wire.Python) -> None:
        env = {**self._env, **{os.fsencode(key): os.fsencode(value) for key, value in task.env.items()}}
        there: dict[bytes, bytes] = os.environb._data  # type: ignore[attr-defined]  # through the mapping: 25 us a run
        for key in there.keys() - env.keys():
            del os.environb[key]
        for key, value in env.items():
            if there.get(key) != value:
                os.environb[key] = value
        wanted = task.cwd or self._home
        if os.getcwd() != wanted:
            try:
                os.chdir(wanted)
            except OSError as exc:
                raise _Refused(f"cannot work in cwd {wanted!r}: {exc.strerror}") from None

    def _left_behind(self) -> int:
        if _thread._count() or has_children() or _attributes() != self._attributes:
            return wire.DIRTY
        try:
            same = (os.fstat(1).st_ino, os.fstat(2).st_ino) == self._files
        except OSError:
            same = False
        return 0 if same else wire.DIRTY

    def _printed(self) -> bool:
        """True when output waits in a pipe. What is not there any more was counted by the keeper."""
        try:
            return any(_INT.unpack(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0] for fd in (1, 2))
        except OSError:
            return True


def _attributes() -> tuple[object, ...]:
    """What a function can change of its process so that the next one would run differently."""
    umask = os.umask(0o77)
    os.umask(umask)
    return (
        umask,
        os.getresuid(),
        os.getresgid(),
        os.getpriority(os.PRIO_PROCESS, 0),
        [_signal.getsignal(number) for number in _SIGNALS],
        _signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        [signal.getitimer(timer) for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)],
        [resource.getrlimit(number) for number in _RLIMITS],
    )


def _outside(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Without the leading frames that are ours and the import machinery's."""
    own = (
        __file__,
        importlib.__file__,
        "<frozen importlib._bootstrap>",
        "<frozen importlib._bootstrap_external>",
    )
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace


def _text(fd: int) -> TextIO:
    return open(fd, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace")


def encode_result(value: Any) -> tuple[bytes | None, str | None]:
    """(JSON, None), or (None, why there is none): the run did its work and is not failed for it."""
    if value is None:
        return None, None
    try:
        raw = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as exc:
        return None, f"the result was dropped: it cannot be written as JSON ({exc})"
    if len(raw) > RESULT_MAX:
        return None, f"the result was dropped: {len(raw)} bytes of JSON, the limit is {RESULT_MAX}"
    return raw, None
