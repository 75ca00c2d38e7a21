"""Runs that nothing guards any more: what ended keeper, supervisor and sentinel in one moment (`kill -9 -1` in a job)
may have left the run. Everything below a node's sentinel has the node's mark in its environment, so that the next start
finds it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from raftsched.worker.processes.linux import pids, signal_if
from raftsched.worker.processes.users import User

VARIABLE = "RAFTSCHED_RUNS_OF"
_libc = ctypes.CDLL(None)


def mark_of(lock: int) -> str:
    """Returns the mark of the data directory whose lock file this is (a descriptor): no two on a machine have the
    same."""
    file = os.fstat(lock)
    return f"{file.st_dev:x}-{file.st_ino:x}"


def end_leftovers(mark: str, users: Sequence[User] = ()) -> list[int]:
    """SIGKILL for whoever has this mark, as far as this process may look, also as one of the `users`; returns their
    pids, none when there are none.

    For the one who holds the lock: nobody who has the mark is guarded then. To be called in a thread of its own."""
    entry = f"{VARIABLE}={mark}".encode()
    found = set(_end(entry))
    for user in users:
        with _looking_as(user):
            found |= set(_end(entry))
    return sorted(found)


def _end(entry: bytes) -> list[int]:
    has, others = partial(_has, entry), (pid for pid in pids() if pid != os.getpid())
    return [pid for pid in others if has(pid) and signal_if(has, pid, signal.SIGKILL)]


@contextmanager
def _looking_as(user: User) -> Iterator[None]:
    """This thread reads files as the user does (setfsuid(2)). What another user's process has in its environment cannot
    be read without CAP_SYS_PTRACE otherwise, which a node need not have; signals are as before."""
    uid, gid = os.geteuid(), os.getegid()
    _libc.setfsgid(user.gid)
    _libc.setfsuid(user.uid)
    try:
        yield
    finally:
        _libc.setfsuid(uid)
        _libc.setfsgid(gid)


def _has(entry: bytes, pid: int) -> bool:
    """proc(5), environ: as it was when the process began its program. What is dead and not waited for has none."""
    try:
        return entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it is somebody else's, or gone
        return False
