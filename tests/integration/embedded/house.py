"""What of this process an embedded node could change, to be compared before and after."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import locale
import logging
import os
import resource
import signal
import sys
import threading
import warnings
from pathlib import Path


def children() -> set[int]:
    """Processes below this one, however deep: proc(5)."""
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        try:
            for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
                fresh = {int(pid) for pid in (task / "children").read_text().split()} - found
                found |= fresh
                waiting += fresh
        except OSError:
            continue
    return found


def open_files(*, first: bool = False) -> int:
    """`first`: of two counts."""
    if first:
        gc.collect()  # what other tests left is closed now, and not between the two
    return len(os.listdir("/proc/self/fd"))


def sockets() -> int:
    return sum(_target(fd).startswith("socket:") for fd in os.listdir("/proc/self/fd"))


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # the one by which the directory was read
        return ""


def _is_subreaper() -> bool:
    """prctl(2), PR_GET_CHILD_SUBREAPER."""
    said = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(37, ctypes.byref(said)) == 0
    return bool(said.value)


def belongings() -> dict[str, object]:
    """What belongs to the whole process, and so to the program and not to a node in it."""
    umask = os.umask(0o77)
    os.umask(umask)
    names = [name for name in logging.root.manager.loggerDict if not name.startswith("raftsched")]
    return {
        "signal handlers": {n: signal.getsignal(n) for n in signal.valid_signals() if n not in (9, 19)},
        "signal mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "root logger": (logging.root.level, list(logging.root.handlers), logging.root.disabled),
        "loggers": {n: (logging.getLogger(n).level, logging.getLogger(n).handlers) for n in names if n != "asyncio"},
        "record factory": logging.getLogRecordFactory(),
        "loop policy": type(asyncio.get_event_loop_policy()),
        "umask": umask,
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "import path": list(sys.path),
        "arguments": list(sys.argv),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook),
        "switch interval": sys.getswitchinterval(),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "locale": locale.setlocale(locale.LC_ALL),
        "warnings": list(warnings.filters),
        "limits": [resource.getrlimit(n) for n in range(resource.RLIMIT_NOFILE + 1)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "group": (os.getpgrp(), os.getsid(0)),
        "control group": Path("/proc/self/cgroup").read_text(),
        "subreaper": _is_subreaper(),
        "name": Path("/proc/self/comm").read_text(),
    }
