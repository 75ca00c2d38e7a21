"""kill -9 at any moment: what is found afterwards is the state after some write, whole, with all that it says is
committed applied; whatever of it was published, and whichever checkpoint was the last one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raftsched.core.entry import decode_entry
from raftsched.core.tables import Table
from raftsched.store import Store
from tests.support.invariants import violations
from tests.support.memory_view import MemoryView

WRITER = """
import sys
from pathlib import Path
from raftsched.core import commands as c
from raftsched.core.commands import encode
from raftsched.core.entry import encode_entry
from raftsched.store import LogEntry, Store, WriteBatch
from tests.support.memory_view import T0, every, policy

store = Store.open(Path(sys.argv[1]), sync=False, map_bytes=2**20)
index = store.log_bounds()[1]
turn = int(sys.argv[2])
pending = None
while True:
    log = []
    for _ in range(index % 5 + 1):
        index += 1
        job = c.CreateJob("d", f"j{index}", policy(every(1000)), b"x" * (index * 37 % 3000))
        log.append(LogEntry(index, 1, encode_entry(T0 + index, [(1, index, [encode(job)])])))
    store.write(WriteBatch(append=log, commit_index=index, hard_state=(index, "n1"),
                        drop_below=min(index - 20, store.checkpoint_index), local={"last": str(index).encode()}))
    print(index, flush=True)
    store.apply(log)
    turn += 1
    if turn % 2:
        store.publish()
    if turn % 5 == 0:
        pending = store.begin_checkpoint()
    if pending and turn % 5 == 1:
        store.write_checkpoint(pending)
    if pending and turn % 5 == 2:
        store.end_checkpoint(pending)
        pending = None
"""
ROUNDS = 8


@pytest.mark.slow
def test_log_state_and_tables_agree(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    told = 0
    for _ in range(ROUNDS):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "s"), str(rng.randrange(100))],
            stdout=subprocess.PIPE,
            env={**os.environ},
        )
        assert writer.stdout is not None
        for _ in range(rng.randint(1, 60)):
            line = writer.stdout.readline()
            assert line, "the writer died by itself"
            told = int(line)
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        told = max([told, *map(int, rest[-1:])])
        store = Store.open(tmp_path / "s", sync=False)
        first, last = store.log_bounds()
        assert last == store.applied_index == store.commit_index >= told
        assert store.hard_state() == (last, "n1")
        assert store.local("last") == str(last).encode()
        kept = store.log_entries(first, 10**9)
        assert [e.index for e in kept] == list(range(first, last + 1))
        assert all(decode_entry(e.data) for e in kept)
        copy = MemoryView()
        with store.read() as view:
            for table in Table:
                for key, value in view.scan(table):
                    copy.put(table, key, value)
        assert len(list(copy.scan(Table.JOBS))) == last
        assert violations(copy) == []
        store.close()
