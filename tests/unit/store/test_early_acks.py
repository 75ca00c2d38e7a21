"""What a write applied is told before it is on the disk."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from raftsched.core.commands import Barrier, CreateJob, encode
from raftsched.core.entry import encode_entry
from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.core.tables import Table
from raftsched.store import LogEntry, Store, WriteBatch, WriteResult

POLICY = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))


def creating(index: int, body: bytes = b"{}") -> LogEntry:
    return LogEntry(index, 1, encode_entry(1_000, [(1, index, [encode(CreateJob("default", None, POLICY, body))])]))


def jobs(store: Store) -> int:
    with store.read() as view:
        return len(list(view.scan(Table.JOBS)))


def batch(entry: LogEntry) -> WriteBatch:
    return WriteBatch(append=[entry], commit_index=entry.index, apply=[entry])


def test_reads_show_it_afterwards(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s", sync=False)
    seen: list[tuple[int, int]] = []

    def told(result: WriteResult) -> None:
        seen.append((len(result.applied), jobs(store)))

    result = store.write(batch(creating(1)), told)
    assert seen == [(1, 0)]
    assert (len(result.applied), jobs(store), store.applied_index) == (1, 1, 1)
    store.write(WriteBatch(append=[LogEntry(2, 1, encode_entry(1, [(1, 2, [encode(Barrier())])]))]), told)
    assert len(seen) == 1  # nothing was applied
    store.close()


def test_what_ends_the_write_there_leaves_nothing_of_it(tmp_path: Path) -> None:
    """As a process that is killed there."""
    store = Store.open(tmp_path / "s", sync=False)

    class Ended(BaseException):
        pass

    def told(result: WriteResult) -> None:
        raise Ended

    with pytest.raises(Ended):
        store.write(batch(creating(1)), told)
    assert (jobs(store), store.applied_index, store.log_bounds()) == (0, 0, (1, 0))
    store.close()
    store = Store.open(tmp_path / "s", sync=False)
    assert (jobs(store), store.applied_index, store.log_bounds()) == (0, 0, (1, 0))
    store.write(batch(creating(1)))
    assert jobs(store) == 1
    store.close()


def test_it_is_told_once_however_often_the_write_is_repeated(tmp_path: Path) -> None:
    """The map is too small for some of the writes, which then are done again in a larger one."""
    store = Store.open(tmp_path / "s", sync=False, map_bytes=2**18)
    before = store._map_bytes
    told: list[int] = []
    for index in range(1, 60):
        store.write(batch(creating(index, b"x" * 20_000)), lambda result: told.append(result.applied[0].index))
    assert store._map_bytes > before
    assert len(told) == len(set(told))
    assert 40 < len(told) < 60
    assert jobs(store) == 59
    store.close()


def test_a_write_that_is_repeated_tells_nobody_twice(tmp_path: Path) -> None:
    """The map may turn out to be full when the write is committed, after it was told."""
    store = Store.open(tmp_path / "s", sync=False, map_bytes=2**20)
    told: list[int] = []

    def tell(result: WriteResult) -> None:
        told.append(result.applied[0].index)
        if len(told) == 1:
            raise lmdb.MapFullError("at the commit")

    store.write(batch(creating(1)), tell)
    assert told == [1]
    assert jobs(store) == 1
    store.close()
