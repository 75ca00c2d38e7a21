"""A store whose power goes: with the writes of the last turns taken back that no sync had brought onto the disk."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness.machine import SHIM
from harness.nemesis.power import lose

from raftsched.store import Store

TURNS = 5

# Opens a store, which is on the disk, and runs turns of one entry each; what it says then, all of them have returned.
RUNS = """
import sys, time
from pathlib import Path
from raftsched.store import LogEntry, Store, WriteBatch
from tests.support.stores import carry_out, checkpoint

Store.open(Path(sys.argv[1]) / "store").close()
store = Store.open(Path(sys.argv[1]) / "store", sync=sys.argv[3] == "True", metasync=sys.argv[4] == "True")
for index in range(1, int(sys.argv[2]) + 1):
    entry = LogEntry(index, 1, b"x" * 100)
    carry_out(store, WriteBatch(append=[entry], hard_state=(index, "n1"), commit_index=index), [entry])
    if index % 2 == 0:
        checkpoint(store)
print(index, flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc)")
    built = tmp_path_factory.mktemp("shim") / "unsynced.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, SHIM, "-ldl"], check=True)
    return str(built)


def lost_turns(tmp_path: Path, shim: str, sync: bool, metasync: bool) -> int:
    """How many of the turns that had returned are gone after a loss of power."""
    data, undo = tmp_path / "data", tmp_path / "undo"
    data.mkdir()
    undo.mkdir()
    env = {**os.environ, "LD_PRELOAD": shim, "UNSYNCED_DIR": str(data), "UNSYNCED_UNDO": str(undo)}
    command = [sys.executable, "-c", RUNS, str(data), str(TURNS), str(sync), str(metasync)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == TURNS
        process.kill()
    node: Any = SimpleNamespace(undo=undo)
    lose(node, random.Random(), 1.0)
    store = Store.open(data / "store", sync=False)
    kept = store.log_bounds()[1]
    assert store.hard_state()[0] == kept, "a turn is there or not"
    assert store.applied_index == kept, "and what is committed in it is applied again"
    store.close()
    return TURNS - kept


def test_what_has_returned_stays(tmp_path: Path, shim: str) -> None:
    assert lost_turns(tmp_path, shim, sync=True, metasync=True) == 0


def test_without_its_meta_page_the_last_turn_is_not_found(tmp_path: Path, shim: str) -> None:
    assert lost_turns(tmp_path, shim, sync=True, metasync=False) == 1


def test_without_syncs_all_are_gone(tmp_path: Path, shim: str) -> None:
    assert lost_turns(tmp_path, shim, sync=False, metasync=False) == TURNS
