"""What a write's view writes and reads, held against dicts: rows put one beside the other and anywhere, of all sizes,
rows deleted between them, whole tables emptied, across transactions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from raftsched.core.tables import Table, u64
from raftsched.store.environment import Environment
from raftsched.store.view import WriteView

TABLES = (Table.JOBS, Table.DUE, Table.INSTANCES)
SIZES = (0, 8, 265, 900, 5_000)  # the last does not fit into a page


def look(r: random.Random, view: WriteView, table: Table, rows: dict[bytes, bytes], span: int) -> None:
    """The ways of one table, and its first row: all of them by the cursor that puts."""
    key, low, high = (u64(r.randrange(span)) for _ in range(3))
    assert view.getter(table)(key) == rows.get(key)
    if key in rows:
        view.putter(table)(key, rows[key])
    for bounds in ((), (low,), (low, high)):
        assert view.first(table, *bounds) == next(view.scan(table, *bounds), None)


@pytest.mark.parametrize("span", [40, 3_000])
def test_rows_are_as_they_were_put(tmp_path: Path, span: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    r = random.Random(seed)
    env = Environment(tmp_path, map_bytes=2**30, sync=False)
    expected: dict[Table, dict[bytes, bytes]] = {table: {} for table in TABLES}
    at = 0
    for _ in range(30):
        with env.lmdb.begin(write=True) as txn:
            view = WriteView(txn, env.tables)
            for _ in range(r.choice([5, 300])):
                table = r.choice(TABLES)
                rows = expected[table]
                at += 1
                key = u64(at % span if table is Table.JOBS else r.randrange(span))
                if r.random() < 0.6:
                    rows[key] = bytes((at % 256,)) * r.choice(SIZES)
                    view.put(table, key, rows[key])
                else:
                    assert view.delete(table, key) == (rows.pop(key, None) is not None)
                assert view.get(table, key) == rows.get(key)
                look(r, view, table, rows, span)
            table = r.choice(TABLES)
            assert list(view.scan(table)) == sorted(expected[table].items())
            if r.random() < 0.2:
                for key in list(expected[table]):
                    assert view.delete(table, key)
                expected[table] = {b"\0": b""}
                view.put(table, b"\0", b"")
        with env.lmdb.begin() as txn:
            for table in TABLES:
                assert dict(txn.cursor(env.tables[table])) == expected[table]
    env.close()
