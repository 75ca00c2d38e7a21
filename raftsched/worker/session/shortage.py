"""Shortages of the machine when processes are started, and the pause of its node before it tries again.

Such a failure is the node's and no run's: what was to be started has not begun, and may be started elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

# fork(2), socketpair(2), pipe(2), open(2), mkdir(2): no process, no descriptor, no memory, no room on a disk.
_ERRNOS = frozenset(
    (
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ENOBUFS,
    )
)
PAUSE_MIN_MS = 1_000
PAUSE_MAX_MS = 30_000


def is_shortage(error: OSError) -> bool:
    """Returns whether the machine, or the node's user on it, has no more of something."""
    return error.errno in _ERRNOS


def cannot_start(error: OSError) -> str:
    """Returns the reason, for whoever reads of a run that was not begun."""
    return f"this node cannot start a process: {error.strerror}"


class Pause:
    """The time for which a node takes no runs: longer after each failure that follows the last pause without a start
    between them. Times are milliseconds of the boot clock."""

    def __init__(self, waits_for: Callable[[], str] = str) -> None:
        """`waits_for`: what else keeps the node from starting anything, in words; empty: nothing."""
        self.count = 0  # runs that could not be started
        self._waits_for = waits_for
        self._why = ""
        self._until_ms = 0
        self._length_ms = 0  # of the newest pause; 0: something was started since

    def failed(self, why: str, now_ms: int) -> bool:
        """Notes a failure, and returns whether a pause begins: in the midst of one, what fails was given out before it
        was known."""
        self.count += 1
        if now_ms < self._until_ms:
            return False
        self._why = why
        self._length_ms = min(PAUSE_MAX_MS, 2 * self._length_ms) or PAUSE_MIN_MS
        self._until_ms = now_ms + self._length_ms
        return True

    def began(self, now_ms: int) -> None:
        """A run was started after all."""
        if self._length_ms and now_ms >= self._until_ms:
            self._length_ms = 0

    def left_ms(self, now_ms: int) -> int:
        """0: it takes runs."""
        return max(0, self._until_ms - now_ms)

    def trouble(self, now_ms: int) -> str:
        """Returns why the node starts nothing; for a while after a pause, too, unless something was started since.
        Empty: it does."""
        lasts = self._length_ms and now_ms < self._until_ms + PAUSE_MAX_MS
        return self._waits_for() or (self._why if lasts else "")
