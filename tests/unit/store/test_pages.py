"""Pages of LMDB files of others: what LMDB wrote is taken, and what would end a process is refused with words."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from random import Random

import lmdb
import pytest

from raftsched.store.pages import Unsound, require_sound

PAGE = 4096


def written(directory: Path, seed: int) -> Path:
    """Returns the file of an environment that has lived: rows of all sizes that came and went, also behind a reader."""
    rng = Random(seed)
    with lmdb.open(str(directory), max_dbs=8, map_size=1 << 28, sync=False, lib_version=0) as env:
        tables = [env.open_db(b"t%02d" % number) for number in range(4)]
        reader: lmdb.Transaction | None = None
        for number in range(60):
            if number == 20:
                reader = env.begin()
            if number == 40 and reader is not None:
                reader.abort()
            with env.begin(write=True) as txn:
                for _ in range(rng.randrange(100)):
                    key, table = b"%d" % rng.randrange(1_500) * rng.choice([1, 1, 20]), rng.choice(tables)
                    if rng.random() < 0.45:
                        txn.delete(key, db=table)
                    else:
                        txn.put(key, rng.randbytes(rng.choice([0, 10, 300, 3_000, 9_000])), db=table)
                if rng.random() < 0.05:
                    txn.drop(rng.choice(tables), delete=False)
    return directory / "data.mdb"


def test_what_lmdb_wrote_is_sound(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    file = written(tmp_path, seed)
    require_sound(file)
    with lmdb.open(str(tmp_path), readonly=True, max_dbs=8, lib_version=0) as env:
        (tmp_path / "copy").mkdir()
        env.copy(str(tmp_path / "copy"), compact=True)
    require_sound(tmp_path / "copy" / "data.mdb")


def _root(file: Path) -> int:
    """Returns the page of the list of tables."""
    metas = [struct.unpack_from("<128xQQQ", file.read_bytes(), number * PAGE) for number in (0, 1)]
    return max(metas, key=lambda meta: meta[2])[0]


@pytest.mark.parametrize(
    ("at", "put", "says"),
    [
        (0, b"\x07", "is another one"),  # its number
        (10, b"\x01", "is another one"),  # a branch
        (12, b"\xff\xff", "filled beyond its end"),
        (12, b"\x11", "filled beyond its end"),
        (14, b"\x00\x10", "gaps"),
        (16, b"\xfe\xff", "leads beyond its end"),
        (16, b"\x00\x00", "overlap"),
    ],
)
def test_a_page_that_leads_elsewhere_is_refused(tmp_path: Path, at: int, put: bytes, says: str) -> None:
    file = written(tmp_path, 1)
    root = _root(file)
    raw = bytearray(file.read_bytes())
    raw[root * PAGE + at : root * PAGE + at + len(put)] = put
    file.write_bytes(raw)
    with pytest.raises(Unsound, match=says):
        require_sound(file)


@pytest.mark.parametrize(
    ("at", "put", "says"),
    [
        (16, b"\x00", "no meta page"),
        (40, b"\x01\x00\x00\x00", "no meta page|a size that none have"),  # the size of pages
        (88 + 6, b"\x09", "deeper|other pages|another one"),
        (88 + 40, b"\xf0\xff\xff\xff", "behind the end of the file"),
        (136, bytes(8), "last page|behind the end"),
    ],
)
def test_meta_pages_that_lead_elsewhere_are_refused(tmp_path: Path, at: int, put: bytes, says: str) -> None:
    file = written(tmp_path, 1)
    raw = bytearray(file.read_bytes())
    for number in (0, 1):
        raw[number * PAGE + at : number * PAGE + at + len(put)] = put
    file.write_bytes(raw)
    with pytest.raises(Unsound, match=says):
        require_sound(file)


def _with_free(file: Path, numbers: Sequence[int], last: int) -> None:
    """Gives a file another list of free pages, behind its end."""
    raw = bytearray(file.read_bytes())
    raw += bytes(-len(raw) % PAGE)
    leaf = len(raw) // PAGE
    value = struct.pack(f"<Q{len(numbers)}Q", len(numbers), *numbers)
    pages = (16 - 1 + len(value)) // PAGE + 1
    node = struct.pack("<IHHQQ", len(value), 0x01, 8, 1, leaf + 1)
    raw += struct.pack("<QHHHHH", leaf, 0, 0x02, 18, PAGE - len(node), PAGE - len(node)).ljust(PAGE - len(node), b"\0")
    raw += node + (struct.pack("<QHHI", leaf + 1, 0, 0x04, pages) + value).ljust(pages * PAGE, b"\0")
    for at in (0, PAGE):
        struct.pack_into("<IHHQQQQQ", raw, at + 40, PAGE, 0x08, 1, 0, 1, pages, 1, leaf)
        struct.pack_into("<Q", raw, at + 136, last)
    file.write_bytes(raw)


def test_a_list_of_free_pages_takes_no_memory_of_its_size(tmp_path: Path) -> None:
    file = written(tmp_path, 1)
    count, first = 150_000, 1 << 20
    _with_free(file, range(first + count, first, -1), (1 << 23) - 1)
    tracemalloc.start()
    try:
        require_sound(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 << 20, "a bit for each page, and pieces"


@pytest.mark.parametrize(
    ("numbers", "last", "says"),
    [
        ([1 << 20] * 600, 1 << 21, "not in order"),
        (range(1 << 20, (1 << 20) + 600), 1 << 21, "not in order"),
        (range(1 << 20, (1 << 20) - 600, -1), (1 << 20) - 1, "is said to be free"),
        (range(600, 0, -1), 1 << 20, "is said to be free"),
        (range(1 << 20, (1 << 20) - 600, -1), 1 << 39, "last page"),
    ],
)
def test_a_list_of_free_pages_that_is_none_is_refused(
    tmp_path: Path, numbers: Sequence[int], last: int, says: str
) -> None:
    file = written(tmp_path, 1)
    _with_free(file, numbers, last)
    with pytest.raises(Unsound, match=says):
        require_sound(file)


def test_a_page_in_use_is_not_free(tmp_path: Path) -> None:
    file = written(tmp_path, 1)
    _with_free(file, [*range(1 << 20, (1 << 20) - 600, -1), _root(file)], 1 << 21)
    with pytest.raises(Unsound, match="is said to be free"):
        require_sound(file)


def test_a_file_that_is_cut_off_anywhere_is_refused_or_whole(tmp_path: Path) -> None:
    file = written(tmp_path, 2)
    raw = file.read_bytes()
    for size in (0, 10, 100, PAGE, PAGE + 100, 2 * PAGE, 5 * PAGE + 1):
        file.write_bytes(raw[:size])
        with pytest.raises(Unsound):
            require_sound(file)
