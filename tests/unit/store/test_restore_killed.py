"""A process that ends at any line of a restore: there is nothing, or what keeps nodes away, or the whole store."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.backups.restore import reserved
from raftsched.cli.doctor.directory import look_at_directory
from raftsched.errors import StartupError
from raftsched.store import snapshot
from raftsched.unfinished import RESTORING, require_restored, unfinished_restore
from tests.support.killed import GAP

# Runs itself in a child for each line that a restore comes by, until it comes through; prints what was found.
SCRIPT = """
import shutil, sys
from pathlib import Path
from random import Random
from raftsched.backups.restore import restore
from raftsched.errors import StartupError
from raftsched.store import Store
from raftsched.unfinished import require_restored
from tests.support.killed import at_each_line
from tests.support.memory_view import World
from tests.unit.store.test_backup import Saved

base = Path(sys.argv[1])
data = base / "data"
saved = Saved(base / "old")
world = World()
world.create(name="kept")
saved.apply(world)
file = saved.save(base / "b")
saved.store.close()

def restored():
    shutil.rmtree(data, ignore_errors=True)
    return lambda: restore(file, data, "n1", "127.0.0.1:9501", rng=Random(7), now_ms=0)

WHERE = ["backups/restore.py", *(f"store/{name}.py" for name in ("rebuild", "snapshot", "layout"))]
for line in at_each_line(restored, WHERE):
    if not data.exists() or not any(data.iterdir()):
        print("1-nothing")
        continue
    try:
        require_restored(data)
    except StartupError as error:
        assert "remove it and restore again" in error.detail
        print("2-refused")
        continue
    assert [path.name for path in data.iterdir()] == ["store"], line
    store = Store.open(data / "store", sync=False)
    assert store.applied_index > saved.index, line
    store.close()
    print("3-whole", flush=True)
"""


@pytest.mark.slow
def test_a_restore_that_is_killed_at_any_line_lets_no_node_begin(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert ran.returncode == 0, ran.stderr
    found = ran.stdout.split()
    assert found == sorted(found), "what keeps nodes away is there until the store is, without a gap"
    assert found.count("2-refused") >= 100 // GAP
    assert found.count("3-whole") >= max(1, 2 // GAP)


def test_what_keeps_nodes_away_is_on_the_disk_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(snapshot, "sync_directory", synced.append)
    with reserved(tmp_path / "above" / "data") as work:
        assert work == tmp_path / "above" / "data" / RESTORING
        assert synced == [tmp_path / "above", tmp_path, work.parent]
        assert unfinished_restore(work.parent) == work


def test_a_node_does_not_begin_where_a_restore_was_killed(tmp_path: Path) -> None:
    require_restored(tmp_path / "none")
    require_restored(tmp_path)
    (tmp_path / RESTORING).mkdir()
    says = rf"begin without .* {tmp_path / RESTORING} is what a restore left that was killed; unless .*, remove it and"
    with pytest.raises(StartupError, match=says):
        require_restored(tmp_path)
    found = {f.check: f for f in look_at_directory(tmp_path)}
    assert "in-use" not in found
    assert (found["store"].state, "remove it and restore again" in found["store"].detail) == ("fail", True)


def test_the_mark_of_a_restore_that_ended_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / RESTORING).mkdir()
    assert unfinished_restore(tmp_path) is None
    require_restored(tmp_path)
    assert not (tmp_path / RESTORING).exists()
    (tmp_path / RESTORING / "store").mkdir(parents=True)  # a node began beside it, of a version that did not look
    with caplog.at_level(logging.WARNING):
        require_restored(tmp_path)
    assert "is of no use beside a store: remove it" in caplog.text
    assert (tmp_path / RESTORING / "store").exists()
