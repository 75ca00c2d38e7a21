"""The log part of the store: append, truncate, drop, terms, damage."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.errors import StartupError
from raftsched.store import CorruptLog, LogEntry, Store, Turn
from raftsched.store.store import DROP_EXTRA


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
        store.run_turn(Turn(append=entries(1, 3, data=b"abc"), hard_state=(4, "n2"), commit_index=2))
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (1, 3)
        assert again.log_entries(2, 1000) == entries(2, 2, data=b"abc")
        assert again.hard_state() == (4, "n2")
        assert again.commit_index == 2
        again.close()

    def test_a_gap_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(RuntimeError, match="does not follow"):
            store.run_turn(Turn(append=[*entries(1, 2), *entries(4, 1)], hard_state=(9, None)))
        assert store.log_bounds() == (1, 0)
        assert store.hard_state() == (0, None)
        store.run_turn(Turn(append=entries(1, 1)))

    def test_about_so_many_bytes_and_one_at_least(self, store: Store) -> None:
        store.run_turn(Turn(append=entries(1, 10, data=b"x" * 100)))
        assert len(store.log_entries(1, 1)) == 1
        assert len(store.log_entries(1, 350)) in (3, 4)
        assert len(store.log_entries(8, 10**6)) == 3
        assert store.log_entries(11, 10) == []

    def test_commit_never_shows_ahead_of_the_log(self, store: Store) -> None:
        store.run_turn(Turn(append=entries(1, 2), commit_index=7))
        assert store.commit_index == 2


class TestTruncate:
    def test_then_append(self, store: Store, tmp_path: Path) -> None:
        store.run_turn(Turn(append=entries(1, 5)))
        store.run_turn(Turn(truncate_from=3, append=entries(3, 1, term=2)))
        assert store.log_bounds() == (1, 3)
        assert [store.log_term(i) for i in (1, 2, 3, 4)] == [1, 1, 2, None]
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (1, 3)
        again.close()

    def test_everything_that_is_not_applied(self, store: Store, tmp_path: Path) -> None:
        log = entries(1, 5)
        store.run_turn(Turn(append=log, commit_index=2, apply=log[:2], drop_below=3))
        first = store.log_bounds()[0]
        store.run_turn(Turn(truncate_from=3))
        assert store.log_bounds() == (first, 2)
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (first, 2)
        assert again.log_term(2) == 1
        again.close()

    def test_past_the_end_is_nothing(self, store: Store) -> None:
        store.run_turn(Turn(append=entries(1, 2)))
        store.run_turn(Turn(truncate_from=3))
        assert store.log_bounds() == (1, 2)

    def test_never_what_is_applied(self, store: Store) -> None:
        log = entries(1, 3)
        store.run_turn(Turn(append=log, commit_index=2, apply=log[:2]))
        with pytest.raises(RuntimeError, match="below applied"):
            store.run_turn(Turn(truncate_from=2))
        assert store.log_bounds() == (1, 3)


class TestDrop:
    def test_never_what_is_not_applied(self, store: Store) -> None:
        log = entries(1, 10)
        store.run_turn(Turn(append=log, commit_index=4, apply=log[:4]))
        store.run_turn(Turn(drop_below=9))
        assert store.log_bounds() == (4, 10)
        assert store.log_term(3) == 1  # the one just before
        assert store.log_term(2) is None

    def test_the_term_before_the_log_survives(self, store: Store, tmp_path: Path) -> None:
        log = [LogEntry(i, 10 + i, b"") for i in range(1, 6)]
        store.run_turn(Turn(append=log, commit_index=5, apply=log))
        store.run_turn(Turn(drop_below=4))
        again = reopened(store, tmp_path)
        assert again.log_bounds() == (4, 5)
        assert (again.log_term(3), again.log_term(4)) == (13, 14)
        again.close()

    def test_a_bounded_number_per_turn(self, store: Store) -> None:
        log = entries(1, 3 * DROP_EXTRA)
        store.run_turn(Turn(append=log, commit_index=len(log), apply=log))
        store.run_turn(Turn(drop_below=len(log)))
        assert store.log_bounds()[0] == 1 + DROP_EXTRA
        store.run_turn(Turn(drop_below=len(log)))
        store.run_turn(Turn(drop_below=len(log)))
        assert store.log_bounds() == (len(log), len(log))
        assert store.applied_index == len(log)


class TestApply:
    def test_only_the_next_entry(self, store: Store) -> None:
        log = entries(1, 3)
        for wrong in (log[1:2], [log[0], log[2]]):
            with pytest.raises(RuntimeError, match="applying"):
                store.run_turn(Turn(append=log, apply=wrong))
        assert store.applied_index == 0
        assert store.log_bounds() == (1, 0)

    def test_an_unknown_command_stops_and_writes_nothing(self, store: Store) -> None:
        """Rather that than diverge from nodes that know it."""
        bad = encode_entry(1, [(1, 1, [b"\x91\xcd\x27\x0f"])])
        log = [LogEntry(1, 1, bad)]
        with pytest.raises(Exception, match="9999"):
            store.run_turn(Turn(append=log, commit_index=1, apply=log))
        assert store.log_bounds() == (1, 0)

    def test_results_in_order(self, store: Store) -> None:
        barrier = encode(c.Barrier())
        log = [
            LogEntry(1, 1, b""),
            LogEntry(2, 1, encode_entry(5, [(1, 1, [barrier, barrier]), (1, 1, [barrier])])),
        ]
        result = store.run_turn(Turn(append=log, commit_index=2, apply=log))
        assert [r.index for r in result.applied] == [1, 2]
        assert result.applied[1].batches[0].answers == [c.Accepted(), c.Accepted()]
        assert result.applied[1].batches[1].answers is None


def test_own_records(store: Store, tmp_path: Path) -> None:
    assert store.local("id") is None
    store.run_turn(Turn(local={"id": b"n1", "x": b"1"}))
    store.run_turn(Turn(local={"x": None}))
    again = reopened(store, tmp_path)
    assert (again.local("id"), again.local("x")) == (b"n1", None)
    again.close()


def flip(directory: Path, index: int, position: int) -> None:
    """One bit of the stored value of a log entry."""
    env = lmdb.open(str(directory), max_dbs=40)
    log = env.open_db(b"log")
    with env.begin(write=True) as txn:
        key = index.to_bytes(8, "big")
        raw = bytearray(txn.get(key, db=log))
        raw[position % len(raw)] ^= 1 << random.randrange(8)
        txn.put(key, bytes(raw), db=log)
    env.close()


@pytest.mark.parametrize("position", [0, 3, 4, 11, 12, -1])
def test_a_flipped_bit_is_noticed(tmp_path: Path, position: int) -> None:
    store = Store.open(tmp_path / "s", sync=False)
    store.run_turn(Turn(append=entries(1, 3, data=b"some bytes")))
    store.close()
    flip(tmp_path / "s", 2, position)
    store = Store.open(tmp_path / "s", sync=False)
    assert store.log_entries(1, 1) == entries(1, 1, data=b"some bytes")
    with pytest.raises(CorruptLog, match="entry 2 "):
        store.log_entries(1, 10**6)
    store.close()


def test_a_shortened_value_is_noticed(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s", sync=False)
    store.run_turn(Turn(append=entries(1, 1, data=b"some bytes")))
    store.close()
    env = lmdb.open(str(tmp_path / "s"), max_dbs=40)
    log = env.open_db(b"log")
    with env.begin(write=True) as txn:
        txn.put((1).to_bytes(8, "big"), b"abc", db=log)
    env.close()
    store = Store.open(tmp_path / "s", sync=False)
    with pytest.raises(CorruptLog):
        store.log_entries(1, 10)
    with pytest.raises(CorruptLog):
        store.log_term(1)
    store.close()


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
            with pytest.raises(StartupError, match="cannot be opened"):
                Store.open(tmp_path)

    @pytest.mark.parametrize(("raw", "says"), [(b"\x91\x63", "format 99"), (b"\xc1", "damaged")])
    def test_another_format_or_a_damaged_state(self, tmp_path: Path, raw: bytes, says: str) -> None:
        Store.open(tmp_path / "s", sync=False).close()
        env = lmdb.open(str(tmp_path / "s"), max_dbs=40)
        own = env.open_db(b"local")
        with env.begin(write=True) as txn:
            txn.put(b"state", raw, db=own)
        env.close()
        for _ in range(2):
            with pytest.raises(StartupError, match=says):
                Store.open(tmp_path / "s")
