"""Finds what a python run left in its process and cannot be put back, so that the process has to end with the run.

The kernel is asked, not Python: threads and timers may be those of a C library. Most runs leave nothing: whether all is
as it was after the run before is asked in one call (native/remains.c), where that was built, and in twenty where not.
What a module starts or opens while it is imported belongs to the process and stays: threads of its libraries, and
descriptors.

Connections and files that a function opens when it is called first, and keeps for its next calls, stay as well, if
nobody else can wait for their end: no lock is held, nothing listens. That is so after a run that succeeded; one that
failed may have left a transaction open in them, which ends with the process.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.getsignal() makes an enum of what this one says
import _thread
import ctypes
import fcntl
import gc
import os
import resource
import signal
import socket
import stat
import struct
import termios
import time
from collections.abc import Callable
from typing import Any

from raftsched.worker import native
from raftsched.worker.processes.linux import has_children, is_subreaper

_INT = struct.Struct("@i")
_STATUS_MAX = 16 * 1024  # bytes
_STREAMS = (0, 1, 2)
_LIMITS = range(16)  # RLIM_NLIMITS
_ALL_BITS = (1 << 64) - 1  # as the kernel has "unlimited"
_OF_THE_C_LIBRARY = sum(1 << (number - 1) for number in range(32, signal.SIGRTMIN))  # it catches them for its threads
_ENDING_S = 0.000_5  # a thread that was waited for may still be on its last steps, which nothing tells of
_ENDING_TIMES = 10
KEPT_MAX = 32  # descriptors that functions keep open in a process


_SAME, _PRINTED, _CAN_ANSWER = 1, 2, 4  # what remains.c answers


class _Text(ctypes.Structure):
    _fields_ = (("at", ctypes.c_char_p), ("size", ctypes.c_size_t))


_Limits = ctypes.c_ulong * (2 * len(_LIMITS))
_Files = ctypes.c_ulong * len(_STREAMS)


class _Usual(ctypes.Structure):
    """The values that remains.c compares with, as it has them."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("status_fd", "list_fd", "timers_fd", "work_fd")),
        *(("nice", ctypes.c_int), ("policy", ctypes.c_int), ("work", ctypes.c_ulong)),
        *(("files", _Files), ("descriptors", ctypes.c_long), ("memory_max", ctypes.c_ulong)),
        *(("limits", _Limits), ("first", _Text), ("second", _Text), ("third", _Text)),
    )


def _in_one_call() -> Callable[[object], int] | None:
    """Returns the function of remains.c; None: it was not built here, cannot be loaded, or is of another version."""
    path = native.path("remains.so")
    try:
        library = None if path is None else ctypes.PyDLL(path)
        if library is None or ctypes.c_uint.in_dll(library, "raftsched_usual_size").value != ctypes.sizeof(_Usual):
            return None
        return library.raftsched_remains
    except (OSError, AttributeError, ValueError):
        return None


_IN_ONE_CALL = _in_one_call()  # loaded once, in the process that all others are forked from


class Remains:
    """`printed`, `can_answer`: what `any` found beside. Whether output waits in a pipe; whether the descriptor for
    answers is still what it was."""

    printed, can_answer = False, True

    def __init__(self, work_fd: int) -> None:
        self._work_fd = work_fd
        self._work = os.fstat(work_fd).st_ino
        self._files = [os.fstat(fd).st_ino for fd in _STREAMS]
        # To open them each time would cost 3 us each.
        self._status_fd = _open("/proc/self/status")
        self._limits_fd = _open("/proc/self/limits")
        self._list_fd = _open("/proc/self/fd")
        try:
            self._timers_fd = _open("/proc/self/timers")
        except OSError:  # a kernel that does not tell
            self._timers_fd = -1
        status = self._status()
        self._by_python = self._told_by_python()
        self._calls = self._told_by_calls()
        self._limits = _Limits(*(value & _ALL_BITS for which in _LIMITS for value in resource.getrlimit(which)))
        self._attributes = _attributes(status)
        self._threads = _number(status, b"\nThreads:")
        self._usual = _tellings(status)  # the last ones that were well
        self._descriptors = self._open_descriptors()
        self._known = _numbers()  # the descriptors that stay without being looked at
        self._kept: list[int] = []  # those that functions keep open
        self.in_one_call = _IN_ONE_CALL
        self._compared: _Usual | None = None

    def imported(self) -> None:
        """A module was imported; what it started and opened stays."""
        try:
            self._threads = max(self._threads, _number(self._status(), b"\nThreads:"))
            count = self._open_descriptors()
            if count > self._descriptors:
                self._descriptors, self._compared = count, None
                self._known = _numbers().difference(self._kept)
        except OSError:
            pass  # without a descriptor left; `any` says so

    def any(self, memory_max: int, succeeded: bool, *, threads: bool = True) -> bool:
        """Returns whether something is left after a run, and also when the process has more than `memory_max` bytes in
        memory. `threads`: whether those that were started count."""
        changed = self._told_by_python() != self._by_python
        if self._kept or self.in_one_call is None:
            self.printed, self.can_answer = _printed(), self._can_answer()
        else:
            found = self.in_one_call(ctypes.byref(self._compared or self._usual_of(memory_max)))
            self.printed, self.can_answer = found & _PRINTED != 0, found & _CAN_ANSWER != 0
            if found & _SAME and not changed and not (threads and _thread._count()):
                return False
        self._compared = None
        try:
            return changed or self._any(memory_max, succeeded, threads)
        except (OSError, ValueError):  # no descriptor left, another root directory, ...
            return True

    def larger(self, memory_max: int) -> bool:
        """Returns whether the process has more than this in memory, in bytes."""
        try:
            return _number(self._status(), b"\nVmRSS:") << 10 > memory_max
        except (OSError, ValueError):
            return True

    def _any(self, memory_max: int, succeeded: bool, threads: bool) -> bool:
        if (threads and _thread._count()) or has_children() or not is_subreaper():
            return True
        if [os.fstat(fd).st_ino for fd in _STREAMS] != self._files:
            return True
        if self._told_by_calls() != self._calls:
            return True
        status = self._status()
        if _number(status, b"\nVmRSS:") << 10 > memory_max:
            return True
        tellings = _tellings(status)
        if tellings != self._usual:
            if _attributes(status) != self._attributes:
                return True
            if threads and _number(status, b"\nThreads:") > self._threads and self._threads_stay():
                return True
            self._usual = tellings
        # Timers of timer_create(2) count as queued signals of the user: there are none when that number is zero.
        if status.find(b"\nSigQ:\t0/") < 0 and self._timers_fd >= 0 and os.pread(self._timers_fd, 16, 0):
            return True
        return self._descriptors_stay(succeeded)

    def _threads_stay(self) -> bool:
        for _ in range(_ENDING_TIMES):
            time.sleep(_ENDING_S)
            if _number(self._status(), b"\nThreads:") <= self._threads:
                return False
        return True

    def _descriptors_stay(self, succeeded: bool) -> bool:
        count = self._open_descriptors()
        if count > self._descriptors:
            gc.collect()  # those of objects that hold each other
            count = self._open_descriptors()
        if count != self._descriptors:
            self._kept = sorted(_numbers() - self._known)
        # Each time: a lock may have been taken since, or another descriptor be in the place of one that was kept.
        if self._kept and not (succeeded and len(self._kept) <= KEPT_MAX and all(map(_may_stay, self._kept))):
            return True
        self._descriptors = count
        return False

    def _status(self) -> bytes:
        return os.pread(self._status_fd, _STATUS_MAX, 0)

    def _told_by_calls(self) -> tuple[Any, ...]:
        """Returns what a function can change of its process so that the next one would run differently; and see
        _attributes."""
        return (
            os.getpriority(os.PRIO_PROCESS, 0),
            os.sched_getscheduler(0),
            _signal.getitimer(signal.ITIMER_REAL),
            _signal.getitimer(signal.ITIMER_VIRTUAL),
            _signal.getitimer(signal.ITIMER_PROF),
            os.pread(self._limits_fd, _STATUS_MAX, 0),
        )

    @staticmethod
    def _told_by_python() -> tuple[object, ...]:
        return (
            _signal.getsignal(signal.SIGINT),  # the only one that is caught
            _signal.set_wakeup_fd(-1),
        )

    def _usual_of(self, memory_max: int) -> _Usual:
        """Returns what is to be compared with from now on. It calls no builtins: a run may have replaced them."""
        nice, policy, *_ = self._calls
        first, second, third = self._usual
        self._compared = _Usual(
            *(self._status_fd, self._list_fd, self._timers_fd, self._work_fd, nice, policy),
            *(self._work, _Files(*self._files), self._descriptors, memory_max),
            self._limits,
            *(_Text(first, first.__len__()), _Text(second, second.__len__()), _Text(third, third.__len__())),
        )
        return self._compared

    def _open_descriptors(self) -> int:
        """Returns how many there are. Linux 6.2 and later tell it as a size."""
        return os.fstat(self._list_fd).st_size or len(os.listdir("/proc/self/fd"))

    def _can_answer(self) -> bool:
        try:
            return os.fstat(self._work_fd).st_ino == self._work
        except OSError:
            return False


def _printed() -> bool:
    """Returns whether output waits in a pipe. What is not there any more was counted by the keeper."""
    try:
        return any(_INT.unpack(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0] for fd in (1, 2))
    except OSError:
        return True


def _numbers() -> set[int]:
    """Returns the numbers of the open descriptors."""
    return {fd for fd in map(int, os.listdir("/proc/self/fd")) if _is_open(fd)}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:  # that by which the list was read
        return False
    return True


def _may_stay(fd: int) -> bool:
    """Returns whether nobody waits for the end of this descriptor: it is a file without a lock on it, or a connection
    to elsewhere."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        told = _open(f"/proc/self/fdinfo/{fd}")
        try:
            return b"\nlock:" not in os.read(told, _STATUS_MAX)
        finally:
            os.close(told)
    if not stat.S_ISSOCK(mode):
        return False
    one = socket.socket(fileno=fd)
    try:
        if one.type != socket.SOCK_STREAM or one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return False
        one.getpeername()  # raises when it is none, or not any more
        return True
    finally:
        one.detach()


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _tellings(status: bytes) -> tuple[bytes, bytes, bytes]:
    """The parts of it that hold what _attributes takes, and the number of threads. They are hardly ever others than
    after the run before."""
    return (
        status[status.find(b"\nUid:") : status.find(b"\nVmPeak:")],
        status[status.find(b"\nThreads:") : status.find(b"\nSigQ:")],  # which counts those of all of the user
        status[status.find(b"\nSigPnd:") : status.find(b"\nCpus_allowed_list:")],
    )


def _attributes(status: bytes) -> tuple[object, ...]:
    return (
        _between(status, b"\nUid:", b"\nFDSize:"),  # and group
        _between(status, b"\nGroups:", b"\n"),
        # Pending, blocked and ignored signals; those that are caught; capabilities, seccomp, processors.
        _between(status, b"\nSigPnd:", b"\nSigCgt:"),
        int(_between(status, b"\nSigCgt:", b"\n")[8:] or b"0", 16) & ~_OF_THE_C_LIBRARY,
        _between(status, b"\nCapInh:", b"\nCpus_allowed_list:"),
    )


def _between(status: bytes, first: bytes, last: bytes) -> bytes:
    at = status.find(first)
    end = status.find(last, at + 1)
    return status[at:end] if 0 <= at < end else b""


def _number(status: bytes, name: bytes) -> int:
    at = status.find(name)
    return int(status[at + len(name) : status.find(b"\n", at + 1)].removesuffix(b" kB")) if at >= 0 else 0
