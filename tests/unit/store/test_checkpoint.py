"""Tables and log apart: what a crash leaves, what other threads see, and what becomes of an entry that fails."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest

from raftsched.core import commands as c
from raftsched.core.apply import dispatch
from raftsched.core.commands import Answer, encode
from raftsched.core.entry import encode_entry
from raftsched.core.tables import Table
from raftsched.errors import StartupError
from raftsched.store import LogEntry, Rules, Store, WriteBatch, checkpoint, tables
from raftsched.store.checkpoint import CHECKPOINT, SLOT_BYTES
from raftsched.store.gate import Gate
from raftsched.store.layout import tables_directory
from raftsched.store.tables import Tables
from tests.support import stores
from tests.support.memory_view import T0
from tests.support.patience import patient
from tests.support.stores import commit
from tests.unit.store.test_state import create, dump

T = TypeVar("T")
MAP_BYTES = 2**20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "s", sync=False, map_bytes=MAP_BYTES)
    yield store
    store.close()


@pytest.fixture
def expected(tmp_path: Path) -> Iterator[Store]:
    """One that applies each entry by itself, and never crashes."""
    store = Store.open(tmp_path / "expected", sync=False)
    yield store
    store.close()


def killed(tmp_path: Path) -> Store:
    """What is found when the process of the store is killed now."""
    shutil.copytree(tmp_path / "s", tmp_path / "killed")
    return Store.open(tmp_path / "killed", sync=False, map_bytes=MAP_BYTES)


def checkpointed(store: Store) -> int:
    """The entry up to which the directory has the tables, without the log. Of a copy: LMDB opens a file once."""
    with TemporaryDirectory() as copy:
        shutil.copytree(store._tables.directory, copy, dirs_exist_ok=True)
        found = Tables.open(Path(copy), Gate(Path()), map_bytes=MAP_BYTES, sync=False, rules=Rules())
        found.close()
    return found.applied_index


def elsewhere(call: Callable[[], T]) -> T:
    """Calls it in another thread."""
    results: list[T] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join(patient(30))
    return results[0]


def jobs(store: Store) -> tuple[int, int]:
    with store.read() as view:
        return view.applied_index, len(list(view.scan(Table.JOBS)))


def write(store: Store, *log: LogEntry) -> None:
    store.write(WriteBatch(append=list(log), commit_index=log[-1].index))


class TestCrash:
    @pytest.mark.parametrize("kept", [0, 3, 6, 7])
    def test_the_newest_checkpoint_and_what_the_log_says_is_committed(
        self, store: Store, expected: Store, tmp_path: Path, kept: int
    ) -> None:
        for index in range(1, 10):
            commit(expected, create(index))
        log = [create(index) for index in range(1, 13)]
        for entry in log[:7]:
            commit(store, entry)
            if entry.index == kept:
                stores.checkpoint(store)
        assert store.checkpoint_index == kept
        store.write(WriteBatch(append=log[7:], commit_index=9, hard_state=(2, "n2")))
        store.apply(log[7:8])  # not published
        again = killed(tmp_path)
        assert dump(again) == dump(expected)
        assert (again.applied_index, again.applied_term, again.commit_index) == (9, 1, 9)
        assert again.log_bounds() == (1, 12)
        assert again.checkpoint_index == kept
        again.apply(log[9:])
        assert jobs(again) == (12, 12)
        again.close()

    @pytest.mark.parametrize("done", ["begun", "written", "ended"])
    def test_a_checkpoint_counts_once_it_is_written(self, store: Store, tmp_path: Path, done: str) -> None:
        commit(store, create(1))
        stores.checkpoint(store)
        commit(store, create(2))
        pending = store.begin_checkpoint()
        assert pending is not None
        assert pending.index == 2
        commit(store, create(3))
        if done != "begun":
            store.write_checkpoint(pending)
        if done == "ended":
            store.end_checkpoint(pending)
        assert store.checkpoint_index == (2 if done == "ended" else 1)
        again = killed(tmp_path)
        assert again.checkpoint_index == (1 if done == "begun" else 2)
        assert jobs(again) == (3, 3)
        again.close()

    def test_nothing_is_written_when_there_is_nothing_new(self, store: Store) -> None:
        assert store.begin_checkpoint() is None
        commit(store, create(1))
        stores.checkpoint(store)
        assert store.begin_checkpoint() is None
        write(store, create(2))
        assert store.begin_checkpoint() is None

    def test_close_makes_the_last_one(self, store: Store, tmp_path: Path) -> None:
        write(store, create(1), create(2))
        store.apply([create(1), create(2)])
        store.close()
        assert checkpointed(store) == 2

    def test_the_log_may_go_up_to_the_checkpoint(self, store: Store, tmp_path: Path) -> None:
        commit(store, *(create(index) for index in range(1, 6)))
        stores.checkpoint(store)
        commit(store, create(6))
        store.write(WriteBatch(drop_below=store.checkpoint_index + 1))
        assert store.log_bounds() == (6, 6)
        again = killed(tmp_path)
        assert jobs(again) == (6, 6)
        again.close()

    def test_tables_that_the_log_cannot_go_on_from_are_refused(self, store: Store, tmp_path: Path) -> None:
        commit(store, *(create(index) for index in range(1, 6)))
        store.write(WriteBatch(drop_below=5))
        with pytest.raises(StartupError, match="damaged at entry 1: it is missing, though only entries up to 0 were"):
            killed(tmp_path)


class TestMap:
    def test_it_grows_while_a_checkpoint_is_under_way(self, store: Store, tmp_path: Path) -> None:
        """Each time with a checkpoint of its own, which the older one must not replace, however late it is written."""
        commit(store, create(1))
        pending = store.begin_checkpoint()
        assert pending is not None
        for _ in range(2):  # the file has two slots
            write(store, create(store.applied_index + 1))
            store.apply(store.log_entries(store.applied_index + 1, 1))
            store.publish()
            store._tables._grow()
        assert store.checkpoint_index == 3
        store.write_checkpoint(pending)
        store.end_checkpoint(pending)
        assert store.checkpoint_index == checkpointed(store) == 3
        commit(store, create(4))
        again = killed(tmp_path)
        assert jobs(again) == (4, 4)
        again.close()

    def test_what_was_not_published_is_applied_again_in_the_larger_one(
        self, store: Store, expected: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tables, "PUBLISH_BYTES", 1 << 30)
        log = [create(index, os.urandom(50_000)) for index in range(1, 80)]
        for entry in log:
            commit(expected, entry)
            write(store, entry)
            (result,) = store.apply([entry])
            assert result.index == entry.index
        assert store._tables.map_bytes > 2 * MAP_BYTES
        assert dump(store) == dump(expected)
        again = killed(tmp_path)
        assert dump(again) == dump(expected)
        again.close()

    def test_an_entry_is_not_in_the_log(self, store: Store) -> None:
        """It can be applied once, and not again: the store says so rather than going on without it."""
        log = [create(index, os.urandom(50_000)) for index in range(1, 40)]
        write(store, log[0])

        def apply_each() -> None:
            for entry in log:
                store.apply([entry])

        with pytest.raises(RuntimeError, match="was applied, and is not in the log"):
            apply_each()
        with pytest.raises(RuntimeError, match="not written any more"):
            store.apply(log[:1])


class TestOtherThreads:
    def test_they_see_what_was_published(self, store: Store) -> None:
        commit(store, create(1))
        write(store, create(2), create(3))
        store.apply([create(2)])
        assert (jobs(store), elsewhere(lambda: jobs(store))) == ((2, 2), (1, 1))
        store.apply([create(3)])
        assert (jobs(store), elsewhere(lambda: jobs(store))) == ((3, 3), (1, 1))
        store.publish()
        assert jobs(store) == elsewhere(lambda: jobs(store)) == (3, 3)

    def test_they_keep_what_they_saw_first(self, store: Store) -> None:
        commit(store, create(1))
        opened, go_on = threading.Event(), threading.Event()
        seen: list[tuple[int, int]] = []

        def look() -> None:
            with store.read() as view:
                for _ in range(2):
                    seen.append((view.applied_index, len(list(view.scan(Table.JOBS)))))
                    opened.set()
                    go_on.wait(patient(30))

        reader = threading.Thread(target=look)
        reader.start()
        opened.wait(patient(30))
        commit(store, create(2))
        go_on.set()
        reader.join(patient(30))
        assert seen == [(1, 1), (1, 1)]

    def test_much_at_once_is_published_by_itself(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tables, "PUBLISH_BYTES", 500)
        write(store, create(1), create(2, b"x" * 600), create(3))
        store.apply([create(1)])
        assert elsewhere(lambda: jobs(store)) == (0, 0)
        store.apply([create(2, b"x" * 600)])
        assert elsewhere(lambda: jobs(store)) == (2, 2)

    def test_a_checkpoint_publishes(self, store: Store) -> None:
        write(store, create(1))
        store.apply([create(1)])
        store.begin_checkpoint()
        assert elsewhere(lambda: jobs(store)) == (1, 1)

    @pytest.mark.parametrize("what", ["apply", "publish", "begin_checkpoint"])
    def test_one_thread_applies(self, store: Store, what: str) -> None:
        """And goes on when another one tried to: LMDB's lock is the thread's that has it."""
        write(store, create(1), create(2))
        store.apply([create(1)])
        act: dict[str, Callable[[], object]] = {
            "apply": lambda: store.apply([create(2)]),
            "publish": store.publish,
            "begin_checkpoint": store.begin_checkpoint,
        }

        def wrong() -> str:
            try:
                act[what]()
            except RuntimeError as error:
                return str(error)
            return ""

        assert "by another thread" in elsewhere(wrong)
        store.apply([create(2)])
        store.publish()
        assert elsewhere(lambda: jobs(store)) == (2, 2)


class TestFailedEntry:
    def test_nothing_since_the_last_publish_is_kept(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit(store, create(1))
        stores.checkpoint(store)
        commit(store, create(2))
        barrier = LogEntry(5, 1, encode_entry(T0, [(1, 5, [encode(c.Barrier())])]))
        write(store, create(3), create(4), barrier)
        store.apply([create(3)])

        def fail(*_: object) -> Answer:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setitem(dispatch.HANDLERS, c.Barrier, fail)
            with pytest.raises(ZeroDivisionError):
                store.apply([create(4), barrier])
            kept = (store._tables.directory / CHECKPOINT).read_bytes()
            assert elsewhere(lambda: jobs(store)) == jobs(store) == (2, 2)
            with pytest.raises(RuntimeError, match="not written any more"):
                store.apply([create(4)])
            assert store.begin_checkpoint() is None
            store.publish()
            store.close()
            assert (store._tables.directory / CHECKPOINT).read_bytes() == kept
            assert checkpointed(store) == 1
            with pytest.raises(ZeroDivisionError):  # again, rather than without it
                Store.open(tmp_path / "s", sync=False)
            assert checkpointed(store) == 1
        again = Store.open(tmp_path / "s", sync=False)
        assert jobs(again) == (5, 4)
        again.close()


class TestFile:
    """The file of the checkpoints itself."""

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """Checkpoints of entries 1 and 2."""
        store = Store.open(tmp_path / "s", sync=False)
        for index in (1, 2):
            commit(store, create(index))
            stores.checkpoint(store)
        store.close()
        return tables_directory(tmp_path / "s", 1)

    def newest(self, directory: Path) -> tuple[int, int]:
        """Its place, and the bytes that count."""
        found = checkpoint.find(directory)
        assert found is not None
        assert found.applied_index == 2
        at = found.number % 2 * SLOT_BYTES
        raw = (directory / CHECKPOINT).read_bytes()
        return at, 8 + int.from_bytes(raw[at + 4 : at + 8], "little")

    def test_every_bit_of_one_counts(self, directory: Path) -> None:
        at, size = self.newest(directory)
        path = directory / CHECKPOINT
        raw = bytearray(path.read_bytes())
        for place in range(at, at + size):
            raw[place] ^= 1 << place % 8
            path.write_bytes(raw)
            found = checkpoint.find(directory)
            assert found is not None
            assert found.applied_index == 1, place
            raw[place] ^= 1 << place % 8

    def test_one_that_is_cut_off_leaves_the_other(self, directory: Path) -> None:
        at, size = self.newest(directory)
        path = directory / CHECKPOINT
        raw = path.read_bytes()
        for end in range(at, at + size, 97):
            path.write_bytes(raw[:end] + b"\xff" * (at + SLOT_BYTES - end) + raw[at + SLOT_BYTES :])
            found = checkpoint.find(directory)
            assert found is not None
            assert found.applied_index == 1, end

    @pytest.mark.parametrize("raw", [None, b"", b"x" * 2 * SLOT_BYTES, bytes(2 * SLOT_BYTES)])
    def test_without_one_the_store_is_refused(self, directory: Path, raw: bytes | None) -> None:
        (directory / CHECKPOINT).unlink()
        if raw is not None:
            (directory / CHECKPOINT).write_bytes(raw)
        with pytest.raises(StartupError, match=r"its checkpoint is missing or cut off.*replace ID"):
            Store.open(directory.parent, sync=False)

    def test_it_goes_with_its_tables(self, directory: Path) -> None:
        """Another store's is told by the entry that was applied last."""
        found = checkpoint.find(directory)
        assert found is not None
        wrong = checkpoint.Checkpoint(found.number + 1, 7, 1, found.page_bytes, found.metas)
        checkpoint.write(directory, wrong, sync=False)
        with pytest.raises(StartupError, match="it is of entry 2, its checkpoint of 7"):
            Store.open(directory.parent, sync=False)


# ---------------------------------------------------------------- a sync that fails


class PageCache:
    """The file of checkpoints as Linux keeps it. A sync that fails is told of once; its pages are clean then, with what
    was written, and no later sync brings that to the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.on_disk = bytearray((directory / CHECKPOINT).read_bytes())
        self.fails = False
        self._file = directory / CHECKPOINT
        self._dirty: set[int] = set()  # pages
        self._pwrite, self._fdatasync = os.pwrite, os.fdatasync
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(os, "fdatasync", self.fdatasync)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if self._is_it(fd):
            self._dirty.update(range(offset // SLOT_BYTES, (offset + len(data) - 1) // SLOT_BYTES + 1))
        return self._pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        if not self._is_it(fd):
            self._fdatasync(fd)
            return
        dirty, self._dirty = self._dirty, set()
        if self.fails:
            self.fails = False
            raise OSError(errno.EIO, "Input/output error")
        there = self._file.read_bytes()
        for page in dirty:
            slot = slice(page * SLOT_BYTES, (page + 1) * SLOT_BYTES)
            self.on_disk[slot] = there[slot]

    def _is_it(self, fd: int) -> bool:
        return os.path.samestat(os.fstat(fd), self._file.stat())


def test_a_checkpoint_whose_sync_failed_is_on_the_disk_before_others_rely_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path / "s", map_bytes=MAP_BYTES)
    directory = store._tables.directory
    cache = PageCache(monkeypatch, directory)
    try:
        commit(store, create(1))
        made = store.begin_checkpoint()
        assert made is not None
        cache.fails = True
        with pytest.raises(OSError, match="Input/output error"):
            store.write_checkpoint(made)
    finally:
        store.close()
    disk = tmp_path / "disk"
    disk.mkdir()
    again = Store.open(tmp_path / "s", map_bytes=MAP_BYTES)  # in the same boot: it finds what the cache has
    try:
        assert again.checkpoint_index == 1
        (disk / CHECKPOINT).write_bytes(cache.on_disk)
    finally:
        again.close()
    found = checkpoint.find(disk)
    assert found is not None
    assert found.applied_index == 1


def test_no_checkpoint_follows_one_whose_tables_were_not_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later sync of the same file succeeds, and says nothing of the pages that were lost."""
    store = Store.open(tmp_path / "s", map_bytes=MAP_BYTES)
    directory, real = store._tables.directory, os.fdatasync
    before = checkpoint.find(directory)
    failures = [OSError(errno.EIO, "Input/output error")]

    def fdatasync(fd: int) -> None:
        if failures and os.path.samestat(os.fstat(fd), (directory / tables.DATA).stat()):
            raise failures.pop()
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    commit(store, create(1))
    made = store.begin_checkpoint()
    assert made is not None
    with pytest.raises(OSError, match="Input/output error"):
        store.write_checkpoint(made)
    store.close()
    assert failures == []
    assert checkpoint.find(directory) == before


def test_one_that_is_made_beside_one_under_way_leaves_the_newest_on_the_disk_alone(store: Store) -> None:
    """It was written over that: a loss of power in the middle of it left none."""
    held = store._tables
    write(store, create(1))
    held.write_checkpoint(held.begin_checkpoint())
    before = checkpoint.find(held.directory)
    assert before is not None
    held.begin_checkpoint()  # its sync goes on in another thread
    held._grow()
    raw = (held.directory / CHECKPOINT).read_bytes()
    slots = {slot.number for at in (0, SLOT_BYTES) if (slot := checkpoint._slot(raw[at : at + SLOT_BYTES])) is not None}
    assert before.number in slots
    assert max(slots) > before.number
