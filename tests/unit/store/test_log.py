"""The log part of the store: append, truncate, drop, terms, damage."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import lmdb
import pytest

from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.entry import NewerLog, encode_entry
from raftsched.core.levels import HISTORY, SINCE, newest_level
from raftsched.errors import StartupError
from raftsched.store import CorruptLog, LogEntry, Store, WriteBatch, records, tables
from raftsched.store.layout import LOG, tables_directory
from raftsched.store.store import DROP_EXTRA
from tests.support.stores import carry_out, commit

BARRIER = encode_entry(1, [(1, 1, [encode(c.Barrier())])])


def entries(first: int, count: int, term: int = 1, data: bytes = b"") -> list[LogEntry]:
    return [LogEntry(index, term, data) for index in range(first, first + count)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "s", sync=False)
    yield store
    store.close()


def reopened(store: Store, tmp_path: Path) -> Store:
    store.close()
    return Store.open(tmp_path / "s", sync=False)


class TestEmpty:
    def test_bounds(self, store: Store) -> None:
        assert store.log_bounds() == (1, 0)
        assert (store.commit_index, store.applied_index, store.applied_term) == (0, 0, 0)
        assert store.log_term(0) == 0
        assert store.log_term(1) is None
        assert store.log_entries(1, 100) == []
        assert store.hard_state() == (0, None)


class TestAppend:
    def test_in_order_and_kept(self, store: Store, tmp_path: Path) -> None:
        store.write(WriteBatch(append=entries(1, 3, data=BARRIER), hard_state=(4, "n2"), commit_index=2))
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (1, 3)
        assert again.log_entries(2, 1000) == entries(2, 2, data=BARRIER)
        assert again.hard_state() == (4, "n2")
        assert (again.commit_index, again.applied_index) == (2, 2)
        again.close()

    def test_a_gap_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(RuntimeError, match="does not follow"):
            store.write(WriteBatch(append=[*entries(1, 2), *entries(4, 1)], hard_state=(9, None)))
        assert store.log_bounds() == (1, 0)
        assert store.hard_state() == (0, None)
        store.write(WriteBatch(append=entries(1, 1)))

    def test_about_so_many_bytes_and_one_at_least(self, store: Store) -> None:
        store.write(WriteBatch(append=entries(1, 10, data=b"x" * 100)))
        assert len(store.log_entries(1, 1)) == 1
        assert len(store.log_entries(1, 350)) in (3, 4)
        assert len(store.log_entries(8, 10**6)) == 3
        assert store.log_entries(11, 10) == []

    def test_commit_never_shows_ahead_of_the_log(self, store: Store, tmp_path: Path) -> None:
        store.write(WriteBatch(append=entries(1, 2), commit_index=7))
        assert store.commit_index == 2
        again = reopened(store, tmp_path)
        assert (again.commit_index, again.applied_index) == (2, 2)
        again.close()


class TestTruncate:
    def test_then_append(self, store: Store, tmp_path: Path) -> None:
        store.write(WriteBatch(append=entries(1, 5)))
        store.write(WriteBatch(truncate_from=3, append=entries(3, 1, term=2)))
        assert store.log_bounds() == (1, 3)
        assert [store.log_term(i) for i in (1, 2, 3, 4)] == [1, 1, 2, None]
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (1, 3)
        again.close()

    def test_everything_that_is_not_applied(self, store: Store, tmp_path: Path) -> None:
        log = entries(1, 5)
        carry_out(store, WriteBatch(append=log, commit_index=2), log[:2])
        store.write(WriteBatch(drop_below=3))
        first = store.log_bounds()[0]
        store.write(WriteBatch(truncate_from=3))
        assert store.log_bounds() == (first, 2)
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (first, 2)
        assert again.log_term(2) == 1
        again.close()

    def test_past_the_end_is_nothing(self, store: Store) -> None:
        store.write(WriteBatch(append=entries(1, 2)))
        store.write(WriteBatch(truncate_from=3))
        assert store.log_bounds() == (1, 2)

    def test_never_what_is_applied(self, store: Store) -> None:
        log = entries(1, 3)
        carry_out(store, WriteBatch(append=log, commit_index=2), log[:2])
        with pytest.raises(RuntimeError, match="below applied"):
            store.write(WriteBatch(truncate_from=2))
        assert store.log_bounds() == (1, 3)


class TestDrop:
    def test_never_what_is_not_applied(self, store: Store) -> None:
        log = entries(1, 10)
        carry_out(store, WriteBatch(append=log, commit_index=4), log[:4])
        store.write(WriteBatch(drop_below=9))
        assert store.log_bounds() == (4, 10)
        assert store.log_term(3) == 1  # the one just before
        assert store.log_term(2) is None

    def test_the_term_before_the_log_is_known_while_a_write_moves_it(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The write is in LMDB, and this thread has not heard of it."""
        log = [LogEntry(i, 10 + i, b"") for i in range(1, 6)]
        commit(store, *log)
        before, first = store._state, store._first
        store.write(WriteBatch(drop_below=4))
        monkeypatch.setattr(store, "_state", before)
        monkeypatch.setattr(store, "_first", first)
        assert [store.log_term(i) for i in (2, 3, 4)] == [None, 13, 14]

    def test_the_term_before_the_log_survives(self, store: Store, tmp_path: Path) -> None:
        log = [LogEntry(i, 10 + i, b"") for i in range(1, 6)]
        commit(store, *log)
        store.write(WriteBatch(drop_below=4))
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (4, 5)
        assert (again.log_term(3), again.log_term(4)) == (13, 14)
        again.close()

    def test_a_bounded_number_per_turn(self, store: Store) -> None:
        log = entries(1, 3 * DROP_EXTRA)
        commit(store, *log)
        store.write(WriteBatch(drop_below=len(log)))
        assert store.log_bounds()[0] == 1 + DROP_EXTRA
        store.write(WriteBatch(drop_below=len(log)))
        store.write(WriteBatch(drop_below=len(log)))
        assert store.log_bounds() == (len(log), len(log))
        assert store.applied_index == len(log)


class TestApply:
    @pytest.mark.parametrize("wrong", [[2], [1, 3], [1, 2, 2]], ids=str)
    def test_only_the_next_entry(self, store: Store, tmp_path: Path, wrong: Sequence[int]) -> None:
        log = entries(1, 3)
        store.write(WriteBatch(append=log, commit_index=3))
        with pytest.raises(RuntimeError, match="applying"):
            store.apply([log[index - 1] for index in wrong])
        assert store.applied_index == 0
        again = reopened(store, tmp_path)
        assert (again.applied_index, again.log_bounds()) == (3, (1, 3))
        again.close()

    def test_what_is_no_command_is_refused_and_the_node_goes_on(self, store: Store) -> None:
        """On every node alike: a member that is wrong, or newer, must not stop the others for good."""
        bad = encode_entry(1, [(1, 1, [b"\x91\xcd\x27\x0f", encode(c.Barrier())])])
        log = [LogEntry(1, 1, bad)]
        answers = commit(store, *log)[0].batches[0].answers
        assert answers is not None
        assert isinstance(answers[0], c.Rejected)
        assert (answers[0].code, answers[1]) == ("unknown-command", c.Accepted())
        assert (store.log_bounds(), store.applied_index) == ((1, 1), 1)

    def test_a_newer_log_stops_and_nothing_of_it_is_kept(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rather that than diverge from nodes that know its commands."""
        with monkeypatch.context() as newer:
            newer.setitem(SINCE, c.Barrier, newest_level() + 1)
            newer.setitem(HISTORY, newest_level() + 1, "barriers")
            log = [LogEntry(1, 1, encode_entry(1, [(1, 1, [encode(c.Barrier())])]))]
        says = rf"level {newest_level() + 1}: .* up to {newest_level()}\. Start a newer one"
        with pytest.raises(NewerLog, match=says):
            commit(store, *log)
        assert (store.applied_index, store.log_bounds()) == (0, (1, 1))
        with pytest.raises(StartupError, match=says):  # told again, rather than left out
            reopened(store, tmp_path)
        with monkeypatch.context() as upgraded:
            upgraded.setitem(SINCE, c.Barrier, newest_level() + 1)
            upgraded.setitem(HISTORY, newest_level() + 1, "barriers")
            again = Store.open(tmp_path / "s", sync=False)
        assert (again.applied_index, again.log_bounds()) == (1, (1, 1))
        again.close()

    def test_a_state_of_a_later_level_is_refused_and_nothing_stays_open(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A program may try again, with the same directory."""
        later = newest_level() + 1
        with monkeypatch.context() as newer:
            newer.setitem(HISTORY, later, "made up")
            commit(store, LogEntry(1, 1, encode_entry(1, [(1, 1, [encode(c.RaiseLevel(later))])])))
            store.close()
        kept = []  # with the frames of Store.open
        for _ in range(2):
            with pytest.raises(StartupError, match=rf"level {later}: .* up to {newest_level()}\. Start") as error:
                Store.open(tmp_path / "s", sync=False)
            kept.append(error)
        with monkeypatch.context() as upgraded:
            upgraded.setitem(HISTORY, later, "made up")
            again = Store.open(tmp_path / "s", sync=False)
        assert again.applied_index == 1
        again.close()

    def test_results_in_order(self, store: Store) -> None:
        barrier = encode(c.Barrier())
        log = [
            LogEntry(1, 1, b""),
            LogEntry(2, 1, encode_entry(5, [(1, 1, [barrier, barrier]), (1, 1, [barrier])])),
        ]
        applied = commit(store, *log)
        assert [r.index for r in applied] == [1, 2]
        assert applied[1].batches[0].answers == [c.Accepted(), c.Accepted()]
        assert applied[1].batches[1].answers is None


def test_own_records(store: Store, tmp_path: Path) -> None:
    assert store.local("id") is None
    store.write(WriteBatch(local={"id": b"n1", "x": b"1"}))
    store.write(WriteBatch(local={"x": None}))
    again = reopened(store, tmp_path)
    assert (again.local("id"), again.local("x")) == (b"n1", None)
    again.close()


@contextmanager
def edited(directory: Path, table: bytes) -> Iterator[tuple[Any, Any]]:
    """Behind the store's back: (transaction, table)."""
    with lmdb.open(str(directory / LOG), max_dbs=40, lib_version=0) as env:
        db = env.open_db(table)
        with env.begin(write=True) as txn:
            yield txn, db


def flip(txn: Any, db: Any, key: bytes, position: int) -> None:
    """One bit of a stored value."""
    raw = bytearray(txn.get(key, db=db))
    raw[position] ^= 1 << random.randrange(8)
    txn.put(key, bytes(raw), db=db)


def key(index: int) -> bytes:
    return index.to_bytes(8, "big")


class TestDamage:
    """What a node may have promised to others is damaged: it must not start, and is told what to do."""

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """Entries 3 to 9, up to 6 applied."""
        store = Store.open(tmp_path / "s", sync=False)
        log = [LogEntry(i, 1 + i // 4, BARRIER) for i in range(1, 10)]
        store.write(WriteBatch(append=log, local={"node_id": b"n1", "other": b"x" * 30}, hard_state=(4, "n2")))
        carry_out(store, WriteBatch(commit_index=6), log[:6])
        store.write(WriteBatch(drop_below=3))
        assert (store.log_bounds(), store.applied_index) == ((3, 9), 6)
        store.close()
        return tmp_path / "s"

    def refused(self, directory: Path, says: str) -> None:
        for _ in range(2):
            with pytest.raises(StartupError, match=says) as error:
                Store.open(directory, sync=False)
            for words in ("must not take part", f"Move {directory} away", "'raftsched cluster members replace ID'"):
                assert words in error.value.detail
            assert "\n" not in error.value.detail

    # CRC, term, the first byte and the last one of the data
    @pytest.mark.parametrize("position", [0, 3, 4, 11, 12, -1])
    @pytest.mark.parametrize("index", [3, 5, 6, 8, 9])
    def test_a_flipped_bit_of_an_entry(self, directory: Path, index: int, position: int) -> None:
        with edited(directory, b"log") as (txn, db):
            flip(txn, db, key(index), position)
        self.refused(directory, f"log of this node .* damaged at entry {index}: its checksum")

    @pytest.mark.parametrize("size", [0, 3, 11, 12, 20])
    def test_a_shortened_entry(self, directory: Path, size: int) -> None:
        with edited(directory, b"log") as (txn, db):
            txn.put(key(5), txn.get(key(5), db=db)[:size], db=db)
        self.refused(directory, "damaged at entry 5: it")

    @pytest.mark.parametrize(
        ("gone", "named"), [([3], 3), ([5], 5), ([6, 7, 8, 9], 6), ([7], 7), (range(3, 10), 3)], ids=str
    )
    def test_a_missing_entry(self, directory: Path, gone: Sequence[int], named: int) -> None:
        with edited(directory, b"log") as (txn, db):
            for index in gone:
                txn.delete(key(index), db=db)
        self.refused(directory, f"damaged at entry {named}: it is missing")

    @pytest.mark.parametrize("gone", [[9], [7, 8, 9]], ids=str)
    def test_what_was_acknowledged_is_missing_at_the_end(self, directory: Path, gone: Sequence[int]) -> None:
        """Nothing of it was applied here, but a majority may have counted on it."""
        with edited(directory, b"log") as (txn, db):
            for index in gone:
                txn.delete(key(index), db=db)
        self.refused(directory, f"damaged at entry {gone[0]}: it is missing, though entries up to 9 were written")

    def test_what_a_leaders_conflicting_entries_cut_off_is_not_missed(self, directory: Path) -> None:
        store = Store.open(directory, sync=False)
        store.write(WriteBatch(truncate_from=7))
        store.close()
        store = Store.open(directory, sync=False)
        assert (store.log_bounds(), store.commit_index) == ((3, 6), 6)
        store.close()

    @pytest.mark.parametrize("bit", range(4, 64, 5))
    def test_a_flipped_bit_of_an_entrys_key(self, directory: Path, bit: int) -> None:
        with edited(directory, b"log") as (txn, db):
            txn.put(key(9 ^ 1 << bit), txn.pop(key(9), db=db), db=db)
        self.refused(directory, "damaged at entry")

    def test_terms_that_go_down(self, directory: Path) -> None:
        with edited(directory, b"log") as (txn, db):
            txn.put(key(8), records.encode_entry(2, b"whole"), db=db)
            txn.put(key(9), records.encode_entry(1, b"whole"), db=db)
        self.refused(directory, "damaged at entry 9: its term is 1, after an entry of term 2|entry 8: its term is 2")

    def test_another_term_than_was_applied(self, directory: Path) -> None:
        with edited(directory, b"log") as (txn, db):
            txn.put(key(6), records.encode_entry(3, b"whole"), db=db)
            for index in (7, 8, 9):
                txn.put(key(index), records.encode_entry(3, b"whole"), db=db)
        self.refused(directory, "damaged at entry 6: its term is 3, but one of 2 was applied")

    def test_any_flipped_bit_of_the_state_record(self, directory: Path) -> None:
        with edited(directory, b"local") as (txn, db):
            raw = txn.get(b"state", db=db)
        for position in range(len(raw)):
            with edited(directory, b"local") as (txn, db):
                flip(txn, db, b"state", position)
            self.refused(directory, "state record of this node .* damaged")
            with edited(directory, b"local") as (txn, db):
                txn.put(b"state", raw, db=db)
        Store.open(directory, sync=False).close()

    @pytest.mark.parametrize(
        ("state", "decode"),
        [
            (records.State(commit_index=70_000, applied_index=69_000, applied_term=299), records.decode_state),
            (records.LogState(term=300, voted_for="n2", commit_index=70_000, tables=3), records.decode_log_state),
        ],
        ids=["tables", "log"],
    )
    def test_every_bit_of_a_state_record_counts(
        self, state: records.State | records.LogState, decode: Callable[[bytes], object]
    ) -> None:
        raw = bytearray(records.encode_state(state))
        for bit in range(8 * len(raw)):
            raw[bit // 8] ^= 1 << bit % 8
            with pytest.raises(records.Damaged):
                decode(bytes(raw))
            raw[bit // 8] ^= 1 << bit % 8
        found = decode(bytes(raw))
        assert isinstance(found, type(state))
        assert found.commit_index == 70_000

    @pytest.mark.parametrize("size", [0, 1, 4, 5, 12])
    def test_a_shortened_state_record(self, directory: Path, size: int) -> None:
        with edited(directory, b"local") as (txn, db):
            txn.put(b"state", txn.get(b"state", db=db)[:size], db=db)
        self.refused(directory, "state record of this node .* damaged")

    @pytest.mark.parametrize("emptied", [(), (b"local",), (b"log",)], ids=str)
    def test_a_missing_state_record(self, directory: Path, emptied: Sequence[bytes]) -> None:
        for table in emptied:
            with edited(directory, table) as (txn, db):
                txn.drop(db, delete=False)
        if b"local" not in emptied:
            with edited(directory, b"local") as (txn, db):
                txn.delete(b"state", db=db)
        self.refused(directory, "state record of this node .* damaged: it is missing")

    @pytest.mark.parametrize("position", [0, 3, 4, -1])
    def test_a_flipped_bit_of_an_own_record(self, directory: Path, position: int) -> None:
        with edited(directory, b"local") as (txn, db):
            flip(txn, db, b"own:other", position)
        self.refused(directory, "own record 'other' of this node .* damaged")

    def test_a_flipped_bit_of_an_own_records_name(self, directory: Path) -> None:
        with edited(directory, b"local") as (txn, db):
            txn.put(b"own:odher", txn.pop(b"own:other", db=db), db=db)
        self.refused(directory, "own record 'odher' of this node .* damaged")

    def test_while_it_runs(self, directory: Path) -> None:
        store = Store.open(directory, sync=False)
        with store._env.lmdb.begin(write=True) as txn:
            flip(txn, store._env.log, key(5), -1)
            flip(txn, store._env.own, b"own:other", -1)
            txn.delete(key(8), db=store._env.log)
        for read, says in (
            (lambda: store.log_entries(3, 10**6), "entry 5: its checksum"),
            (lambda: store.log_entries(5, 1), "entry 5: its checksum"),
            (lambda: store.log_entries(6, 10**6), "entry 8: it is missing"),
            (lambda: store.log_term(5), "entry 5"),
            (lambda: store.local("other"), "own record 'other'"),
            (lambda: store.write(WriteBatch(drop_below=6)), "entry 5"),
        ):
            with pytest.raises(CorruptLog, match=says) as error:
                read()
            assert "'raftsched cluster members replace ID'" in str(error.value)
        assert store.local("node_id") == b"n1"
        store.close()


class TestMarks:
    def test_sizes_of_what_is_kept(self, store: Store, tmp_path: Path) -> None:
        assert (store.log_marks, store.log_bytes) == ([], 0)
        log = [LogEntry(i, 1, b"x" * i) for i in range(1, 101)]
        carry_out(store, WriteBatch(append=log), [LogEntry(i, 1, b"") for i in range(1, 101)])
        store.write(WriteBatch(drop_below=41))
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (41, 100)
        assert again.log_bytes == sum(range(41, 101))
        assert again.log_marks == [(64, sum(range(41, 64))), (96, sum(range(41, 96)))]
        again.close()


class TestOpen:
    def test_a_second_process_is_told_in_one_line(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(StartupError, match="in use") as error:
            Store.open(tmp_path / "s")
        assert "\n" not in error.value.detail
        again = reopened(store, tmp_path)  # and free again after the first one closed
        again.close()
        again.close()

    def test_not_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StartupError, match="cannot be used"):
            Store.open(tmp_path / "file")

    def test_not_a_store(self, tmp_path: Path) -> None:
        (tmp_path / "data.mdb").write_bytes(b"x" * 8192)
        for _ in range(2):  # the lock is given back
            with pytest.raises(StartupError, match=r"is damaged: .*replace ID"):
                Store.open(tmp_path)

    @pytest.mark.parametrize(
        ("raw", "number"),
        [
            (records.encode_state(records.LogState(format=99)), 99),
            (records.encode_state(records.State()), 3),  # log and tables in one
            (b"\x92\x63\xc4\x04" + crc32(b"\x92\x63\xc4\x04").to_bytes(4), 99),  # with other fields
            (b"\x93\x63\xa1x\xc4\x04" + crc32(b"\x93\x63\xa1x\xc4\x04").to_bytes(4), 99),
            (b"\x98\x01" + bytes(7), 1),  # before there were checksums
        ],
    )
    def test_another_format(self, tmp_path: Path, raw: bytes, number: int) -> None:
        Store.open(tmp_path / "s", sync=False).close()
        with edited(tmp_path / "s", b"local") as (txn, db):
            txn.put(b"state", raw, db=db)
        for _ in range(2):
            with pytest.raises(StartupError, match=f"has format {number}; this version reads 4"):
                Store.open(tmp_path / "s")

    def test_tables_of_another_format(self, tmp_path: Path) -> None:
        Store.open(tmp_path / "s", sync=False).close()
        directory = tables_directory(tmp_path / "s", 1)
        shutil.rmtree(directory)
        tables.make(directory, records.State(format=99), map_bytes=2**20, sync=False)
        for _ in range(2):
            with pytest.raises(StartupError, match="has format 99; this version reads 3"):
                Store.open(tmp_path / "s")
