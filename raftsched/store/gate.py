"""Admits to the environment readers and copies in any thread, or the writer alone.

LMDB wants no transaction of the process open when its map grows, and none may be open when the environment is
replaced.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Gate:
    """Admits readers and copies, and lets the writer wait for them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._changed = threading.Condition()
        self._readers = 0
        self._mine = threading.local()  # .depth: readers that this thread has open
        self._copies: set[int] = set()  # descriptors that LMDB is writing copies to
        self._alone = False  # the writer waits for the readers to end, or has the environment for itself
        self.closed = False

    @contextmanager
    def admitted(self, copy_to: int | None = None) -> Iterator[None]:
        """Keeps the environment open inside the block. `copy_to`: LMDB writes a copy to this descriptor meanwhile.

        Raises RuntimeError when the store is closed."""
        with self._changed:
            # Who has a reader open already is being waited for: waiting here would be for ever.
            while self._alone and not self._depth and not self.closed:
                self._changed.wait()
            self.check_open()
            self._readers += 1
            self._mine.depth = self._depth + 1
            if copy_to is not None:
                self._copies.add(copy_to)
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._mine.depth -= 1
                if copy_to is not None:
                    self._copies.discard(copy_to)
                if self._alone or self.closed:
                    self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps all transactions out of the block. Readers are waited for, but copies are ended: they take long, and
        other readers would wait behind the writer."""
        with self._changed:
            self._alone = True
            try:
                self._end_copies()
                self._changed.wait_for(lambda: not self._readers)
                yield
            finally:
                self._alone = False
                self._changed.notify_all()

    def check_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"the store in {self._directory} is closed")

    def close(self, wait_s: float) -> int:
        """Admits nobody any more, and waits for the readers of other threads. Returns the number that are still
        open."""
        with self._changed:
            self.closed = True
            self._end_copies()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._readers <= self._depth, wait_s)
            return self._readers - self._depth

    @property
    def waited_for(self) -> bool:
        return self._alone

    @property
    def _depth(self) -> int:
        depth: int = getattr(self._mine, "depth", 0)
        return depth

    def _end_copies(self) -> None:
        """Ends running copies: LMDB finds that it cannot write to their descriptor any more, and gives up."""
        if not self._copies:
            return
        unwritable = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for fd in self._copies:
            os.dup2(unwritable, fd, inheritable=False)
        os.close(unwritable)
