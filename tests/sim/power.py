"""Loss of power: it takes back every write of a store that LMDB was not made to sync.

With its syncs LMDB has a write on the disk when the commit returns. Without the sync of the meta page the last write is
not found afterwards, whatever else is there (lmdb.h, MDB_NOMETASYNC): the next write's sync brings that page along.
Without any sync nothing is certain of what was written since the process first opened the store.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from raftsched.store import Store
from raftsched.store.environment import DATA

_META_BYTES = 2 * mmap.PAGESIZE  # LMDB's two meta pages stand first


class Unsynced:
    """The unsynced writes of one disk. They outlive processes: the writes of a killed process are still in memory."""

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
