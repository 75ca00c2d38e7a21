"""Copies of a store, and their way into another one."""

from __future__ import annotations

import hashlib
import os
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest

from raftsched.core.tables import Table
from raftsched.store import Fresh, LogEntry, SnapshotMeta, Store, WriteBatch, records, snapshot
from raftsched.store.environment import DATA
from raftsched.store.layout import LOG
from tests.support.patience import patient
from tests.support.stores import carry_out, commit
from tests.unit.store.test_state import create, dump


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "s", sync=False)
    yield store
    store.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """One with an identity, a vote and a log of its own."""
    other = Store.open(tmp_path / "o", sync=False)
    commit(other, create(1))
    other.write(WriteBatch(append=[LogEntry(2, 1, b"tail")], hard_state=(7, "n3"), local={"id": b"other"}))
    yield other
    other.close()


def announced(path: Path, index: int, term: int = 1) -> SnapshotMeta:
    raw = path.read_bytes()
    return SnapshotMeta(index, term, len(raw), hashlib.sha256(raw).digest())


def data(directory: Path) -> Path:
    """The file of a store's tables."""
    (found,) = directory.glob(f"tables-*/{DATA}")
    return found


def swap(store: Store, source: Path, meta: SnapshotMeta) -> None:
    store.swap(store.prepare(source, meta))


class TestCopy:
    def test_says_what_it_is(self, store: Store, tmp_path: Path) -> None:
        commit(store, *(create(i) for i in range(1, 50)))
        meta = store.copy(tmp_path / "copy")
        assert meta == announced(tmp_path / "copy", 49)

    def test_of_an_empty_store(self, store: Store, other: Store, tmp_path: Path) -> None:
        meta = store.copy(tmp_path / "copy")
        assert (meta.index, meta.term) == (0, 0)
        with pytest.raises(ValueError, match="not newer"):
            swap(other, tmp_path / "copy", meta)

    def test_is_of_what_was_published(self, store: Store, tmp_path: Path) -> None:
        commit(store, create(1))
        store.write(WriteBatch(append=[create(2)], commit_index=2))
        store.apply([create(2)])
        assert store.copy(tmp_path / "copy").index == 1
        store.publish()
        assert store.copy(tmp_path / "copy").index == 2

    def test_is_of_one_moment_and_holds_no_free_pages(self, store: Store, tmp_path: Path) -> None:
        """Nor anything of the log."""
        for index in range(1, 50):  # each of them frees the pages that it changes
            commit(store, create(index, os.urandom(9_000)))
        first = store.copy(tmp_path / "one")
        log = [LogEntry(i, 1, os.urandom(9_000)) for i in range(50, 200)]
        store.write(WriteBatch(append=log))
        second = store.copy(tmp_path / "two")
        assert first.index == second.index == 49
        assert second.size <= first.size + 8_192
        assert second.size < data(tmp_path / "s").stat().st_size / 2
        assert log[0].data not in (tmp_path / "two").read_bytes()

    def test_one_that_fails_leaves_no_file(self, store: Store, tmp_path: Path) -> None:
        commit(store, create(1))
        with pytest.raises(OSError):
            store.copy(tmp_path / "nowhere" / "copy")
        store.close()  # and its reader is gone

    def test_from_a_store_with_a_leaked_page(self, store: Store, other: Store, tmp_path: Path) -> None:
        """LMDB refuses to compact such a one, after most of the file was written."""
        commit(store, *(create(i) for i in range(1, 20)))
        env = store._tables.env.lmdb

        class Leaking:
            def copyfd(self, fd: int, compact: bool) -> None:
                env.copyfd(fd, compact=compact)
                if compact:
                    os.ftruncate(fd, 10 << 20)
                    raise lmdb.IncompatibleError("page leak")

        store._tables.env.lmdb = Leaking()
        meta = store.copy(tmp_path / "copy")
        store._tables.env.lmdb = env
        swap(other, tmp_path / "copy", meta)
        assert dump(other) == dump(store)


class TestRoundTrip:
    def test_own_identity_term_and_vote_stay(self, store: Store, other: Store, tmp_path: Path) -> None:
        store.write(WriteBatch(hard_state=(5, "n1"), local={"id": b"store", "more": b"x"}))
        commit(store, *(create(i) for i in range(1, 50)))
        meta = store.copy(tmp_path / "copy")
        swap(other, tmp_path / "copy", meta)
        assert not (tmp_path / "copy").exists()

        def check(other: Store) -> None:
            assert dump(other) == dump(store)
            assert other.log_bounds() == (50, 49)
            assert other.log_entries(1, 100) == other.log_entries(50, 100) == []
            assert (other.applied_index, other.applied_term, other.commit_index) == (49, 1, 49)
            assert (other.log_term(49), other.log_term(48)) == (1, None)
            assert (other.hard_state(), other.local("id"), other.local("more")) == ((7, "n3"), b"other", None)
            assert (other.log_marks, other.log_bytes) == ([], 0)

        check(other)
        other.close()
        again = Store.open(tmp_path / "o", sync=False)
        check(again)
        commit(again, create(50))
        commit(store, create(50))
        assert dump(again) == dump(store)
        again.close()
        again = Store.open(tmp_path / "o", sync=False)
        assert dump(again) == dump(store)
        assert again.log_bounds() == (50, 50)
        again.close()

    def test_again_and_again(self, store: Store, other: Store, tmp_path: Path) -> None:
        for index in range(1, 60, 6):
            log = [create(i, os.urandom(3_000)) for i in range(index, index + 6)]
            commit(store, *log[:3])
            swap(other, tmp_path / "copy", store.copy(tmp_path / "copy"))
            for each in (store, other):
                commit(each, *log[3:])
            assert dump(other) == dump(store)
        assert list((tmp_path / "o" / "next").iterdir()) == []
        assert len(list((tmp_path / "o").glob("tables-*"))) == 1

    def test_what_was_committed_further_is_remembered(self, store: Store, other: Store, tmp_path: Path) -> None:
        commit(store, create(1), create(2))
        other.write(WriteBatch(append=[LogEntry(3, 1, b"")], commit_index=3))
        swap(other, tmp_path / "copy", store.copy(tmp_path / "copy"))
        other.write(WriteBatch(append=[LogEntry(3, 1, b"")]))
        assert other.commit_index == 3

    def test_into_a_small_map(self, store: Store, tmp_path: Path) -> None:
        commit(store, *(create(i, os.urandom(40_000)) for i in range(1, 50)))
        meta = store.copy(tmp_path / "copy")
        other = Store.open(tmp_path / "o", sync=False, map_bytes=2**19)
        swap(other, tmp_path / "copy", meta)
        assert dump(other) == dump(store)
        for index in range(50, 80):  # and it still grows
            commit(store, create(index, os.urandom(40_000)))
            other.write(WriteBatch(append=[LogEntry(index, 1, os.urandom(40_000))]))
        other.close()

    def test_from_another_file_system(self, store: Store, other: Store) -> None:
        shared = Path("/dev/shm")
        if not shared.is_dir() or shared.stat().st_dev == other._directory.stat().st_dev:
            pytest.skip("there is only one file system")
        source = shared / f"raftsched-test-{os.getpid()}"
        commit(store, *(create(i) for i in range(1, 9)))
        try:
            swap(other, source, store.copy(source))
            assert not source.exists()
        finally:
            source.unlink(missing_ok=True)
        assert dump(other) == dump(store)


class TestRefused:
    def test_not_over_what_is_as_new(self, store: Store, tmp_path: Path) -> None:
        commit(store, create(1), create(2))
        meta = store.copy(tmp_path / "copy")
        fresh = store.prepare(tmp_path / "copy", meta)
        with pytest.raises(ValueError, match="not newer"):
            store.swap(fresh)
        own = sum(file.stat().st_blocks * 512 for file in (data(tmp_path / "s"), tmp_path / "s" / LOG / DATA))
        assert store.size_bytes() > own
        store.discard(fresh)
        assert store.size_bytes() == own

    def test_not_when_entries_went_on_meanwhile(self, store: Store, other: Store, tmp_path: Path) -> None:
        commit(store, create(1), create(2))
        fresh = other.prepare(tmp_path / "copy", store.copy(tmp_path / "copy"))
        carry_out(other, WriteBatch(commit_index=2), [create(2)])
        with pytest.raises(ValueError, match="not newer"):
            other.swap(fresh)
        assert other.applied_index == 2

    def test_not_twice_and_not_when_discarded(self, store: Store, other: Store, tmp_path: Path) -> None:
        """An empty environment in its place would be all that the node has."""
        commit(store, *(create(i) for i in range(1, 9)))
        first = other.prepare(tmp_path / "copy", store.copy(tmp_path / "copy"))
        second = other.prepare(tmp_path / "copy", store.copy(tmp_path / "copy"))
        other.discard(first)
        ahead = Fresh(second.directory, SnapshotMeta(99, 1, 0, b""))
        for wrong in (first, ahead):
            with pytest.raises(ValueError, match=r"discarded|not of entry 99"):
                other.swap(wrong)
        assert other.applied_index == 1
        other.swap(second)
        with pytest.raises(ValueError, match="not newer"):
            other.swap(second)
        assert dump(other) == dump(store)

    @pytest.mark.parametrize("damage", ["cut", "flip", "longer"])
    def test_a_damaged_file(self, store: Store, other: Store, tmp_path: Path, damage: str) -> None:
        commit(store, *(create(i) for i in range(1, 20)))
        path = tmp_path / "copy"
        meta = store.copy(path)
        raw = bytearray(path.read_bytes())
        if damage == "cut":
            del raw[-20:]
        elif damage == "flip":
            raw[len(raw) // 2] ^= 1
        else:
            raw += b"\0"
        path.write_bytes(raw)
        before = dump(other)
        with pytest.raises(ValueError, match="snapshot file"):
            other.prepare(path, meta)
        assert dump(other) == before
        assert not (tmp_path / "o" / "next").exists()

    @pytest.mark.parametrize("raw", [b"", b"text", bytes(8192), b"x" * 100_000])
    def test_a_file_that_is_no_environment(self, other: Store, tmp_path: Path, raw: bytes) -> None:
        """Its checksum is right: whoever wrote it wrote it so."""
        (tmp_path / "copy").write_bytes(raw)
        with pytest.raises(ValueError, match="snapshot file"):
            other.prepare(tmp_path / "copy", announced(tmp_path / "copy", 9))
        assert list((tmp_path / "o" / "next").iterdir()) == []

    @pytest.mark.parametrize(
        ("edit", "says"),
        [
            (lambda txn, env, own: txn.put(b"k", b"v", db=env.open_db(b"t99", txn=txn)), r"t99.*newer version"),
            (lambda txn, env, own: txn.delete(b"state", db=own), "no state record"),
            (lambda txn, env, own: txn.put(b"state", b"\xc1", db=own), "damaged state record"),
            (
                lambda txn, env, own: txn.put(
                    b"state", records.encode_state(records.State(format=99, applied_index=9)), db=own
                ),
                "format 99; this version reads 3",
            ),
            (
                lambda txn, env, own: txn.put(
                    b"state", records.encode_state(records.State(applied_index=9, applied_term=2)), db=own
                ),
                "of entry 9 of term 2, not of entry 9 of term 1",
            ),
        ],
        ids=["table", "nothing", "damaged", "format", "term"],
    )
    def test_another_content_than_was_announced(
        self, store: Store, other: Store, tmp_path: Path, edit: Callable[..., object], says: str
    ) -> None:
        commit(store, *(create(i) for i in range(1, 10)))
        path = tmp_path / "copy"
        store.copy(path)
        with lmdb.open(str(path), subdir=False, lock=False, max_dbs=64, map_size=1 << 24, lib_version=0) as env:
            own = env.open_db(b"local")
            with env.begin(write=True) as txn:
                edit(txn, env, own)
        before = dump(other)
        with pytest.raises(ValueError, match=says):
            other.prepare(path, announced(path, 9))
        assert list((tmp_path / "o" / "next").iterdir()) == []
        assert dump(other) == before

    def test_left_overs_are_removed_at_open(self, store: Store, other: Store, tmp_path: Path) -> None:
        commit(store, create(1), create(2))
        other.prepare(tmp_path / "copy", store.copy(tmp_path / "copy"))
        before = dump(other)
        other.close()
        again = Store.open(tmp_path / "o", sync=False)
        assert not (tmp_path / "o" / "next").exists()
        assert dump(again) == before
        again.close()


class TestWhoElseIsThere:
    def test_readers_before_and_after_a_swap(self, store: Store, other: Store, tmp_path: Path) -> None:
        """A reader keeps the state that it began with; the swap waits for it; the next one sees the new state."""
        commit(store, *(create(i) for i in range(1, 30)))
        fresh = other.prepare(tmp_path / "copy", store.copy(tmp_path / "copy"))
        opened = threading.Event()
        seen: list[int] = []

        def read() -> None:
            with other.read() as view:
                opened.set()
                while not other._gate.waited_for:
                    pass
                seen.append(len(list(view.scan(Table.JOBS))))
                with other.read() as inner:
                    seen.append(inner.applied_index)
            with other.read() as view:
                seen.append(view.applied_index)

        reader = threading.Thread(target=read)
        reader.start()
        opened.wait()
        other.swap(fresh)
        reader.join(patient(10))
        assert seen == [1, 1, 29]

    @pytest.mark.parametrize("what", ["swap", "grow", "close"])
    def test_a_copy_is_ended_rather_than_waited_for(
        self, store: Store, other: Store, tmp_path: Path, what: str
    ) -> None:
        """It takes long, and writes and reads would wait for it."""
        commit(store, *(create(i) for i in range(1, 201)))
        fresh = other.prepare(tmp_path / "copy", store.copy(tmp_path / "copy"))
        size = 8 << 20
        other.write(WriteBatch(truncate_from=2))
        for index in range(2, 142, 10):
            commit(other, *(create(i, os.urandom(size // 140)) for i in range(index, index + 10)))
        pipe = tmp_path / "pipe"  # nobody empties it until the copy was told to end
        os.mkfifo(pipe)
        end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        failed: list[BaseException] = []

        def copy() -> None:
            try:
                other.copy(pipe)
            except BaseException as error:
                failed.append(error)

        act = {"swap": lambda: other.swap(fresh), "grow": other._tables._grow, "close": other.close}[what]
        copier, actor = threading.Thread(target=copy), threading.Thread(target=act)
        copier.start()
        select.select([end], [], [])
        actor.start()
        gate = other._gate
        while not (gate.waited_for or gate.closed):
            pass
        with gate._changed:
            pass  # whoever holds it has told the copy
        os.set_blocking(end, True)
        copied = 0
        while data := os.read(end, 1 << 20):
            copied += len(data)
        copier.join(patient(10))
        actor.join(patient(10))
        os.close(end)
        assert not copier.is_alive()
        assert not actor.is_alive()
        assert copied < size / 2
        assert [type(error) for error in failed] == [OSError]
        assert not pipe.exists()
        if what != "close":
            assert other.copy(tmp_path / "copy").index == other.applied_index
            assert other.applied_index == (200 if what == "swap" else 141)


def test_the_entries_of_new_directories_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(snapshot, "sync_directory", synced.append)
    data = tmp_path / "lib" / "raftsched"
    snapshot.make_directory(data)
    assert set(synced) == {tmp_path, tmp_path / "lib"}
    assert data.stat().st_mode & 0o777 == 0o700
    snapshot.make_directory(data)
    assert len(synced) == 2


class Watched:
    """A lock that says when somebody has to wait for it."""

    def __init__(self, lock: threading.Lock, waits: threading.Event) -> None:
        self._lock, self._waits = lock, waits

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waits.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_tables_are_replaced_when_no_checkpoint_of_them_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one thread is in the sync of the tables' file while the other wants to close it."""
    store = Store.open(tmp_path / "synced")
    under_way, came = threading.Event(), threading.Event()  # the sync has begun; the swap waits, or has not waited
    told: list[str] = []
    old, real = store._tables, os.fdatasync
    close = old.close

    def fdatasync(fd: int) -> None:
        if fd != old._data:
            real(fd)
            return
        under_way.set()
        assert came.wait(patient(30))
        real(fd)
        told.append("synced")

    def closed() -> None:
        told.append("closed")
        close()
        came.set()

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(old, "close", closed)
    monkeypatch.setattr(store, "_checkpointing", Watched(store._checkpointing, came))
    commit(store, create(1))
    pending = store.begin_checkpoint()
    assert pending is not None
    commit(source := Store.open(tmp_path / "source", sync=False), *(create(i) for i in range(1, 9)))
    meta = source.copy(tmp_path / "copy")
    source.close()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            store.write_checkpoint(pending)
        except OSError as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    assert under_way.wait(patient(30))
    swap(store, tmp_path / "copy", meta)
    writer.join(patient(30))
    assert (failures, told) == ([], ["synced", "closed"])
    assert store.applied_index == 8
    store.close()
