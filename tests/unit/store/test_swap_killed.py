"""A process that ends at any line of a swap: the store that is found is wholly the old one or wholly the new one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.store import LogEntry, Store, WriteBatch
from raftsched.store.environment import DATA
from tests.support.killed import GAP
from tests.support.stores import commit
from tests.unit.store.test_state import create, dump

# Runs itself in a child for each line that prepare and swap come by, until they come through; prints what was found.
SCRIPT = """
import shutil, sys
from pathlib import Path
from raftsched.store import LogEntry, Store, WriteBatch
from tests.support.killed import at_each_line
from tests.support.stores import commit
from tests.unit.store.test_state import create, dump

base = Path(sys.argv[1])
here = base / "here"

def make(name, count):
    store = Store.open(base / name, sync=False)
    commit(store, *(create(i) for i in range(1, count + 1)))
    return store

new = make("new", 40)
meta = new.copy(base / "copy")
old = make("old", 7)
old.write(WriteBatch(append=[LogEntry(8, 1, b"tail")], hard_state=(5, "n3"), local={"id": b"mine"}))
wanted = {7: dump(old), 40: dump(new)}
bounds = {7: (1, 8), 40: (41, 40)}
new.close()
old.close()

def swap():
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(base / "old", here)
    shutil.copy(base / "copy", here / "copy")
    store = Store.open(here, sync=False)
    return lambda: store.swap(store.prepare(here / "copy", meta))

for line in at_each_line(swap, [f"store/{name}.py" for name in ("store", "tables", "checkpoint", "snapshot", "gate")]):
    store = Store.open(here, sync=False)
    index = store.applied_index
    assert dump(store) == wanted[index], line
    assert store.log_bounds() == bounds[index], line
    assert store.hard_state() == (5, "n3"), line
    assert store.local("id") == b"mine", line
    assert not (here / "next").exists()
    assert len(list(here.glob("tables-*"))) == 1, line
    if index == 40:
        commit(store, create(41))
    else:
        store.write(WriteBatch(hard_state=(6, None)))
    store.close()
    print(index, flush=True)
"""


@pytest.mark.slow
def test_old_or_new(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert ran.returncode == 0, ran.stderr
    found = ran.stdout.split()
    print(f"{len(found)} lines, {found.count('7')} times the old store")
    assert found == sorted(found, key=int), "once new it stays new"
    assert found.count("7") >= 50 // GAP
    assert found.count("40") >= 10 // GAP


class Recorder:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        for name, word in (("fsync", "sync"), ("fdatasync", "sync"), ("rename", "rename")):
            monkeypatch.setattr(os, name, self.recorded(word, getattr(os, name)))
        monkeypatch.setattr(shutil, "rmtree", self.recorded("remove", shutil.rmtree))

    def recorded(self, word: str, function: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            path = os.readlink(f"/proc/self/fd/{args[0]}") if isinstance(args[0], int) else args[-1]
            self.calls.append(f"{word} {Path(path).name}")
            function(*args, **kwargs)

        return call


class Written:
    """The log's environment; `told` is called before each transaction that writes."""

    def __init__(self, store: Store, told: Callable[[], None]) -> None:
        self._env = store._env.lmdb
        self._told = told
        store._env.lmdb = self

    def begin(self, **options: Any) -> Any:
        if options.get("write"):
            self._told()
        return self._env.begin(**options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


@pytest.mark.parametrize("sync", [True, False])
def test_the_tables_before_the_log_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool) -> None:
    """Else a power loss could leave a name without its data; and the old ones go last."""
    source = Store.open(tmp_path / "source", sync=False)
    commit(source, create(1), create(2))
    meta = source.copy(tmp_path / "copy")
    store = Store.open(tmp_path / "store", sync=sync)
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        fresh = store.prepare(tmp_path / "copy", meta)
        Written(store, lambda: recorder.calls.append("log"))
        store.swap(fresh)
    wanted = [f"rename {DATA}", f"sync {DATA}", "remove tables-2", f"sync {DATA}", "sync checkpoint", "sync 1"]
    wanted += ["rename tables-2", "sync store", "log", "sync checkpoint", "remove tables-1"]
    assert recorder.calls == (wanted if sync else [call for call in wanted if "sync" not in call])
    assert dump(store) == dump(source)
    store.close()
    source.close()


@pytest.mark.parametrize("step", ["make", "rename", "sync_directory", "log", "open"])
def test_a_step_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Before the log names the new tables nothing was changed. From there on nothing more goes into the old ones, which
    no restart may find."""
    source = Store.open(tmp_path / "source", sync=False)
    commit(source, create(1), create(2))
    store = Store.open(tmp_path / "store")
    commit(store, create(1))
    fresh = store.prepare(tmp_path / "copy", source.copy(tmp_path / "copy"))
    before, after = dump(store), dump(source)

    def fail(*_: object, **__: object) -> None:
        raise OSError("no")

    with monkeypatch.context() as patch:
        if step == "log":
            Written(store, fail)
        else:
            where = {
                "make": "raftsched.store.tables.make",
                "rename": "os.rename",
                "sync_directory": "raftsched.store.snapshot.sync_directory",
                "open": "raftsched.store.tables.Tables.open",
            }
            patch.setattr(where[step], fail)
        with pytest.raises(OSError, match="no"):
            store.swap(fresh)
    if step in ("log", "open"):
        for use in (
            lambda: store.write(WriteBatch(append=[create(2)])),
            lambda: store.apply([create(2)]),
            lambda: dump(store),
            lambda: store.local("id"),
        ):
            with pytest.raises(RuntimeError, match="closed"):
                use()
    else:
        assert dump(store) == before
        commit(store, create(2))
    store.close()
    again = Store.open(tmp_path / "store")
    assert dump(again) == (before if step == "log" else after)
    assert (again.log_bounds(), again.applied_index) == {"log": ((1, 1), 1), "open": ((3, 2), 2)}.get(step, ((1, 2), 2))
    commit(again, LogEntry(again.applied_index + 1, 1, b""))
    again.close()
    source.close()
