"""A store of an earlier version, which had log and tables in one environment: opened, it has all that it had."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest

from raftsched.core.apply import Applier
from raftsched.core.tables import Table
from raftsched.errors import StartupError
from raftsched.store import LogEntry, Store, WriteBatch, layout, records
from raftsched.store.environment import DATA, Environment
from raftsched.store.records import OWN, STATE, State
from raftsched.store.view import WriteView
from tests.support.killed import GAP
from tests.support.stores import commit
from tests.unit.store.test_state import create, dump

FIRST, APPLIED, COMMITTED, LAST = 4, 20, 23, 26
MAP_BYTES = 2**24


def log() -> list[LogEntry]:
    return [create(index, b"%d" % index * 900) for index in range(1, LAST + 1)]


def make_old(directory: Path, *, map_bytes: int = MAP_BYTES) -> None:
    """As the earlier version wrote it, with a state that another node had sent and that was not swapped in."""
    directory.mkdir()
    env = Environment(directory, map_bytes=map_bytes, sync=False)
    with env.lmdb.begin(write=True) as txn:
        applier = Applier(WriteView(txn, env.tables))
        for entry in log()[:APPLIED]:
            applier.entry(*entry)
        applier.close()
        for index, term, data in log()[FIRST - 1 :]:
            txn.put(records.index_key(index), records.encode_entry(term, data), append=True, db=env.log)
        for name, value in ((b"id", b"mine"), (b"other", b"x" * 3_000)):
            txn.put(OWN + name, records.encode_own(OWN + name, value), db=env.own)
        state = State(
            term=7,
            voted_for="n3",
            commit_index=COMMITTED,
            applied_index=APPLIED,
            applied_term=1,
            base_index=FIRST - 1,
            base_term=1,
            last_index=LAST,
        )
        txn.put(STATE, records.encode_state(state), db=env.own)
    env.close()
    (directory / "lock").touch()
    (directory / "next" / "1").mkdir(parents=True)
    shutil.copy(directory / DATA, directory / "next" / "1" / DATA)


def wanted(directory: Path) -> dict[Table, list[tuple[bytes, bytes]]]:
    """The tables as of the entry that is committed."""
    store = Store.open(directory, sync=False)
    commit(store, *log()[:COMMITTED])
    found = dump(store)
    store.close()
    return found


def check(directory: Path, tables: dict[Table, list[tuple[bytes, bytes]]], *, sync: bool = False) -> None:
    """Opens it, twice, and goes on."""
    for _ in range(2):
        store = Store.open(directory, sync=sync, map_bytes=2**20)
        assert dump(store) == tables
        assert store.log_bounds() == (FIRST, LAST)
        assert store.log_entries(FIRST, 1 << 30) == log()[FIRST - 1 :]
        assert (store.log_term(FIRST - 1), store.log_term(FIRST - 2)) == (1, None)
        assert store.hard_state() == (7, "n3")
        assert (store.commit_index, store.applied_index, store.applied_term) == (COMMITTED, COMMITTED, 1)
        assert (store.local("id"), store.local("other"), store.local("none")) == (b"mine", b"x" * 3_000, None)
        assert {path.name for path in directory.iterdir()} == {"lock", layout.LOG, "tables-1"}
        store.close()
    store = Store.open(directory, sync=sync, map_bytes=2**20)
    store.apply(log()[COMMITTED:])
    store.publish()
    commit(store, create(LAST + 1))
    assert len(dump(store)[Table.JOBS]) == LAST + 1
    store.close()


@pytest.mark.parametrize("sync", [True, False])
def test_all_of_it_is_there(tmp_path: Path, sync: bool) -> None:
    make_old(tmp_path / "s")
    check(tmp_path / "s", wanted(tmp_path / "wanted"), sync=sync)


def test_one_that_is_larger_than_the_map(tmp_path: Path) -> None:
    """It had grown; so may the new one have to, before its first write."""
    make_old(tmp_path / "s")
    env = Environment(tmp_path / "s", map_bytes=MAP_BYTES, sync=False)
    with env.lmdb.begin(write=True) as txn:
        state = records.decode_state(txn.get(STATE, db=env.own))
        for index in range(LAST + 1, LAST + 101):
            txn.put(records.index_key(index), records.encode_entry(1, b"x" * 50_000), db=env.log)
        state.last_index += 100
        txn.put(STATE, records.encode_state(state), db=env.own)
    env.close()
    store = Store.open(tmp_path / "s", sync=False, map_bytes=2**19)
    assert (store.log_bounds(), store.applied_index) == ((FIRST, LAST + 100), COMMITTED)
    store.apply(log()[COMMITTED:])
    store.write(WriteBatch(append=[LogEntry(LAST + 101, 1, b"x" * 500_000)]))
    store.close()


def test_of_an_empty_one(tmp_path: Path) -> None:
    Environment(tmp_path, map_bytes=MAP_BYTES, sync=False).close()
    store = Store.open(tmp_path, sync=False)
    assert (store.log_bounds(), store.applied_index, store.hard_state()) == ((1, 0), 0, (0, None))
    commit(store, create(1))
    store.close()


def test_one_with_a_leaked_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB refuses to compact such a one, after some of the file was written."""
    make_old(tmp_path / "s")

    class Leaking:
        def __init__(self, env: Any) -> None:
            self._env = env

        def __getattr__(self, name: str) -> Any:
            return getattr(self._env, name)

        def copy(self, path: str, compact: bool) -> None:
            if compact:
                (Path(path) / DATA).write_bytes(b"some")
                raise lmdb.IncompatibleError("page leak")
            self._env.copy(path, compact=compact)

    class Old(Environment):
        def __init__(self, directory: Path, **options: Any) -> None:
            super().__init__(directory, **options)
            self.lmdb = Leaking(self.lmdb)

    with monkeypatch.context() as patch:
        patch.setattr(layout, "Environment", Old)
        layout.prepare(tmp_path / "s", map_bytes=MAP_BYTES, sync=False)
    check(tmp_path / "s", wanted(tmp_path / "wanted"))


@pytest.mark.parametrize("edit", ["format", "flip", "none", "cut"])
def test_a_damaged_one_is_refused_and_left_as_it_is(tmp_path: Path, edit: str) -> None:
    make_old(tmp_path / "s")
    if edit == "cut":
        raw = (tmp_path / "s" / DATA).read_bytes()
        (tmp_path / "s" / DATA).write_bytes(raw[: len(raw) // 2])
    else:
        env = Environment(tmp_path / "s", map_bytes=MAP_BYTES, sync=False)
        with env.lmdb.begin(write=True) as txn:
            raw = txn.get(STATE, db=env.own)
            if edit == "none":
                txn.delete(STATE, db=env.own)
            else:
                other = records.encode_state(State(format=2)) if edit == "format" else raw[:-1] + bytes((raw[-1] ^ 1,))
                txn.put(STATE, other, db=env.own)
        env.close()
    before = (tmp_path / "s" / DATA).read_bytes()
    says = {"format": "has format 2", "flip": "checksum is another", "none": "is missing", "cut": "cut off"}[edit]
    for _ in range(2):
        with pytest.raises(StartupError, match=says):
            Store.open(tmp_path / "s", sync=False)
    assert (tmp_path / "s" / DATA).read_bytes() == before
    assert not (tmp_path / "s" / layout.LOG).exists()


# Runs itself in a child for each line of the conversion, and each change of a name, until it comes through.
SCRIPT = """
import shutil, sys
from pathlib import Path
from raftsched.store import layout
from tests.support.killed import at_each_line
from tests.unit.store.test_conversion import check, make_old, wanted

base = Path(sys.argv[1])
here = base / "here"
make_old(base / "old")
tables = wanted(base / "wanted")

def convert():
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(base / "old", here)
    return lambda: layout.prepare(here, map_bytes=2**20, sync=True)

WHERE = [f"store/{name}.py" for name in ("layout", "tables", "checkpoint", "snapshot")]
for _ in at_each_line(convert, WHERE, ("rename", "unlink", "rmdir", "mkdir")):
    print("new" if (here / "log").exists() else "old", flush=True)
    check(here, tables)
"""


@pytest.mark.slow
def test_ended_at_any_line(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert ran.returncode == 0, ran.stderr
    found = ran.stdout.split()
    print(f"{len(found)} steps, {found.count('old')} times the old store")
    assert found == sorted(found, reverse=True), "once new it stays new"
    assert found.count("old") >= 50 // GAP
    assert found.count("new") >= 10 // GAP


def test_the_new_one_is_on_the_disk_before_the_old_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(tmp_path / "s")
    calls: list[str] = []

    def recorded(word: str, function: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{args[0]}") if isinstance(args[0], int) else args[-1])
            calls.append(f"{word} {path.relative_to(tmp_path)}")
            function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name, word in (("fsync", "sync"), ("fdatasync", "sync"), ("rename", "rename"), ("unlink", "remove")):
            patch.setattr(os, name, recorded(word, getattr(os, name)))
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        layout.prepare(tmp_path / "s", map_bytes=MAP_BYTES, sync=True)
    first = [f"sync s/tables-1/{DATA}", "sync s/tables-1/checkpoint", "sync s/tables-1"]
    then = [f"sync s/log.new/{DATA}", "sync s/log.new", "sync s", "rename s/log", "sync s", f"remove s/{DATA}"]
    calls.remove("remove s/tables-1/checkpoint")
    assert calls == [*first, *then, "remove s/lock.mdb"]
