"""Views, snapshots, growth, a full disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from raftsched.core import commands as c
from raftsched.core.apply import dispatch
from raftsched.core.commands import Answer, encode
from raftsched.core.entry import encode_entry
from raftsched.core.tables import Table
from raftsched.store import LogEntry, Store, WriteBatch
from tests.support.memory_view import T0, every, policy
from tests.support.patience import patient
from tests.support.stores import commit


def create(index: int, body: bytes = b"{}") -> LogEntry:
    command = c.CreateJob("default", f"job-{index}", policy(every(1000)), body)
    return LogEntry(index, 1, encode_entry(T0 + index, [(1, index, [encode(command)])]))


def dump(store: Store) -> dict[Table, list[tuple[bytes, bytes]]]:
    with store.read() as view:
        return {table: list(view.scan(table)) for table in Table}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "s", sync=False)
    yield store
    store.close()


class TestView:
    def test_sees_one_moment(self, store: Store) -> None:
        commit(store, create(1))
        with store.read() as view:
            commit(store, create(2))
            assert view.applied_index == 1
            assert len(list(view.scan(Table.JOBS))) == 1
            with store.read() as newer:
                assert newer.applied_index == 2
                assert len(list(newer.scan(Table.JOBS))) == 2

    def test_scans_both_ways(self, store: Store) -> None:
        commit(store, *(create(i) for i in range(1, 6)))
        with store.read() as view:
            rows = list(view.scan(Table.JOBS))
            keys = [key for key, _ in rows]
            assert list(view.scan(Table.JOBS, reverse=True)) == rows[::-1]
            assert [k for k, _ in view.scan(Table.JOBS, keys[1], keys[3])] == keys[1:3]
            assert [k for k, _ in view.scan(Table.JOBS, keys[1], keys[3], reverse=True)] == keys[1:3][::-1]
            assert [k for k, _ in view.scan(Table.JOBS, keys[1], keys[4] + b"\0", reverse=True)] == keys[:0:-1]
            assert list(view.scan(Table.JOBS, keys[4] + b"\0")) == []
            assert list(view.scan(Table.JOBS, b"", keys[0], reverse=True)) == []
            assert list(view.scan(Table.HELD)) == list(view.scan(Table.HELD, reverse=True)) == []

    def test_counts_rows(self, store: Store) -> None:
        commit(store, *(create(i) for i in range(1, 6)))
        with store.read() as view:
            commit(store, create(6))
            assert (view.count(Table.JOBS), view.count(Table.HELD)) == (5, 0)
        with store.read() as view:
            assert view.count(Table.JOBS) == 6

    def test_after_close_it_says_so(self, store: Store) -> None:
        store.close()
        with pytest.raises(RuntimeError, match="closed"), store.read():
            pass


class TestGrowth:
    def test_a_small_map_grows(self, tmp_path: Path) -> None:
        store = Store.open(tmp_path / "g", sync=False, map_bytes=2**19)
        for index in range(1, 60):
            commit(store, create(index, os.urandom(32_000)))
        before = dump(store)
        assert len(before[Table.JOBS]) == 59
        store.close()
        again = Store.open(tmp_path / "g", sync=False, map_bytes=2**19)
        assert dump(again) == before
        commit(again, create(60))
        again.close()

    def test_a_write_larger_than_the_map(self, tmp_path: Path) -> None:
        store = Store.open(tmp_path / "g", sync=False, map_bytes=2**19)
        log = [create(index, os.urandom(60_000)) for index in range(1, 40)]
        applied = commit(store, *log)
        assert all(r.batches[0].answers is not None for r in applied)  # applied once, not once per try
        assert store.applied_index == 39
        store.close()

    def test_readers_within_readers_do_not_stand_in_its_way(self, tmp_path: Path) -> None:
        """Growing waits for open readers; one of them opening a second must not wait for the growing."""
        store = Store.open(tmp_path / "g", sync=False, map_bytes=2**19)
        opened, grown = threading.Event(), threading.Event()
        inner: list[int] = []

        def read() -> None:
            with store.read():
                opened.set()
                while not grown.wait(0.001) and not store._gate.waited_for:
                    pass
                with store.read() as view:
                    inner.append(view.applied_index)

        reader = threading.Thread(target=read)
        reader.start()
        opened.wait()
        for index in range(1, 40):
            commit(store, create(index, os.urandom(32_000)))
        grown.set()
        reader.join(patient(10))
        assert not reader.is_alive()
        assert len(inner) == 1
        store.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    mount = tmp_path / "disk"
    mount.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("mount is not installed")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mount)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"mounting is not allowed here: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


class TestFullDisk:
    def test_a_write_fails_whole(self, tiny_disk: Path) -> None:
        """Of the log, or of the tables. Both are on that disk."""
        store = Store.open(tiny_disk / "s")
        written = applied = 0
        try:
            while applied < 1_000:
                store.write(WriteBatch(append=[create(written + 1, os.urandom(30_000))], commit_index=written + 1))
                written += 1
                store.apply(store.log_entries(written, 1))
                store.publish()
                applied += 1
        except lmdb.Error:
            pass
        assert 5 < applied <= written < 100
        assert store.log_bounds() == (1, written)
        assert len(dump(store)[Table.JOBS]) == applied
        store.close()
        shutil.copytree(tiny_disk / "s", tiny_disk.parent / "larger")
        again = Store.open(tiny_disk.parent / "larger")
        assert (again.applied_index, again.log_bounds()) == (written, (1, written))
        assert len(dump(again)[Table.JOBS]) == written
        again.close()

    def test_a_copy_fails_and_leaves_no_file(self, tiny_disk: Path, tmp_path: Path) -> None:
        store = Store.open(tmp_path / "s", sync=False)
        commit(store, *(create(i, os.urandom(60_000)) for i in range(1, 100)))
        with pytest.raises(OSError):
            store.copy(tiny_disk / "copy")
        assert list(tiny_disk.iterdir()) == []
        store.close()


def test_without_memory_nothing_of_an_apply_is_kept(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what was applied before it ran out, nor anything later; a restart applies all of it."""
    commit(store, create(1))
    before = dump(store)

    def out_of_memory(*_: object) -> Answer:
        raise MemoryError

    barrier = LogEntry(3, 1, encode_entry(T0 + 3, [(1, 3, [encode(c.Barrier())])]))
    with monkeypatch.context() as patch:
        patch.setitem(dispatch.HANDLERS, c.Barrier, out_of_memory)
        with pytest.raises(MemoryError):
            commit(store, create(2), barrier)
    assert (dump(store), store.applied_index, store.log_bounds()) == (before, 1, (1, 3))
    with pytest.raises(RuntimeError, match="not written any more"):
        store.apply([create(2)])
    store.close()
    again = Store.open(tmp_path / "s", sync=False)
    try:
        assert (again.applied_index, again.log_bounds()) == (3, (1, 3))
        assert len(dump(again)[Table.JOBS]) == 2
    finally:
        again.close()


def test_no_memory_for_a_view(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told as Python tells it: it is no damage of the store."""

    class Without:
        def begin(self) -> object:
            raise lmdb.MemoryError("mdb_txn_begin: Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(store._tables.env, "lmdb", Without())
        with pytest.raises(MemoryError), store.read():
            pass
