"""A look at LMDB's data file before LMDB maps it: reading a page beyond its end would end the process by SIGBUS.

A file may rightly be shorter than its last page number says: a page that was taken and given back within one
transaction is never written. So a short file is only a suspicion, and a child process finds out by reading everything.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import lmdb

from raftsched.system.regular_files import open_regular

# LMDB's two meta pages (mdb.c, MDB_page and MDB_meta): magic, version, address, map size, then page size within the
# first database record, the last page used, and the transaction that wrote it.
_META = struct.Struct("<16xII8x8xI92xQQ")
_MAGIC = 0xBEEFC0DE
_READ_ONLY = "--read-only"


class CutOff(Exception):
    """The file of an environment is shorter than it was."""


def is_whole(directory: Path, *, changes: bool = True) -> bool:
    """Returns False when the store's data file was cut off. `changes`: LMDB's lock file may be made or written."""
    if is_long_enough(directory / "data.mdb"):
        return True
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
    reader = subprocess.run(  # our own interpreter, a list of arguments  # nosec B603
        [sys.executable, "-P", "-m", "raftsched.store.datafile", str(directory), *(() if changes else (_READ_ONLY,))],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return reader.returncode == 0


def read_all(directory: Path) -> None:
    """Reads every row, and the list of free pages by a write that is undone. A missing page ends the process."""
    with lmdb.open(str(directory), max_dbs=64, map_size=2**40, lib_version=0) as env:
        with env.begin() as txn:
            names = [bytes(name) for name, _ in txn.cursor()]
        tables = [env.open_db(name, create=False) for name in names]
        with env.begin() as txn:
            for table in tables:
                for key, value in txn.cursor(table):
                    len(key) + sum(value[::512])
        with env.begin(write=True) as txn:
            if tables:
                txn.put(b"probe", bytes(1 << 20), db=tables[0])
            txn.abort()


def read_only(directory: Path) -> None:
    """Does the same without a lock and a write, where nobody else has the environment open: a compact copy reads the
    list of free pages."""
    with lmdb.open(
        str(directory), readonly=True, lock=False, create=False, max_dbs=64, map_size=2**40, lib_version=0
    ) as env:
        with env.begin() as txn:
            for name in [bytes(name) for name, _ in txn.cursor()]:
                for key, value in txn.cursor(env.open_db(name, txn=txn, create=False)):
                    len(key) + sum(value[::512])
        with suppress(lmdb.IncompatibleError), open(os.devnull, "wb") as nowhere:  # not after a page leak
            env.copyfd(nowhere.fileno(), compact=True)


def is_long_enough(file: Path) -> bool:
    """Returns whether the file holds every page up to the last one that it refers to. True for a file that is no LMDB
    file at all: LMDB refuses it."""
    try:
        size = file.stat().st_size
        with open_regular(file) as opened:
            head = opened.read(65_536 + _META.size)
    except FileNotFoundError:
        return True
    if size == 0:
        return True
    if len(head) < _META.size:
        return False
    newest = (0, 0)
    magic, _, page_bytes, last_page, txn = _META.unpack_from(head)
    if magic != _MAGIC or page_bytes < 512:
        return True
    newest = max(newest, (txn, last_page))
    if len(head) < page_bytes + _META.size:
        return False
    magic, _, _, last_page, txn = _META.unpack_from(head, page_bytes)
    if magic == _MAGIC:
        newest = max(newest, (txn, last_page))
    return bool(size >= (newest[1] + 1) * page_bytes)


if __name__ == "__main__":
    (read_only if _READ_ONLY in sys.argv[2:] else read_all)(Path(sys.argv[1]))
