"""The lease's end, in memory shared between the node (writes) and every keeper (reads).

One aligned 64-bit word, stored and loaded whole: the low bits of the session and the deadline in milliseconds of
CLOCK_BOOTTIME. So a renewal costs one store, needs no process to be awake, and counts only for keepers of its
session.
"""

from __future__ import annotations

import mmap
import os

from raftsched.core.subjects.leasing import KILL_BEFORE_MS

LOOK_MS = 500  # between two looks of a Watch when nothing is due

_DEADLINE_BITS = 42  # 139 years of milliseconds since boot
_DEADLINE_MASK = (1 << _DEADLINE_BITS) - 1
_TAG_MASK = (1 << (64 - _DEADLINE_BITS)) - 1


class SharedWords:
    """A page of words of 64 bits, each of which is stored and loaded whole, that processes share."""

    def __init__(self, fd: int = -1) -> None:
        """`fd` is of a file of at least one page; the caller may close it afterwards. -1: for who is forked from here
        alone."""
        self._map = mmap.mmap(fd, mmap.PAGESIZE)
        self._words: memoryview[int] = memoryview(self._map).cast("Q")

    def keep_from_children(self) -> None:
        """Keeps the memory from processes forked from now on, which could write there, for all runs of the node."""
        self._map.madvise(mmap.MADV_DONTFORK)

    def close(self) -> None:
        self._words.release()
        self._map.close()


class LeaseSlot(SharedWords):
    """The shared word. It starts as "no session": every deadline read from it is 0."""

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
        word = self._words[0]
        return word & _DEADLINE_MASK if word >> _DEADLINE_BITS == session & _TAG_MASK else 0

    @property
    def newest(self) -> int:
        """The deadline of whichever session has one; 0 when none has."""
        return self._words[0] & _DEADLINE_MASK

    def kill_at(self, session: int) -> int:
        """Returns when processes of this session have to be killed, milliseconds of CLOCK_BOOTTIME."""
        return self.deadline(session) - KILL_BEFORE_MS


class Watch:
    """Tells whoever stands above the keepers when those should be done. Times are boot milliseconds."""

    def __init__(self, slot: LeaseSlot, late_ms: int, now: int) -> None:
        """`late_ms`: so long after the keepers begin to kill."""
        self._slot = slot
        self._late_ms = late_ms
        self._due_at = now
        self._looked = True  # nothing was launched yet

    def due(self, now: int) -> bool:
        """Returns True once after each end of a lease: nothing that ran under it should be left."""
        deadline = self._slot.newest
        if deadline:
            self._due_at = deadline - KILL_BEFORE_MS + self._late_ms
            self._looked = self._looked and self._due_at <= now
        else:  # the node gave it up
            self._due_at = min(self._due_at, now + self._late_ms)
        if self._looked or self._due_at > now:
            return False
        self._looked = True
        return True

    def wait_ms(self, now: int) -> int:
        """Returns how long there is nothing to do; never for long, because a lease may be given up before its end."""
        return LOOK_MS if self._looked else max(1, min(LOOK_MS, self._due_at - now))
