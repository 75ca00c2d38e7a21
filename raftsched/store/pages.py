"""A look at each page of an LMDB file that others may have written, before LMDB maps it.

LMDB trusts its file: a page number, a length or an offset that leads nowhere ends the process by a signal, or worse,
and so may a write that begins at such a page. A checksum says nothing of it where whoever wrote the file could make
one. So each page that the newest state leads to is read with plain reads, and every number in it held against what LMDB
itself would have written: it leads to a page of the file that nothing else leads to, pages are filled without gaps or
overlaps, keys ascend, and what is counted is there. What rows say is not looked at.

The layout is that of mdb.c 0.9 on machines of 64 bits, little-endian: MDB_meta, MDB_db, MDB_page, MDB_node.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from raftsched.system.regular_files import open_regular

_META = struct.Struct("<QHHHHIIQQ48s48sQQ")  # page, then magic, version, address, map size, two databases, last, number
_DATABASE = struct.Struct("<IHHQQQQQ")  # -, flags, depth, pages: branch, leaf, overflow; entries, root
_PAGE = struct.Struct("<QHHHH")  # number, -, flags, end of the pointers, begin of the nodes
_OVERFLOW = struct.Struct("<QHHI")  # number, -, flags, how many pages
_NODE = struct.Struct("<HHHH")  # size of the data (or lower page number), the same, flags, size of the key
_NUMBER = struct.Struct("<Q")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH_PAGE, _LEAF_PAGE, _OVERFLOW_PAGE, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_LARGE, _SUB = 0x01, 0x02  # flags of nodes: the data is on pages of its own; it is that of a database
_NONE = 2**64 - 1  # the root of an empty database
_DEEPEST = 32  # CURSOR_STACK
_KEY_MAX = 511
# What was used and given back before it was written counts as a page, and may be behind the end of the file. Each takes
# a bit of memory here.
_LAST_MAX = 1 << 27  # pages: 512 GiB; or, if that is more,
_LAST_TIMES = 8  # times the pages of the file
_PIECE = 1 << 16  # bytes of a list of free pages that are read at once
_DUPLICATES = 0x02 | 0x04 | 0x10 | 0x20 | 0x40  # flags of databases as no list of free pages has them


class Unsound(Exception):
    """The file is not as LMDB writes it; the text says where."""


def require_sound(file: Path, size: int | None = None, *, metas: tuple[bytes, bytes] | None = None) -> None:
    """Raises Unsound unless LMDB can read and write the file. `size`: of what is LMDB's; else all of it. `metas`: the
    meta pages of the state that counts, in the place of the file's. Blocks: about ten seconds for a GiB. Raises
    OSError."""
    with open_regular(file) as opened:
        fd = opened.fileno()
        try:
            _Reading(fd, os.fstat(fd).st_size if size is None else size, metas).all()
        except struct.error:
            raise Unsound("a page is cut off, or leads beyond its end") from None


class _Reading:
    def __init__(self, fd: int, size: int, given: tuple[bytes, bytes] | None) -> None:
        self._fd = fd
        first, second = given or (os.pread(fd, _META.size, 0), None)
        metas = [_META.unpack_from(first)]
        self._page_bytes: int = _DATABASE.unpack(metas[0][9])[0]
        if self._page_bytes not in {1 << bits for bits in range(9, 17)}:
            raise Unsound("its pages have a size that none have")
        metas.append(_META.unpack_from(os.pread(fd, _META.size, self._page_bytes) if second is None else second))
        for number, (_, _, flags, _, _, magic, version, _, _, free, _, _, _) in enumerate(metas):
            page_bytes = _DATABASE.unpack(free)[0]
            if (magic, version, page_bytes) != (_MAGIC, _VERSION, self._page_bytes) or not flags & _META_PAGE:
                raise Unsound(f"page {number} is no meta page of LMDB")
        newest = metas[1] if metas[0][-1] < metas[1][-1] else metas[0]
        self._free, self._main, self._last, self._transaction = newest[9:]
        self._pages = size // self._page_bytes
        if not 1 <= self._last < max(_LAST_MAX, _LAST_TIMES * self._pages):
            raise Unsound(f"its last page would be {self._last}")
        self._seen = bytearray(self._pages)
        self._given_back = bytearray((self._last >> 3) + 1)  # a bit for each page: it is in a list of free pages

    def all(self) -> None:
        for number in (0, 1):
            self._take(number)
        for name, about in self._tree("the list of tables", self._main, tables=True):
            self._tree(f"table {name.decode(errors='replace')[:40]}", about)
        self._tree("the list of free pages", self._free, free=True)
        for number, seen in enumerate(self._seen):
            if seen and self._given_back[number >> 3] >> (number & 7) & 1:
                raise Unsound(f"page {number} is said to be free, and is not")

    def _tree(
        self, what: str, database: bytes, *, tables: bool = False, free: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Walks through a database, and returns the rows of a list of tables. Notes what a list of free pages holds."""
        _, flags, depth, branch, leaf, overflow, entries, root = _DATABASE.unpack(database)
        if flags & (_DUPLICATES if free else 0x7FFF) or depth > _DEEPEST:
            raise Unsound(f"{what} has flags {flags} and a depth of {depth}")
        rows: list[tuple[bytes, bytes]] = []
        found = [0, 0, 0, 0]
        todo: list[tuple[int, int, Any, Any]] = []
        if root != _NONE:
            todo.append((root, 1, None, None))
        elif depth:
            raise Unsound(f"{what} has no pages, and a depth of {depth}")
        while todo:
            number, level, low, high = todo.pop()
            if level > depth:
                raise Unsound(f"{what} is deeper than it says at page {number}")
            is_leaf = level == depth
            keys, nodes = self._nodes(what, number, _LEAF_PAGE if is_leaf else _BRANCH_PAGE)
            if len(keys) < (1 if is_leaf or free else 2):
                raise Unsound(f"{what}: page {number} has nothing in it")
            order: list[Any] = [_NUMBER.unpack(key)[0] for key in keys[not is_leaf :]] if free else keys[not is_leaf :]
            self._require_order(what, number, order, low, high)
            if not is_leaf:
                found[0] += 1
                bounds = [low, *order, high]
                todo += [(child, level + 1, *bounds[at : at + 2]) for at, (_, child, _) in enumerate(nodes)]
                continue
            found[1] += 1
            found[3] += len(keys)
            for key, (kind, length, held) in zip(keys, nodes, strict=True):
                known = (kind, length) == (_SUB, _DATABASE.size) if tables else kind in {0, _LARGE}
                if not known or not 1 <= len(key) <= _KEY_MAX:
                    raise Unsound(f"{what}: page {number} has a row of another kind")
                pieces: Iterable[bytes] = (held,)
                if kind == _LARGE:
                    first, pages = self._take_large(what, held, length)
                    found[2] += pages
                    pieces = self._pieces(first * self._page_bytes + _PAGE.size, length)
                if free:
                    self._give_back(key, length, pieces)
                if tables:
                    rows.append((key, held))
        if found != [branch, leaf, overflow, entries]:
            raise Unsound(f"{what} says that it has {entries} rows, and other pages than it has")
        return rows

    def _nodes(self, what: str, number: int, kind: int) -> tuple[list[bytes], list[tuple[int, int, bytes]]]:
        """Returns the keys of a page, and with each the flags, the length and the value of its row; of a branch the
        number of a page in the place of the length."""
        self._take(number)
        page = os.pread(self._fd, self._page_bytes, number * self._page_bytes)
        written, _, flags, end, begin = _PAGE.unpack_from(page)
        if written != number or flags != kind:
            raise Unsound(f"{what}: page {number} is another one")
        if not _PAGE.size <= end <= begin <= len(page) or end & 1:
            raise Unsound(f"{what}: page {number} is filled beyond its end")
        keys, nodes, spans = [], [], []
        for (at,) in struct.iter_unpack("<H", page[_PAGE.size : end]):
            low, high, flags, key_bytes = _NODE.unpack_from(page, at)
            until = at + _NODE.size + key_bytes
            keys.append(page[at + _NODE.size : until])
            if kind == _BRANCH_PAGE:
                nodes.append((0, low | high << 16 | flags << 32, b""))
            else:
                length = low | high << 16
                after = until + (_NUMBER.size if flags & _LARGE else length)
                nodes.append((flags, length, page[until:after]))
                until = after
            spans.append((at, until + (until & 1)))
        for at, until in sorted(spans):
            if at != begin:
                raise Unsound(f"{what}: page {number} has rows that overlap, or gaps between them")
            begin = until
        if begin != len(page):
            raise Unsound(f"{what}: page {number} has gaps, or is filled beyond its end")
        return keys, nodes

    def _require_order(self, what: str, number: int, keys: list[Any], low: Any, high: Any) -> None:
        """Raises Unsound unless keys ascend, and are what leads to them from above."""
        rises = all(a < b for a, b in pairwise(keys))
        inside = not keys or ((low is None or low <= keys[0]) and (high is None or keys[-1] < high))
        if not rises or not inside:
            raise Unsound(f"{what}: the keys of page {number} do not ascend")

    def _take(self, number: int) -> None:
        """Notes that something leads to a page. Raises Unsound where something else does, too."""
        if number >= self._pages or number > self._last:
            raise Unsound(f"something leads to page {number}, behind the end of the file")
        if self._seen[number]:
            raise Unsound(f"more than one thing leads to page {number}")
        self._seen[number] = 1

    def _take_large(self, what: str, value: bytes, length: int) -> tuple[int, int]:
        """Returns where a value with pages of its own begins, and how many pages it has."""
        (first,) = _NUMBER.unpack(value)
        self._take(first)
        written, _, flags, pages = _OVERFLOW.unpack(os.pread(self._fd, _PAGE.size, first * self._page_bytes))
        if written != first or flags != _OVERFLOW_PAGE:
            raise Unsound(f"{what}: page {first} is another one")
        if pages < (_PAGE.size - 1 + length) // self._page_bytes + 1 or first + pages > self._pages:
            raise Unsound(f"{what}: the value at page {first} has {length} bytes on {pages} pages")
        for number in range(first + 1, first + pages):
            self._take(number)
        return first, pages

    def _pieces(self, at: int, length: int) -> Iterator[bytes]:
        """Yields what is there in the file, little by little."""
        for begin in range(0, length, _PIECE):
            yield os.pread(self._fd, min(_PIECE, length - begin), at + begin)

    def _give_back(self, key: bytes, length: int, pieces: Iterable[bytes]) -> None:
        """Notes the pages of a list of free ones, in a fixed amount of memory. Raises Unsound unless they are in the
        order that LMDB needs, and in no other list."""
        numbers = (number for piece in pieces for (number,) in struct.iter_unpack("<Q", piece))
        if _NUMBER.unpack(key)[0] > self._transaction or length & 7:
            raise Unsound("the list of free pages has lists that are none")
        count = next(numbers, 0)
        if not 0 < count < length >> 3:
            raise Unsound("the list of free pages has lists that are none")
        above = _NONE
        for _ in range(count):
            number = next(numbers, 0)
            if number >= above:
                raise Unsound("a list of free pages is not in order")
            above = number
            bit = 1 << (number & 7)
            if not 1 < number <= self._last or self._given_back[number >> 3] & bit:
                raise Unsound(f"page {number} is said to be free, and is not")
            self._given_back[number >> 3] |= bit
