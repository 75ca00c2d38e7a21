"""The lock that all processes of a node's runs hold: free only when nothing of an earlier run is left.

Who waits for it says whom for: a process in uninterruptible sleep (a dead network file system) holds it for as long as
that lasts, and nobody can end it.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from raftsched.errors import StartupError
from raftsched.system.clock import Clock
from raftsched.worker.processes import linux
from raftsched.worker.processes.leftovers import end_leftovers, mark_of
from raftsched.worker.processes.users import User

NOTE_BYTES = 64
LOOK_S = 0.01
FIRST_WORD_S = 1.0  # processes that are killed are gone by then
WORDS_EVERY_S = 10.0
_SHOWN = 5  # processes that one text lists

log = logging.getLogger(__name__)


class RunLock:
    """`waits_for`: while `take` waits for long, whom for; else empty."""

    def __init__(self, path: Path, clock: Clock, users: Sequence[User] = ()) -> None:
        """`users`: as whom runs may be, other than this process's own."""
        self._users = users
        self.path = path
        self.waits_for = ""
        self._clock = clock

    async def take(self) -> int:
        """The descriptor that holds it, however long it takes. Kills the supervisor that the file names, and runs that
        nothing guards any more. Raises StartupError: the file cannot be opened or written."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise StartupError(f"{self.path} cannot be opened: {exc.strerror}.") from None
        say_at = self._clock.monotonic() + FIRST_WORD_S
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    left = []
                    _end_named(os.pread(fd, NOTE_BYTES, 0))
                else:
                    left = await asyncio.to_thread(end_leftovers, mark_of(fd), self._users)
                    if not left:
                        os.pwrite(fd, padded(""), 0)  # now, so that noting the pid later takes no more space
                        if self.waits_for:
                            log.info("%s is free: nothing of an earlier run is left", self.path)
                        return fd
                now = self._clock.monotonic()
                if now >= say_at:
                    say_at = now + WORDS_EVERY_S
                    whom = [linux.describe(pid) or str(pid) for pid in left]
                    whom = whom or await asyncio.to_thread(holders, self.path)
                    self.waits_for = f"it waits for processes of an earlier run of this node to end: {_listed(whom)}"
                    log.warning("no runs yet: %s hold %s", _listed(whom), self.path)
                await asyncio.sleep(LOOK_S)
        except BaseException as exc:
            os.close(fd)
            if isinstance(exc, OSError):
                raise StartupError(f"{self.path} cannot be written: {exc.strerror}.") from None
            raise
        finally:
            self.waits_for = ""

    def note(self, text: str) -> None:
        """Writes down, for whoever waits for it next, pids and start times of supervisor and sentinel. Raises
        OSError."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(fd, padded(text), 0)
        finally:
            os.close(fd)


def padded(text: str) -> bytes:
    """Returns the content of the lock file, always of the same length."""
    return text.ljust(NOTE_BYTES - 1).encode("ascii") + b"\n"


def holders(path: Path) -> list[str]:
    """Returns the processes that have the file open beside this one, and those below them, as far as this process may
    look: pid, name and state (proc(5))."""
    file = os.path.realpath(path)
    found: set[int] = set()
    for pid in linux.pids():
        if pid != os.getpid() and _has_open(pid, file):
            found.add(pid)
            found.update(below for below, _ in linux.descendants(pid))
    return [text for pid in sorted(found) if (text := linux.describe(pid)) is not None]


def _has_open(pid: int, file: str) -> bool:
    """Returns whether a process has the file open, by the name of what it has open: to look at a file itself may hang,
    where its file system does."""
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{name}") == file:
                    return True
            except OSError:
                continue
    except OSError:  # it is somebody else's, or gone
        pass
    return False


def _listed(whom: list[str]) -> str:
    if not whom:
        return "processes that this node may not look at"
    more = len(whom) - _SHOWN
    return ", ".join(whom[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _end_named(note: bytes) -> None:
    """SIGKILL for the supervisor that the lock file names. Its sentinel is to end what is left, so that one is woken
    up, should it have been stopped."""
    words = note.decode("ascii", "replace").split()
    for at, number in ((0, signal.SIGKILL), (2, signal.SIGCONT)):
        if len(words) >= at + 2 and words[at].isdigit():
            linux.signal_if(partial(_is_of, words[at + 1]), int(words[at]), number)


def _is_of(started: str, pid: int) -> bool:
    """Returns whether the process is the one that was started then."""
    return linux.start_time(pid) == started
