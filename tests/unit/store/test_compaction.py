"""Compaction at a start: the same rows in a smaller file, whatever fails or ends on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.core.rows import JOBS
from raftsched.store import LogEntry, Store, WriteBatch, compaction
from raftsched.store.compaction import LEAST_BYTES, MOST_BYTES, ROOM_BYTES, Usage, is_due
from raftsched.store.environment import DATA
from tests.support.killed import GAP
from tests.support.memory_view import T0
from tests.support.stores import checkpoint, commit
from tests.unit.store.test_state import create, dump
from tests.unit.store.test_swap_killed import Recorder, Written

BODY = b"x" * 60_000


def no_time() -> int:
    return 0


def entry(index: int, command: c.Command) -> LogEntry:
    return LogEntry(index, 1, encode_entry(T0 + index, [(1, index, [encode(command)])]))


def fill(directory: Path) -> None:
    """Makes a store most of which was deleted, with an entry behind what is committed."""
    store = Store.open(directory, sync=False)
    commit(store, *(create(i, BODY) for i in range(1, 13)))
    checkpoint(store)
    with store.read() as view:
        ids = [job.id for job in JOBS.all(view)]
    commit(store, *(entry(13 + at, c.DeleteJob(job_id)) for at, job_id in enumerate(ids[:11])))
    commit(store, entry(24, c.Prune(2**50, 1_000)))
    store.write(WriteBatch(append=[LogEntry(25, 1, b"tail")], hard_state=(5, "n3"), local={"id": b"mine"}))
    store.close()


def holds_all(store: Store, wanted: object) -> bool:
    own = (store.log_bounds(), store.applied_index, store.hard_state(), store.local("id"))
    return dump(store) == wanted and own == ((1, 25), 24, (5, "n3"), b"mine")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LEAST_BYTES", 0)


@pytest.mark.usefixtures("eager")
def test_what_is_free_is_given_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    store = Store.open(tmp_path)
    wanted, before, size = dump(store), store.usage(), store.size_bytes()
    assert before.used < before.file // 2
    caplog.set_level("INFO")
    store.compact(no_time)
    after = store.usage()
    assert (after.file, after.used) < (before.file // 2, before.used + 1)
    assert store.size_bytes() < size
    assert "are free: they are written anew" in caplog.text
    assert "tables take" in caplog.text
    assert holds_all(store, wanted)
    (directory,) = tmp_path.glob("tables-*")
    store.compact(no_time)
    assert list(tmp_path.glob("tables-*")) == [directory], "there is nothing to give back any more"
    store.close()
    again = Store.open(tmp_path)
    assert holds_all(again, wanted)
    again.close()


@pytest.mark.usefixtures("eager")
def test_what_comes_after_it_is_there_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "s")
    store = Store.open(tmp_path / "s")
    store.compact(no_time)
    store.write(WriteBatch(truncate_from=25))
    commit(store, create(25), create(26))
    wanted = dump(store)
    monkeypatch.setattr(store, "_last_checkpoint", lambda: None)
    store.close()
    again = Store.open(tmp_path / "s")
    assert again.applied_index == 26
    assert dump(again) == wanted
    again.close()


@pytest.mark.parametrize(
    ("usage", "room", "due"),
    [
        (Usage(4 * LEAST_BYTES, LEAST_BYTES), 2**40, True),
        (Usage(4 * LEAST_BYTES, 2 * LEAST_BYTES), 2**40, False),
        (Usage(LEAST_BYTES - 1, 0), 2**40, False),
        (Usage(LEAST_BYTES, 1), 2**40, True),
        (Usage(16 * MOST_BYTES, MOST_BYTES), 2**40, True),
        (Usage(16 * MOST_BYTES, MOST_BYTES + 1), 2**40, False),
        (Usage(4 * LEAST_BYTES, LEAST_BYTES), LEAST_BYTES + ROOM_BYTES, True),
        (Usage(4 * LEAST_BYTES, LEAST_BYTES), LEAST_BYTES + ROOM_BYTES - 1, False),
    ],
)
def test_when_it_is_due(usage: Usage, room: int, due: bool) -> None:
    assert is_due(usage, room) == due


def test_a_store_that_is_small_stays(tmp_path: Path) -> None:
    fill(tmp_path)
    store = Store.open(tmp_path)
    before = store.usage()
    store.compact(no_time)
    assert store.usage() == before
    store.close()


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def other_rows(copy: Callable[..., None]) -> Callable[..., None]:
    def rows(env: object) -> list[object]:
        return [object()]

    return rows


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("step", ["copy", "make", "rows", "sync_directory"])
def test_what_cannot_be_copied_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    fill(tmp_path)
    store = Store.open(tmp_path)
    wanted, (directory,) = dump(store), tmp_path.glob("tables-*")
    with monkeypatch.context() as patch:
        if step == "copy":
            patch.setattr(compaction, "Environment", full)
        elif step == "make":
            patch.setattr("raftsched.store.tables.make", full)
        elif step == "rows":
            patch.setattr(compaction, "_rows_in", other_rows(compaction._rows_in))
        else:
            patch.setattr("raftsched.store.snapshot.sync_directory", full)
        store.compact(no_time)
    assert "stay as they are" in caplog.text
    assert list(tmp_path.glob("tables-*")) == [directory]
    assert holds_all(store, wanted)
    store.close()
    again = Store.open(tmp_path)
    assert holds_all(again, wanted)
    again.close()


@pytest.mark.usefixtures("eager")
def test_what_one_left_that_was_killed_is_not_taken_for_a_copy(tmp_path: Path) -> None:
    fill(tmp_path / "s")
    other = Store.open(tmp_path / "other", sync=False)
    commit(other, *(create(index) for index in range(1, 6)))
    other.close()
    shutil.copytree(tmp_path / "other" / "tables-1", tmp_path / "s" / "tables-2")
    store = Store.open(tmp_path / "s")
    wanted = dump(store)
    store.compact(no_time)
    assert holds_all(store, wanted)
    assert [path.name for path in (tmp_path / "s").glob("tables-*")] == ["tables-2"]
    store.close()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("sync", [True, False])
def test_the_copy_before_the_log_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool) -> None:
    fill(tmp_path / "store")
    store = Store.open(tmp_path / "store", sync=sync)
    wanted = dump(store)
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        Written(store, lambda: recorder.calls.append("log"))
        store.compact(no_time)
    steps = [f"sync {DATA}", "sync checkpoint", "sync tables-2", "sync store", "log", "sync checkpoint"]
    steps.append("remove tables-1")
    assert recorder.calls == (steps if sync else [call for call in steps if "sync" not in call])
    assert dump(store) == wanted
    store.close()


@pytest.mark.usefixtures("eager")
def test_after_a_log_that_may_name_it_nothing_is_written_to_the_old_one(tmp_path: Path) -> None:
    fill(tmp_path)
    store = Store.open(tmp_path)
    wanted = dump(store)

    def fail() -> None:
        raise lmdb.DiskError("no")

    Written(store, fail)
    with pytest.raises(lmdb.DiskError):
        store.compact(no_time)
    with pytest.raises(RuntimeError, match="closed"):
        store.write(WriteBatch(append=[create(26)]))
    store.close()
    again = Store.open(tmp_path)
    assert holds_all(again, wanted)
    again.close()


SCRIPT = """
import shutil, sys
from pathlib import Path
from raftsched.store import Store, WriteBatch, compaction
from tests.support.killed import at_each_line
from tests.unit.store.test_compaction import fill, holds_all, no_time
from tests.unit.store.test_state import dump

compaction.LEAST_BYTES = 0
base = Path(sys.argv[1])
here = base / "here"
fill(base / "old")
store = Store.open(base / "old", sync=False)
wanted, most = dump(store), store.usage().file
store.close()

def compact():
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(base / "old", here)
    store = Store.open(here, sync=False)
    return lambda: store.compact(no_time)

WHERE = [f"store/{name}.py" for name in ("store", "tables", "checkpoint", "snapshot", "compaction")]
for line in at_each_line(compact, WHERE):
    store = Store.open(here, sync=False)
    assert holds_all(store, wanted), line
    assert len(list(here.glob("tables-*"))) == 1, line
    print("old" if store.usage().file == most else "small", flush=True)
    if line % 10 == 0:  # the next start goes on where this one ended
        store.compact(no_time)
        assert store.usage().file < most // 2
        assert holds_all(store, wanted), line
    store.write(WriteBatch(hard_state=(6, None)))
    store.close()
"""


@pytest.mark.slow
def test_a_process_that_ends_at_any_line_leaves_all_rows(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert ran.returncode == 0, ran.stderr
    found = ran.stdout.split()
    print(f"{len(found)} lines, {found.count('old')} times the old tables")
    assert found == sorted(found), "once small it stays small"
    assert found.count("old") >= 50 // GAP
    assert found.count("small") >= 10 // GAP
