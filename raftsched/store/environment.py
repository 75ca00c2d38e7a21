"""One LMDB environment in a directory of its own, with the handles of its tables."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lmdb

from raftsched.core.tables import Table

DATA = "data.mdb"  # LMDB's name for its file

# What LMDB says of a file that is not as it wrote it.
BROKEN = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.PanicError)


def table_name(table: Table) -> bytes:
    return f"t{table.value:02d}".encode()


def require_at(path: Path, file: os.stat_result) -> None:
    """Raises OSError unless the file, which is open, has this name: what is written to one that was removed is gone
    when the process ends, and what is written beside it would lie elsewhere."""
    try:
        there = os.path.samestat(path.stat(), file)
    except (FileNotFoundError, NotADirectoryError):
        there = False
    if not there:
        what = "was removed, replaced, or hidden by a file system that was mounted over it, and not by this node"
        raise OSError(errno.ENOENT, what, str(path))


class Environment:
    """An open environment with its tables, which the constructor creates where they are missing. Raises lmdb.Error.

    Of tables, of a node's log (which has no tables), or of both, as in snapshots and backups.

    `metasync`: sync the meta page as well, without which a synced commit is not found (lmdb.h, MDB_NOMETASYNC).
    `shared`: used by many threads, with LMDB's lock file beside the data; else by one thread alone."""

    def __init__(
        self,
        directory: Path,
        *,
        map_bytes: int,
        sync: bool,
        metasync: bool = True,
        shared: bool = True,
        tables: Iterable[Table] = Table,
    ) -> None:
        self.lmdb = lmdb.open(
            str(directory),
            map_size=map_bytes,
            max_dbs=64,
            max_readers=512,
            mode=0o600,
            sync=sync,
            metasync=sync and metasync,
            lock=shared,
            meminit=True,  # else pages carry along what lay in memory before: the values of secrets, for example
            lib_version=0,
        )
        self.page_bytes: int = self.lmdb.stat()["psize"]
        self.tables: list[Any] = [None] * (max(Table) + 1)
        try:
            with self.lmdb.begin(write=True) as txn:
                self.log = self.lmdb.open_db(b"log", txn=txn)
                self.own = self.lmdb.open_db(b"local", txn=txn)
                for table in tables:
                    self.tables[table] = self.lmdb.open_db(table_name(table), txn=txn)
        except BaseException:
            self.lmdb.close()
            raise

    def close(self) -> None:
        self.lmdb.close()
