"""The lease's end, in memory shared between the node (writes) and every keeper (reads).

One aligned 64-bit word, stored and loaded whole: the low bits of the session and the deadline in milliseconds of
CLOCK_BOOTTIME. So a renewal costs one store, needs no process to be awake, and counts only for keepers of its
session.
"""

from __future__ import annotations

import mmap
import os

KILL_BEFORE_MS = 500  # K: keepers begin to kill this long before the lease ends

_DEADLINE_BITS = 42  # 139 years of milliseconds since boot
_DEADLINE_MASK = (1 << _DEADLINE_BITS) - 1
_TAG_MASK = (1 << (64 - _DEADLINE_BITS)) - 1


class LeaseSlot:
    """The shared word. It starts as "no session": every deadline read from it is 0."""

    def __init__(self, fd: int) -> None:
        """`fd` is of a file of at least one page; the caller may close it afterwards."""
        self._map = mmap.mmap(fd, mmap.PAGESIZE)
        self._words = memoryview(self._map).cast("Q")

    @classmethod
    def create(cls) -> tuple[LeaseSlot, int]:
        """A slot in anonymous memory, and its file descriptor for the supervisor."""
        fd = os.memfd_create("raftsched-lease", os.MFD_CLOEXEC)
        os.ftruncate(fd, mmap.PAGESIZE)
        return cls(fd), fd

    def store(self, session: int, deadline_boot_ms: int) -> None:
        """From now on only this session has a deadline."""
        if not 0 <= deadline_boot_ms <= _DEADLINE_MASK:
            raise ValueError(f"deadline {deadline_boot_ms} is not a time of this machine in milliseconds since boot")
        self._words[0] = (session & _TAG_MASK) << _DEADLINE_BITS | deadline_boot_ms

    def deadline(self, session: int) -> int:
        """Milliseconds of CLOCK_BOOTTIME; 0 (long over) when the slot belongs to another session."""
        word: int = self._words[0]
        return word & _DEADLINE_MASK if word >> _DEADLINE_BITS == session & _TAG_MASK else 0

    def kill_at(self, session: int) -> int:
        """When processes of this session have to be killed, milliseconds of CLOCK_BOOTTIME."""
        return self.deadline(session) - KILL_BEFORE_MS

    def close(self) -> None:
        self._words.release()
        self._map.close()
