"""A look at the store of a node that does not run: what it finds is what the next start would, and nothing changes."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.core.levels import HISTORY, SINCE, newest_level
from raftsched.errors import StartupError
from raftsched.store import LogEntry, Store, checkpoint, records
from raftsched.store.examination import Examined, InUse, examine, held, holder
from raftsched.store.layout import LOCK, LOG, tables_directory
from raftsched.store.one_row import Unreadable, row_at
from tests.support.stores import commit

BARRIER = encode_entry(1, [(1, 1, [encode(c.Barrier())])])


def made(directory: Path, count: int = 40) -> Path:
    store = Store.open(directory, sync=False)
    for index in range(1, count + 1):
        commit(store, LogEntry(index, 3, BARRIER), hard_state=(3, "n2"))
    store.close()
    return directory


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def change(directory: Path, work: Callable[[lmdb.Transaction, lmdb.Environment], object]) -> None:
    with (
        lmdb.open(str(directory / LOG), max_dbs=64, map_size=1 << 30, lib_version=0) as env,
        env.begin(write=True) as txn,
    ):
        work(txn, env)


def of_log(work: Callable[[lmdb.Transaction, object], object]) -> Callable[[Path], None]:
    return lambda directory: change(directory, lambda txn, env: work(txn, env.open_db(b"log", txn=txn)))


def of_own(work: Callable[[lmdb.Transaction, object], object]) -> Callable[[Path], None]:
    return lambda directory: change(directory, lambda txn, env: work(txn, env.open_db(b"local", txn=txn)))


def test_what_is_whole_is_left_as_it_is(tmp_path: Path) -> None:
    directory = made(tmp_path / "s")
    before = files(directory)
    with held(directory):
        assert examine(directory) == Examined(term=3, applied_index=40, last_index=40, entries=40)
    assert files(directory) == before
    Store.open(directory, sync=False).close()


def cut_checkpoint(directory: Path) -> None:
    (tables_directory(directory, 1) / "checkpoint").write_bytes(b"")


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (of_log(lambda txn, db: txn.put(records.index_key(7), b"\0" * 20, db=db)), "entry 7: its checksum"),
    (of_log(lambda txn, db: txn.delete(records.index_key(40), db=db)), "entry 40: it is missing"),
    (of_log(lambda txn, db: txn.delete(records.index_key(1), db=db)), "entry 1: it is missing"),
    (of_own(lambda txn, db: txn.put(records.STATE, b"nothing of it", db=db)), "its checksum is another"),
    (of_own(lambda txn, db: txn.delete(records.STATE, db=db)), "the state record is missing"),
    (of_own(lambda txn, db: txn.put(records.OWN + b"agreed", b"12345", db=db)), "own record agreed"),
    (cut_checkpoint, "tables-1 has no checkpoint"),
    (lambda directory: os.truncate(tables_directory(directory, 1) / "data.mdb", 100), "tables-1 is cut off"),
    (lambda directory: os.truncate(directory / LOG / "data.mdb", 8_192), "log is cut off"),
    (lambda directory: (directory / LOG / "data.mdb").write_bytes(b"x" * 100_000), "no LMDB file"),
    (lambda directory: (directory / LOG / "data.mdb").unlink(), "log is missing"),
    (lambda directory: (directory / LOG / "data.mdb").write_bytes(b""), "log is empty"),
    (lambda directory: (tables_directory(directory, 1) / "data.mdb").unlink(), "tables-1 is missing"),
    (of_log(lambda txn, db: txn.drop(db)), "the log or the tables: mdb_dbi_open: MDB_NOTFOUND"),
    (of_own(lambda txn, db: txn.drop(db)), "the state record, the log or the tables: mdb_dbi_open"),
]


@pytest.mark.parametrize("damage, says", DAMAGES, ids=[says for _, says in DAMAGES])
def test_what_is_damaged_is_found_as_the_start_finds_it(
    damage: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    directory = made(tmp_path / "s")
    damage(directory)
    with held(directory):
        found = examine(directory)
    assert found is not None
    assert says in found.damaged
    with pytest.raises(StartupError):
        Store.open(directory, sync=False)


def test_what_another_version_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = made(tmp_path / "s")
    row = records.encode_state(records.LogState(format=9))
    of_own(lambda txn, db: txn.put(records.STATE, row, db=db))(directory)
    with held(directory):
        found = examine(directory)
    assert found is not None
    assert (found.damaged, "has format 9" in found.unknown) == ("", True)

    later = newest_level() + 1
    with monkeypatch.context() as newer:
        newer.setitem(HISTORY, later, "of tomorrow")
        newer.setitem(SINCE, c.Barrier, later)
        newer_store = Store.open(tmp_path / "t", sync=False)
        commit(newer_store, LogEntry(1, 3, encode_entry(1, [(1, 1, [encode(c.Barrier())])])), hard_state=(3, "n2"))
        newer_store.close()
    found = examine(tmp_path / "t")
    assert found is not None
    assert f"of level {later}" in found.unknown


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("command", [c.RaiseLevel, lambda level: c.Form(b"id", (), level)])
def test_a_cluster_of_a_later_level(
    closed: bool, command: Callable[[int], c.Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command itself is of an earlier one. It is in the tables once the store is closed, else in the log alone."""
    later = newest_level() + 1
    with monkeypatch.context() as newer:
        newer.setitem(HISTORY, later, "of tomorrow")
        store = Store.open(tmp_path / "s", sync=False)
        data = encode_entry(1, [(1, 1, [encode(command(later))])])
        commit(store, LogEntry(1, 3, data), hard_state=(3, "n2"))
        commit(store, LogEntry(2, 3, encode_entry(1, [(1, 2, [encode(c.Barrier())])])), hard_state=(3, "n2"))
        if not closed:
            shutil.copytree(tmp_path / "s", tmp_path / "t")
        store.close()
        place = tmp_path / ("s" if closed else "t")
        with held(place):
            assert examine(place) == Examined(3, 2 if closed else 0, 2, 2), "it is not too old for itself"
    with held(place):
        found = examine(place)
    assert found is not None
    assert f"of level {later}" in found.unknown
    with pytest.raises(StartupError, match=f"of level {later}"):
        Store.open(place, sync=False)


def test_a_row_as_of_a_checkpoint(tmp_path: Path) -> None:
    """Of trees of several pages, and of rows that have pages of their own."""
    values = {b"%05d" % n: b"%d" % n * (n % 700) for n in range(3_000)} | {b"large": bytes(range(256)) * 99}
    with lmdb.open(str(tmp_path), max_dbs=64, map_size=1 << 26, lib_version=0) as env:
        for name in (b"t%02d" % n for n in range(60)):
            env.open_db(name)
        with env.begin(write=True) as txn:
            for key, value in values.items():
                txn.put(key, value, db=env.open_db(b"t07", txn=txn))
    fd = os.open(tmp_path / "data.mdb", os.O_RDONLY)
    found = checkpoint.take(fd, 1, 1, 1)
    os.close(fd)
    for key in (b"00000", b"00001", b"00699", b"01234", b"02999", b"large"):
        assert row_at(tmp_path, found, b"t07", key) == values[key]
    for key in (b"", b"0", b"01234x", b"zzz"):
        assert row_at(tmp_path, found, b"t07", key) is None
    assert row_at(tmp_path, found, b"t08", b"00001") is None
    assert row_at(tmp_path, found, b"none", b"00001") is None
    os.truncate(tmp_path / "data.mdb", 3 * found.page_bytes)
    with pytest.raises(Unreadable):
        row_at(tmp_path, found, b"t07", b"02999")


def test_no_store(tmp_path: Path) -> None:
    assert examine(tmp_path) is None
    with held(tmp_path):
        pass


def test_a_log_that_is_gone(tmp_path: Path) -> None:
    """A node that began anew would have forgotten whom it voted for; what the tables are of says that there was one."""
    shutil.rmtree(made(tmp_path / "s") / LOG)
    found = examine(tmp_path / "s")
    assert found is not None
    assert found.damaged == "the log is missing, though tables-1 is of entry 40"
    with pytest.raises(StartupError, match="the log is missing, though tables-1 is of entry 40"):
        Store.open(tmp_path / "s", sync=False)
    assert tables_directory(tmp_path / "s", 1).exists(), "nothing is thrown away"
    shutil.rmtree(made(tmp_path / "t", 0) / LOG)
    assert examine(tmp_path / "t") is None
    Store.open(tmp_path / "t", sync=False).close()


def test_a_lock_that_is_gone(tmp_path: Path) -> None:
    (made(tmp_path / "s") / LOCK).unlink()
    with held(tmp_path / "s"):
        assert examine(tmp_path / "s") == Examined(term=3, applied_index=40, last_index=40, entries=40)
    assert not (tmp_path / "s" / LOCK).exists()


def test_a_node_that_runs_is_left_alone_and_named(tmp_path: Path) -> None:
    directory = made(tmp_path / "s", 1)
    store = Store.open(directory, sync=False)
    try:
        with pytest.raises(InUse) as found, held(directory):
            pass
        assert found.value.pid in (os.getpid(), None)
    finally:
        store.close()
    with held(directory), pytest.raises(StartupError, match="in use by another node process"):
        Store.open(directory, sync=False)
    with held(directory):
        pass


def test_who_holds_a_lock(tmp_path: Path) -> None:
    lock, locks = tmp_path / LOCK, tmp_path / "locks"
    lock.touch()
    inode = lock.stat().st_ino
    locks.write_text(
        f"1: POSIX  ADVISORY  WRITE 11 08:01:{inode} 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 08:01:{inode + 1} 0 EOF\n"
        f"3: FLOCK  ADVISORY  WRITE 13 08:01:{inode} 0 EOF\n"
    )
    assert holder(lock, locks) == 13
    locks.write_text(f"3: FLOCK  ADVISORY  WRITE 0 08:01:{inode} 0 EOF\n")
    assert holder(lock, locks) is None, "of another namespace of processes"
    assert holder(lock, tmp_path / "none") is None
    fd = os.open(lock, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert holder(lock) in (os.getpid(), None)
    os.close(fd)
