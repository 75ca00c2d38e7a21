"""Reads a row of LMDB's file as of a checkpoint, and changes nothing.

LMDB itself would open the newest state of the file, which after a crash need not be whole (checkpoint.py): the pages of
the checkpoint are there, and lead to the row. The layout is that of mdb.c on machines of 64 bits, little-endian, as in
datafile.py: MDB_page, MDB_node, MDB_db, MDB_meta.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from raftsched.store.checkpoint import Checkpoint
from raftsched.store.environment import DATA
from raftsched.system.regular_files import open_regular

_META = struct.Struct("<128xQQQ")  # root of the main database, last page, transaction
_PAGE = struct.Struct("<QHHHH")  # number, -, flags, end of the pointers, begin of the nodes
_NODE = struct.Struct("<HHHH")  # size of the data (or lower page number), the same, flags, size of the key
_DATABASE = struct.Struct("<40xQ")  # its root
_BRANCH, _LEAF = 0x01, 0x02  # flags of pages
_LARGE, _SUB = 0x01, 0x02  # flags of nodes: the data is on pages of its own; it is that of a database
_NONE = 2**64 - 1  # the root of an empty database
_DEEPEST = 32  # as LMDB has it (CURSOR_STACK)


class Unreadable(Exception):
    """The pages are not as LMDB writes them."""


def row_at(directory: Path, found: Checkpoint, database: bytes, key: bytes) -> bytes | None:
    """Returns the value of a key in a named database. None: there is none. Raises Unreadable, OSError."""
    with open_regular(directory / DATA) as file:
        return _row_at(file.fileno(), found, database, key)


def _row_at(fd: int, found: Checkpoint, database: bytes, key: bytes) -> bytes | None:
    try:
        root = max(map(_META.unpack_from, found.metas), key=lambda meta: meta[2])[0]
        about = _value(fd, found.page_bytes, root, database, sub=True)
        if about is None:
            return None
        return _value(fd, found.page_bytes, _DATABASE.unpack_from(about)[0], key, sub=False)
    except (struct.error, IndexError) as error:
        raise Unreadable(str(error)) from None


def _value(fd: int, page_bytes: int, number: int, key: bytes, *, sub: bool) -> bytes | None:
    """Returns what a key has in the tree whose root is this page."""
    for _ in range(_DEEPEST):
        if number == _NONE:
            return None
        page = os.pread(fd, page_bytes, number * page_bytes)
        written, _, flags, end, _ = _PAGE.unpack_from(page)
        if written != number or len(page) < page_bytes or not _PAGE.size <= end <= page_bytes:
            raise Unreadable(f"page {number} is another one")
        at = [place for (place,) in struct.iter_unpack("<H", page[_PAGE.size : end])]
        if flags & _LEAF:
            return _in_leaf(fd, page_bytes, page, at, key, sub=sub)
        if not flags & _BRANCH:
            raise Unreadable(f"page {number} is of no tree")
        low, middle, high, _ = _NODE.unpack_from(page, at[0])
        for place in at[1:]:  # the first one has no key: it is for all that is less than the second's
            if _key(page, place) > key:
                break
            low, middle, high, _ = _NODE.unpack_from(page, place)
        number = low | middle << 16 | high << 32
    raise Unreadable("the tree is deeper than any")


def _in_leaf(fd: int, page_bytes: int, page: bytes, at: list[int], key: bytes, *, sub: bool) -> bytes | None:
    for place in at:
        low, high, flags, size = _NODE.unpack_from(page, place)
        if _key(page, place) != key:
            continue
        if bool(flags & _SUB) != sub:
            raise Unreadable("a row is of another kind")
        begin, length = place + _NODE.size + size, low | high << 16
        data = page[begin : begin + length]
        if flags & _LARGE:
            (number,) = struct.unpack_from("<Q", page, begin)
            data = os.pread(fd, length, number * page_bytes + _PAGE.size)
        if len(data) < length:
            raise Unreadable("a row is cut off")
        return data
    return None


def _key(page: bytes, place: int) -> bytes:
    size = _NODE.unpack_from(page, place)[3]
    return page[place + _NODE.size : place + _NODE.size + size]
