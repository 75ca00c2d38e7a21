"""A look at LMDB's data file before LMDB maps it."""

from __future__ import annotations

import struct
from pathlib import Path

# LMDB's two meta pages (mdb.c, MDB_page and MDB_meta): magic, version, address, map size, then page size within the
# first database record, the last page used, and the transaction that wrote it.
_META = struct.Struct("<16xII8x8xI92xQQ")
_MAGIC = 0xBEEFC0DE


def is_whole(file: Path) -> bool:
    """False when the LMDB file is shorter than it says: reading it would end the process by SIGBUS. A file that is no
    LMDB file at all is left to LMDB to refuse."""
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
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
