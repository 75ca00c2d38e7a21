"""Loss of power: it takes back every write of a log that LMDB was not made to sync, and any part of what was written
to the tables since their last sync.

With its syncs LMDB has a write on the disk when the commit returns. Without the sync of the meta page the last write is
not found afterwards, whatever else is there (lmdb.h, MDB_NOMETASYNC): the next write's sync brings that page along.
Without any sync nothing is certain of what was written since the process first opened the store.
"""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from raftsched.store import Store
from raftsched.store.checkpoint import CHECKPOINT
from raftsched.store.environment import DATA

_META_BYTES = 2 * mmap.PAGESIZE  # LMDB's two meta pages stand first


class Unsynced:
    """The unsynced writes of one log. They outlive processes: the writes of a killed process are still in memory."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / DATA
        self._certain: bytes | None = None  # what the file, or its meta pages, goes back to; None: all of it stays

    def before(self, store: Store) -> bytes | None:
        """What is certain once the write that is about to begin has returned."""
        flags = store._env.lmdb.flags()
        if flags["sync"] and flags["metasync"]:
            return None
        if flags["sync"]:
            with self._file.open("rb") as file:
                return file.read(_META_BYTES)
        return self._file.read_bytes() if self._certain is None else self._certain

    def written(self, certain: bytes | None) -> None:
        """It has returned."""
        self._certain = certain

    def forget(self) -> None:
        """Another disk, or another file in the place of this one, synced."""
        self._certain = None

    def lose(self) -> bool:
        """The power goes. True when it took a write back."""
        certain, self._certain = self._certain, None
        if certain is None:
            return False
        if len(certain) == _META_BYTES:
            with self._file.open("r+b") as file:
                file.write(certain)
        else:
            self._file.write_bytes(certain)
        return True


class UnsyncedTables:
    """The bytes of the tables' files as of their last sync. What was written since is on the disk page by page, as it
    happens: all of a page, nothing of it, or its first half."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._directory = directory
        self._rng = rng
        self._synced: dict[str, bytes] = {}  # by path

    def opened(self) -> None:
        """A process has opened them. Files that were not there before were synced when they were made."""
        for path in self._files():
            if str(path) not in self._synced:
                self._synced[str(path)] = path.read_bytes()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While a process syncs."""
        real = os.fdatasync

        def fdatasync(fd: int) -> None:
            real(fd)
            path = os.readlink(f"/proc/self/fd/{fd}")
            self._synced[path] = Path(path).read_bytes()

        self.opened()
        with mock.patch.object(os, "fdatasync", fdatasync):
            yield

    def forget(self) -> None:
        """Another disk, synced."""
        self._synced.clear()

    def lose(self) -> int:
        """The power goes. Returns how many pages were not, or not all, on the disk."""
        lost = 0
        for path in self._files():
            synced, raw = self._synced.get(str(path)), path.read_bytes()
            if synced is None:
                continue
            found = bytearray(raw)
            for at in range(0, len(raw), mmap.PAGESIZE):
                new, old = raw[at : at + mmap.PAGESIZE], synced[at : at + mmap.PAGESIZE]
                if new == old or (kept := self._rng.choice((0, 0, len(new) // 2, len(new)))) == len(new):
                    continue
                lost += 1
                found[at : at + len(new)] = new[:kept] + old.ljust(len(new), b"\0")[kept : len(new)]
            path.write_bytes(found)
        self._synced.clear()
        return lost

    def _files(self) -> list[Path]:
        return [*self._directory.glob(f"tables-*/{DATA}"), *self._directory.glob(f"tables-*/{CHECKPOINT}")]
