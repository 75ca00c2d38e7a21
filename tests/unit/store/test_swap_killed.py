"""A process that ends at any line of a swap: the store that is found is wholly the old one or wholly the new one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.store import Store, snapshot
from raftsched.store.environment import DATA
from tests.unit.store.test_state import batch, create, dump

# Runs itself in a child for each line that prepare and swap come by, until they come through; prints what was found.
SCRIPT = """
import os, shutil, sys
from pathlib import Path
from raftsched.store import LogEntry, Store, WriteBatch
from tests.unit.store.test_state import create, dump, batch

os.fsync = lambda fd: None  # a killed process needs none
ROOM = Path(sys.modules["raftsched.store"].__file__).parent
WHERE = {str(ROOM / name) for name in ("store.py", "snapshot.py", "gate.py")}
base = Path(sys.argv[1])

def make(name, count):
    store = Store.open(base / name, sync=False)
    store.write(batch(*(create(i) for i in range(1, count + 1))))
    return store

new = make("new", 40)
meta = new.copy(base / "copy")
old = make("old", 7)
old.write(WriteBatch(append=[LogEntry(8, 1, b"tail")], hard_state=(5, "n3"), local={"id": b"mine"}))
wanted = {7: dump(old), 40: dump(new)}
bounds = {7: (1, 8), 40: (41, 40)}
new.close()
old.close()

def swap(directory, last):
    left = last
    def trace(frame, event, arg):
        nonlocal left
        if frame.f_code.co_filename not in WHERE:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os._exit(9)
        return trace
    store = Store.open(directory, sync=False)
    sys.settrace(trace)
    store.swap(store.prepare(directory / "copy", meta))
    sys.settrace(None)
    os._exit(0)

line, status = 0, 9
while status == 9:
    here = base / "here"
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(base / "old", here)
    shutil.copy(base / "copy", here / "copy")
    child = os.fork()
    if not child:
        swap(here, line)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9), (line, status)
    store = Store.open(here, sync=False)
    index = store.applied_index
    assert dump(store) == wanted[index], line
    assert store.log_bounds() == bounds[index], line
    assert store.hard_state() == (5, "n3"), line
    assert store.local("id") == b"mine", line
    assert not (here / "next").exists()
    store.write(batch(create(index + 1)) if index == 40 else WriteBatch(hard_state=(6, None)))
    store.close()
    print(index, flush=True)
    line += 1
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
    assert found.count("7") > 50
    assert found.count("40") > 10


class Recorder:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._fsync, self._rename = os.fsync, os.rename
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "rename", self.rename)

    def fsync(self, fd: int) -> None:
        self.calls.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")
        self._fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self.calls.append(f"rename {target.name}")
        self._rename(source, target)


@pytest.mark.parametrize("sync", [True, False])
def test_data_before_the_rename_and_the_directory_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    """Else a power loss could leave a name without its data, or give the old store back after answers went out."""
    source = Store.open(tmp_path / "source", sync=False)
    source.write(batch(create(1), create(2)))
    meta = source.copy(tmp_path / "copy")
    store = Store.open(tmp_path / "store", sync=sync)
    recorder = Recorder(monkeypatch)
    adopted = snapshot.adopt

    def adopt(*args: object, **kwargs: object) -> None:
        recorder.calls.append("adopt")
        adopted(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshot, "adopt", adopt)
    fresh = store.prepare(tmp_path / "copy", meta)
    store.swap(fresh)
    wanted = [f"rename {DATA}", f"sync {DATA}", "adopt", f"sync {DATA}", f"rename {DATA}", "sync store"]
    assert recorder.calls == (wanted if sync else [call for call in wanted if "sync" not in call])
    assert dump(store) == dump(source)
    store.close()
    source.close()


@pytest.mark.parametrize("step", ["adopt", "rename", "sync_directory", "Environment"])
def test_a_step_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Before the rename nothing was changed; after it nothing more goes into the old file: no restart will find it."""
    source = Store.open(tmp_path / "source", sync=False)
    source.write(batch(create(1), create(2)))
    store = Store.open(tmp_path / "store")
    store.write(batch(create(1)))
    fresh = store.prepare(tmp_path / "copy", source.copy(tmp_path / "copy"))
    before, after = dump(store), dump(source)

    def fail(*_: object, **__: object) -> None:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(
            {
                "adopt": "raftsched.store.snapshot.adopt",
                "rename": "os.rename",
                "sync_directory": "raftsched.store.snapshot.sync_directory",
                "Environment": "raftsched.store.store.Environment",
            }[step],
            fail,
        )
        with pytest.raises(OSError, match="no"):
            store.swap(fresh)
    renamed = step in ("sync_directory", "Environment")
    if renamed:
        with pytest.raises(RuntimeError, match="closed"):
            store.write(batch(create(2)))
        with pytest.raises(RuntimeError, match="closed"), store.read():
            pass
    else:
        assert dump(store) == before
        store.write(batch(create(2)))
    store.close()
    again = Store.open(tmp_path / "store")
    assert dump(again) == after
    assert (again.log_bounds(), again.applied_index) == ((3, 2) if renamed else (1, 2), 2)
    again.close()
    source.close()
