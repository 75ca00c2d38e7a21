"""A node from a backup of so many jobs, and what entries of the log behind it add.

Nothing is sent to a cluster: the jobs are applied to a store of this process, and a backup is made of it.
`restore_seconds` is what `raftsched cluster restore` does, with all on the disk, `ready_seconds` the time from there to
when the process of the node leads and answers. `entries_per_second` are entries of one create each that are
applied on the way.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from random import Random

from raftsched.backups.restore import restore
from raftsched.core.commands import CreateJob, Form, OpenLeadership, encode
from raftsched.core.entry import encode_entry
from raftsched.core.levels import newest_level
from raftsched.core.model import Policy, Trigger, TriggerKind
from raftsched.core.rows import read_meta
from raftsched.core.subjects.cluster import Member
from raftsched.store import LogEntry, Store, WriteBatch
from raftsched.store.backup import label_of, trailer
from scripts.benches.figures import emit, note
from tests.support.cluster import Cluster

BATCH = 500  # jobs of an entry
NOW_MS = 1_800_000_000_000
PIECE = 1 << 20
BODY = b'{"trigger":{"at":"2030-01-31T02:00:00Z"},"handler":{"exec":["true"]},"params":{"customer":123456}}'


class _Made:
    """A store, and its log."""

    def __init__(self, directory: Path) -> None:
        self.store = Store.open(directory, sync=False)
        self.index = 0
        self.apply([Form(b"\1" * 16, (Member("n1", "127.0.0.1:1", b"n1"),), newest_level()), OpenLeadership(1, "n1")])

    def apply(self, commands: list[object]) -> LogEntry:
        self.index += 1
        data = encode_entry(NOW_MS + self.index, [(1, self.index, [encode(one) for one in commands])])  # type: ignore[arg-type]
        entry = LogEntry(self.index, 1, data)
        self.store.write(WriteBatch(append=[entry], hard_state=(1, None), drop_below=self.index))
        self.store.apply([entry])
        return entry

    def create(self, count: int) -> LogEntry:
        at = [NOW_MS + 86_400_000 * (1 + (self.index + n) % 300) for n in range(count)]
        triggers = [Trigger(kind=TriggerKind.AT, at_ms=at_ms) for at_ms in at]
        return self.apply([CreateJob("default", None, Policy(trigger=trigger), BODY) for trigger in triggers])

    def back_up(self, file: Path) -> int:
        self.store.publish()
        meta = self.store.copy(file)
        with self.store.read() as view:
            cluster = read_meta(view)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256")
        with file.open("ab") as opened:
            opened.write(trailer(label_of(meta, cluster, "n1", "1", NOW_MS), digest))
        return meta.size


def bench_restore(directory: Path, jobs: int, entries: int) -> None:
    made = _Made(directory / "old")
    note(f"making a state of {jobs:,} jobs ...")
    for _ in range(0, jobs, BATCH):
        made.create(BATCH)
    file = directory / "backup"
    size = made.back_up(file)
    log = [made.create(1) for _ in range(entries)]
    made.store.close()
    note("restoring it ...")
    new = Cluster(1, directory=directory / "new")
    (node,) = new.nodes
    raft = f"127.0.0.1:{node.raft_port}"
    began = time.perf_counter()
    restore(file, node.data, "n1", raft, rng=Random(1), now_ms=NOW_MS)
    restored = time.perf_counter()
    try:
        node.start()
        new.wait("n1 to lead", node.ready, timeout=120)
        ready = time.perf_counter()
    finally:
        new.stop()
    applied = time.perf_counter()
    restore(file, directory / "further", "n1", raft, rng=Random(1), now_ms=NOW_MS, entries=[log])
    with_entries = time.perf_counter() - applied
    emit(
        "restore",
        jobs=jobs,
        size_mib=size / 2**20,
        restore_seconds=restored - began,
        ready_seconds=ready - restored,
        seconds=ready - began,
        entries_per_second=entries / max(1e-9, with_entries - (restored - began)),
    )
