"""A data file that was cut off is told from a whole one before it is mapped: reading it would end the process."""

from __future__ import annotations

import random
from pathlib import Path

import lmdb
import pytest

from raftsched.core.tables import Table
from raftsched.errors import StartupError
from raftsched.store import LogEntry, Store, WriteBatch
from raftsched.store.datafile import is_long_enough, is_whole
from raftsched.store.layout import LOG
from tests.support.stores import commit
from tests.unit.store.test_state import create, dump


@pytest.mark.slow
@pytest.mark.parametrize("part", [LOG, "tables-1"])
def test_never_taken_for_whole_when_cut(tmp_path: Path, part: str) -> None:
    store = Store.open(tmp_path, sync=False)
    data = tmp_path / part / "data.mdb"
    for index in range(1, 60):
        commit(store, create(index, b"x" * 9_000))
    store.close()
    assert is_whole(tmp_path / part)
    raw = data.read_bytes()
    for size in (1, 100, 4_095, 4_096, 5_000, 8_192, len(raw) // 2, len(raw) - 40_960):
        data.write_bytes(raw[:size])
        assert not is_long_enough(data), size
        with pytest.raises(StartupError, match="cut off"):
            Store.open(tmp_path)
    data.write_bytes(raw)
    store = Store.open(tmp_path)
    assert store.log_bounds() == (1, 59)
    assert len(dump(store)[Table.JOBS]) == 59
    store.close()


def test_a_page_taken_and_given_back_leaves_a_whole_file_short(tmp_path: Path) -> None:
    """LMDB counts pages that it never had to write; such a store must open."""
    store = Store.open(tmp_path, sync=False)
    store.write(WriteBatch(append=[LogEntry(1, 1, b"kept")]))
    store.close()
    rng = random.Random()
    short = 0
    with lmdb.open(str(tmp_path / LOG), max_dbs=64, map_size=1 << 30, lib_version=0) as env:
        other = env.open_db(b"other")
        for _ in range(200):
            with env.begin(write=True) as txn:
                for _ in range(3):
                    key = b"%d" % rng.randrange(5)
                    txn.put(key, bytes(rng.randrange(100_000)), db=other)
                    txn.put(key, b"small", db=other)
                    txn.delete(key, db=other)
            if not is_long_enough(tmp_path / LOG / "data.mdb"):
                short += 1
                break
    assert short, "the state that is to be tested never came up"
    before = _files(tmp_path / LOG)
    assert is_whole(tmp_path / LOG, changes=False)
    assert _files(tmp_path / LOG) == before
    assert is_whole(tmp_path / LOG)
    store = Store.open(tmp_path)
    assert store.log_entries(1, 100)[0].data == b"kept"
    store.close()


def _files(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def test_a_file_that_is_cut_is_found_without_a_change(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=4, map_size=1 << 24, lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"key", bytes(40_000), db=env.open_db(b"table", txn=txn))
    (tmp_path / "lock.mdb").unlink()
    data = tmp_path / "data.mdb"
    raw = data.read_bytes()
    data.write_bytes(raw[: len(raw) - 40_960])
    before = _files(tmp_path)
    assert not is_whole(tmp_path, changes=False)
    assert _files(tmp_path) == before
