"""The power goes while entries are applied and checkpoints are written: any part of what was not synced is on the disk.

RAFTSCHED_POWER_TRIALS says how often (6)."""

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

from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.core.tables import Table
from raftsched.store import LogEntry, Store
from tests.support.memory_view import T0, every, policy
from tests.support.stores import commit

TRIALS = int(os.environ.get("RAFTSCHED_POWER_TRIALS", "6"))

# Writes and applies one entry after the other, and says which it has acknowledged; checkpoints in a thread meanwhile.
RUNS = """
import sys, threading
from pathlib import Path
from raftsched.store import Store, WriteBatch, tables
from tests.unit.harness.test_power_loss_of_tables import entry

tables.PUBLISH_BYTES = 4_000
store = Store.open(Path(sys.argv[1]), map_bytes=2**19)
index = store.log_bounds()[1]
pending, done = None, threading.Event()

def write():
    store.write_checkpoint(pending)
    done.set()

while True:
    index += 1
    new = entry(index)
    keep = store.checkpoint_index - 5
    store.write(WriteBatch(append=[new], commit_index=index, drop_below=keep if keep > 1 else None))
    store.apply([new])
    print(index, flush=True)
    if pending is None and index % 7 == 0:
        done.clear()
        pending = store.begin_checkpoint()
        threading.Thread(target=write).start()
    elif pending is not None and done.is_set():
        store.end_checkpoint(pending)
        pending = None
"""


def entry(index: int) -> LogEntry:
    """A job that is new, and a queue that is changed."""
    body = b"x" * (index * 37 % 3_000)
    commands = [
        encode(c.CreateJob("d", f"j{index}", policy(every(1000)), body)),
        encode(c.PutQueue(f"q{index % 7}", max_running=index)),
    ]
    return LogEntry(index, 1, encode_entry(T0 + index, [(1, index, commands)]))


def dump(store: Store) -> dict[Table, list[tuple[bytes, bytes]]]:
    with store.read() as view:
        return {table: list(view.scan(table)) for table in Table}


@pytest.mark.slow
def test_the_tables_are_those_of_the_log(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc)")
    shim = tmp_path / "unsynced.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, SHIM, "-ldl"], check=True)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    data, undo, told, lost = tmp_path / "data", tmp_path / "undo", 0, 0
    data.mkdir()
    reference = Store.open(tmp_path / "reference", sync=False)
    for _ in range(TRIALS):
        shutil.rmtree(undo, ignore_errors=True)
        undo.mkdir()
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        env |= {"LD_PRELOAD": str(shim), "UNSYNCED_DIR": str(data), "UNSYNCED_UNDO": str(undo)}
        command = [sys.executable, "-c", RUNS, str(data / "store")]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(rng.randint(1, 120)):
                line = process.stdout.readline()
                assert line, "the writer ended by itself"
                told = int(line)
            process.kill()
            rest = process.communicate()[0].split()
            told = max([told, *map(int, rest[-1:])])
        node: Any = SimpleNamespace(undo=undo)
        lost += lose(node, rng, rng.choice((1.0, rng.random())))["lost"]
        store = Store.open(data / "store", map_bytes=2**19)
        applied = store.applied_index
        assert applied >= told, "what was acknowledged is not there"
        while reference.applied_index < applied:
            commit(reference, entry(reference.applied_index + 1))
        assert dump(store) == dump(reference)
        store.close()
    reference.close()
    print(f"{told} entries, {lost} writes lost")
    assert lost, "nothing was at risk"
