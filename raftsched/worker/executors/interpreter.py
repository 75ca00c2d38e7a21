"""Puts back what a python run may change of the interpreter and later runs would notice.

Each of these is as in a process of the next run's own: standard streams, directory, environment with its time zone,
umask, random numbers, and the settings in Values. Modules stay as they are: they are imported once in a process.
"""

from __future__ import annotations

import _locale  # the module locale costs a millisecond, and all that is needed is here
import ctypes
import gc
import io
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_libc = ctypes.CDLL(None)
_flush_c = _libc.fflush
_flush_c.argtypes = (ctypes.c_void_p,)
_ALL = _locale.LC_ALL
_ENCODING = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()
_UNKNOWN = b"?"  # no time zone


class Values:
    """Settings of the interpreter as they are now."""

    __slots__ = (
        *("_argv", "_asyncgen", "_debug", "_digits", "_garbage", "_hooks", "_locale", "_loops", "_origin", "_path"),
        *("_recursion", "_switch", "_thresholds", "_timeout"),
    )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._recursion = sys.getrecursionlimit()
        self._timeout = socket.getdefaulttimeout()
        self._locale = _locale.setlocale(_ALL, None)
        self._path = list(sys.path)
        self._argv = list(sys.argv)
        self._hooks = (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook)
        self._digits = sys.get_int_max_str_digits()
        self._switch = sys.getswitchinterval()
        self._asyncgen = sys.get_asyncgen_hooks()
        self._origin = sys.get_coroutine_origin_tracking_depth()
        self._debug = gc.get_debug()
        self._garbage = gc.isenabled()
        self._thresholds = gc.get_threshold()
        self._loops = _loop_policy()

    def put_back(self) -> None:
        sys.setrecursionlimit(self._recursion)
        if sys.gettrace() is not None:
            sys.settrace(None)
        if sys.getprofile() is not None:
            sys.setprofile(None)
        if socket.getdefaulttimeout() != self._timeout:
            socket.setdefaulttimeout(self._timeout)
        if _locale.setlocale(_ALL, None) != self._locale:
            with suppress(Exception):
                _locale.setlocale(_ALL, self._locale)
        if sys.path != self._path:
            sys.path = list(self._path)
        if sys.argv != self._argv:
            sys.argv = list(self._argv)
        if (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook) != self._hooks:
            sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook = self._hooks
        if sys.get_int_max_str_digits() != self._digits:
            sys.set_int_max_str_digits(self._digits)
        if sys.getswitchinterval() != self._switch:
            sys.setswitchinterval(self._switch)
        if sys.get_asyncgen_hooks() != self._asyncgen:
            sys.set_asyncgen_hooks(*self._asyncgen)
        if sys.get_coroutine_origin_tracking_depth() != self._origin:
            sys.set_coroutine_origin_tracking_depth(self._origin)
        if gc.get_debug() != self._debug:
            gc.set_debug(self._debug)
        if gc.isenabled() != self._garbage:
            (gc.enable if self._garbage else gc.disable)()
        if gc.get_threshold() != self._thresholds:
            gc.set_threshold(*self._thresholds)
        events: Any = sys.modules.get("asyncio.events")
        if events is not None and hasattr(events, "_event_loop_policy"):
            events._event_loop_policy = self._loops  # a new default one says again that no loop was set


def _loop_policy() -> Any:
    return getattr(sys.modules.get("asyncio.events"), "_event_loop_policy", None)


class Streams:
    """stdin, stdout and stderr of the runs."""

    def __init__(self) -> None:
        self._inherited = (sys.__stdin__, sys.__stdout__, sys.__stderr__)  # kept: their end would close descriptors
        self._in, self._out, self._err = _reader(), _writer(1), _writer(2)

    def put_back(self) -> None:
        """The same objects as before, as long as they are usable and as they were."""
        if sys.stdout is self._out and sys.stderr is self._err and sys.stdin is self._in and self._sound():
            return
        system: Any = sys  # whose second names for them are final to type checkers
        system.stdin = system.__stdin__ = self._in
        system.stdout = system.__stdout__ = self._out
        system.stderr = system.__stderr__ = self._err
        # Only now: what was in their place may have closed them as it went, as a second wrapper of a buffer does.
        if not _sound(self._in):
            self._in = system.stdin = system.__stdin__ = _reader()
        if not _sound(self._out):
            self._out = system.stdout = system.__stdout__ = _writer(1)
        if not _sound(self._err):
            self._err = system.stderr = system.__stderr__ = _writer(2)

    def _sound(self) -> bool:
        return _sound(self._out) and _sound(self._err) and _sound(self._in)

    def flush(self) -> bool:
        """Flushes what was printed to the descriptors, also what C libraries still hold. False: not all of it could."""
        done = True
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:  # it is the job's; it may have closed it
                done = False
        if sys.stdout is not self._out or sys.stderr is not self._err:
            for stream in (self._out, self._err):
                with suppress(Exception):
                    stream.flush()
        _flush_c(None)
        return done


class _Writer(io.TextIOWrapper):
    """Notes what cannot be read from it: how it ends lines."""

    lines_changed = False

    def reconfigure(self, **settings: Any) -> None:
        self.lines_changed |= "newline" in settings
        super().reconfigure(**settings)


def _reader() -> Any:
    return open(0, closefd=False, encoding="utf-8")


def _writer(fd: int) -> Any:
    raw = io.BufferedWriter(io.FileIO(fd, "wb", closefd=False))
    writer = _Writer(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    writer.mode = "w"  # type: ignore[misc]  # as open() does
    return writer


def _sound(stream: Any) -> bool:
    try:
        if stream.closed or stream.encoding != "utf-8":
            return False
        return not stream.writable() or (
            stream.line_buffering
            and not stream.write_through
            and not stream.lines_changed
            and stream.errors == "backslashreplace"
        )
    except ValueError:  # detached
        return False


class KeeperContext:
    """Directory, environment, time zone and umask of the runs."""

    def __init__(self) -> None:
        try:
            self._home = os.getcwd()
        except OSError:  # the directory that the node was started in is gone
            self._home = "/"
            os.chdir("/")
        self._env = dict(os.environb)
        self._environ = (os.environ, os.environb)
        self._set = dict(self._env)  # what the last run began with
        self._variables: Mapping[str, str] = {}
        self._zone: bytes | None = _UNKNOWN
        self._umask = os.umask(0o77)
        os.umask(self._umask)
        self._set_zone()

    def put_back(self, variables: Mapping[str, str]) -> None:
        """The environment of the node, with these `variables` on top."""
        if os.environ is not self._environ[0] or os.environb is not self._environ[1]:
            os.environ, os.environb = self._environ
        there: dict[bytes, bytes] = os.environb._data  # type: ignore[attr-defined]  # through the mapping: 25 us a run
        if there == self._set:  # the run before changed nothing
            before = self._variables
            for name in before.keys() - variables.keys():
                key = name.encode(_ENCODING, _ERRORS)
                self._put(there, key, self._env.get(key))
            for name, value in variables.items():
                if before.get(name) != value:
                    self._put(there, name.encode(_ENCODING, _ERRORS), value.encode(_ENCODING, _ERRORS))
        else:
            env = self._env | {n.encode(_ENCODING, _ERRORS): v.encode(_ENCODING, _ERRORS) for n, v in variables.items()}
            for key in there.keys() | env.keys():
                if there.get(key) != env.get(key):
                    self._put(there, key, env.get(key))
            self._zone = _UNKNOWN  # set it in any case: a C library may have looked at the environment meanwhile
        self._set = there.copy()
        self._variables = variables
        if there.get(b"TZ") != self._zone or _zone_words() != self._zone_words:
            self._set_zone()
        os.umask(self._umask)
        for name in ("random", "numpy.random"):
            module = sys.modules.get(name)
            if module is not None:
                with suppress(Exception):  # whatever goes by that name
                    module.seed()

    def _put(self, there: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
        if value is None:
            os.unsetenv(key)
            del there[key]
        else:
            os.putenv(key, value)
            there[key] = value

    def enter(self, wanted: str | None) -> None:
        """Raises OSError when `wanted` cannot be entered; None: where the node was started, or else the root."""
        try:
            there = os.getcwd()
        except OSError:  # a directory that is gone
            there = ""
        if wanted is not None:
            if there != wanted:
                os.chdir(wanted)
        elif there != self._home:
            try:
                os.chdir(self._home)
            except OSError:
                os.chdir("/")

    def _set_zone(self) -> None:
        self._zone = os.environb.get(b"TZ")
        if self._zone is None:
            os.unsetenv(b"TZ")  # it may have been set past os.environ
        else:
            os.putenv(b"TZ", self._zone)
        time.tzset()
        self._zone_words = _zone_words()


def _zone_words() -> tuple[object, ...]:
    return time.tzname, time.timezone, time.altzone, time.daylight
