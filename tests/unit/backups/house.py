"""A cluster of one store, without HTTP, and the state after each of its entries."""

from __future__ import annotations

import hashlib
from pathlib import Path

from raftsched.backups.making import LogGone, WentBack
from raftsched.bounds import MINUTE_MS
from raftsched.core.apply import Applier
from raftsched.core.commands import Form, OpenLeadership
from raftsched.core.entry import time_of
from raftsched.core.levels import newest_level
from raftsched.core.rows import read_meta
from raftsched.core.subjects.cluster import Member
from raftsched.core.tables import Table
from raftsched.security.keyring import Keyring
from raftsched.store import LogEntry, Store, WriteBatch
from raftsched.store.backup import label_of, trailer
from raftsched.store.environment import Environment
from raftsched.store.segment import encode
from raftsched.store.segment import label_of as segment_label
from tests.support.memory_view import NODES, T0, MemoryView, World
from tests.support.stores import commit

ENTRIES = 5  # of a segment
MAP = 64 << 20  # bytes
CLUSTER = b"\1" * 16


class Saved:
    """What a World does, in a store whose log and state can be had."""

    def __init__(self, directory: Path, keys: Keyring | None = None) -> None:
        self.world = World(form=False)
        self.world.do(Form(CLUSTER, tuple(Member(n, f"{n}:7501", n.encode()) for n in NODES), newest_level()))
        self.world.do(OpenLeadership(1, "n1"))
        self.store = Store.open(directory, sync=False)
        self.keys = keys or Keyring()
        self.term = 1
        self.asked: list[int] = []
        self.states = 0
        self.follow()

    def follow(self) -> None:
        """Takes over what the world has done since."""
        done = self.store.applied_index
        for data in self.world.log[done:]:
            done += 1
            commit(self.store, LogEntry(done, self.term, data), hard_state=(self.term, "n1"))

    def jobs(self, count: int) -> None:
        """A minute passes before each."""
        for _ in range(count):
            self.world.now += MINUTE_MS
            self.world.create()
        self.follow()

    def at_ms(self, index: int) -> int:
        """The time of an entry."""
        found = time_of(self.world.log[index - 1])
        assert found is not None
        return found

    def rows(self, index: int) -> dict[str, list[tuple[bytes, bytes]]]:
        """The state after an entry."""
        view = MemoryView()
        applier = Applier(view)
        for number, data in enumerate(self.world.log[:index], 1):
            applier.entry(number, self.term, data)
        applier.close()
        return view.dump()

    def drop_below(self, index: int) -> None:
        self.store.write(WriteBatch(drop_below=index))

    @property
    def id(self) -> str:
        with self.store.read() as view:
            return read_meta(view).cluster_id.hex()

    def log(self, after: int) -> tuple[bytes, int]:
        self.asked.append(after)
        newest = self.store.applied_index
        if after > newest:
            raise WentBack(f"the cluster has {newest} entries, and not {after}")
        if after == newest:
            return b"", newest
        before = 0 if after == 0 else self.store.log_term(after)
        entries = self.store.log_entries(after + 1, 1 << 30)[:ENTRIES]
        if before is None or not entries:
            raise LogGone
        label = segment_label(entries, before, cluster_id=bytes.fromhex(self.id), node="n1", version="1", at_ms=T0)
        return encode(label, entries, self.keys), newest

    def state(self, target: Path) -> None:
        self.states += 1
        meta = self.store.copy(target)
        with self.store.read() as view:
            cluster = read_meta(view)
        raw = target.read_bytes()
        target.write_bytes(raw + trailer(label_of(meta, cluster, "n1", "1", T0), hashlib.sha256(raw), self.keys))


def rows_in(directory: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """All rows of a directory of tables."""
    env = Environment(directory, map_bytes=MAP, sync=False, shared=False)
    try:
        with env.lmdb.begin() as txn:
            return {table.name: [(bytes(k), bytes(v)) for k, v in txn.cursor(env.tables[table])] for table in Table}
    finally:
        env.close()
