"""Writes the tables again without their free pages.

LMDB gives no page back to the file system. Pages of rows that are gone are used again, so a file is as large as it ever
had to be, and larger still after much was deleted at once. A copy has what is in use, one page after the other; it
takes the place of the tables as a state from another node does (Store.swap).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from raftsched.store import tables
from raftsched.store.environment import DATA, Environment
from raftsched.store.records import State

LEAST_BYTES = 64 << 20  # of a file: what is smaller is left as it is
MOST_BYTES = 1 << 30  # in use: what is more takes too long for a node that starts
ROOM_BYTES = 128 << 20  # that stay free on the disk


class Usage(NamedTuple):
    """Bytes of the tables' file."""

    file: int
    used: int

    @property
    def free(self) -> int:
        """Those of pages that wait to be used again."""
        return max(0, self.file - self.used)


def usage_of(env: Environment, txn: Any) -> Usage:
    """Returns how much of the file is in use, as of this transaction. A look at one page for each table."""
    found = [env.lmdb.stat(), *(txn.stat(table) for table in _all_in(env))]
    pages = sum(one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"] for one in found)
    return Usage((env.lmdb.info()["last_pgno"] + 1) * env.page_bytes, pages * env.page_bytes)


def is_due(usage: Usage, room: int) -> bool:
    """Returns whether more than half of the file would be given back, and a copy is soon made and has its room."""
    worth = usage.file >= LEAST_BYTES and usage.used < usage.file // 2
    return worth and usage.used <= MOST_BYTES and usage.used + ROOM_BYTES <= room


def copy(env: Environment, directory: Path, state: State, *, map_bytes: int, sync: bool) -> None:
    """Makes a directory of tables with what was published last, which is of this state. All of it is on the disk then,
    except the name of the directory. Raises OSError, lmdb.Error; the directory is of no use then."""
    directory.mkdir(mode=0o700)
    fd = os.open(directory / DATA, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        env.lmdb.copyfd(fd, compact=True)
    finally:
        os.close(fd)
    copied = Environment(directory, map_bytes=map_bytes, sync=False, shared=False)
    try:
        if _rows_in(copied) != _rows_in(env):
            raise lmdb.CorruptedError("the copy has other rows")
    finally:
        copied.close()
    tables.make(directory, state, map_bytes=map_bytes, sync=sync)


def _rows_in(env: Environment) -> list[int]:
    with env.lmdb.begin() as txn:
        return [txn.stat(table)["entries"] for table in _all_in(env)]


def _all_in(env: Environment) -> list[Any]:
    return [env.log, env.own, *(table for table in env.tables if table is not None)]
