"""A store in memory with the interface of raftsched.store.Store, for consensus tests.

A write batch that ran survives a "crash" (dropping the replica and making another over the same store); one that has
not run is lost, as on a real disk. It remembers every entry it ever applied, for the checkers.
"""

from __future__ import annotations

import hashlib
import pickle
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raftsched.core.apply import Applier
from raftsched.core.tables import Table
from raftsched.store import Fresh, LogEntry, OnApplied, SnapshotMeta, WriteBatch, WriteResult
from raftsched.store.records import MARK_EVERY


class MemoryView:
    """Ordered tables as dicts."""

    def __init__(self, tables: dict[Table, dict[bytes, bytes]]) -> None:
        self.tables = tables

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self.tables[table].get(key)

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        self.tables[table][key] = value

    def delete(self, table: Table, key: bytes) -> bool:
        return self.tables[table].pop(key, None) is not None

    def scan(
        self, table: Table, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = sorted(self.tables[table].items())
        keys = [key for key, _ in rows]
        rows = rows[bisect_left(keys, low) : len(keys) if high is None else bisect_left(keys, high)]
        yield from reversed(rows) if reverse else rows


class MemoryStore:
    def __init__(self) -> None:
        self.tables: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self.log: dict[int, tuple[int, bytes]] = {}
        self.own: dict[str, bytes] = {}
        self.term, self.voted_for = 0, None
        self.commit = self.applied_index = self.applied_term = 0
        self.base = (0, 0)
        self.history: dict[int, tuple[int, bytes]] = {}  # every entry applied
        self.applied_twice: list[int] = []
        self.fail: Exception | None = None  # raised by the next write that applies something
        self.verify = True
        self.damaged = 0  # snapshots that were not what they should be
        self._prepared = 0
        self.fresh: dict[Fresh, tuple[dict[Table, dict[bytes, bytes]], dict[int, tuple[int, bytes]]]] = {}

    # ---- reads

    @property
    def commit_index(self) -> int:
        return self.commit

    @property
    def log_marks(self) -> list[tuple[int, int]]:
        return self._marked()[0]

    @property
    def log_bytes(self) -> int:
        return self._marked()[1]

    def _marked(self) -> tuple[list[tuple[int, int]], int]:
        marks, size = [], 0
        for index in sorted(self.log):
            if index % MARK_EVERY == 0:
                marks.append((index, size))
            size += len(self.log[index][1])
        return marks, size

    def local(self, name: str) -> bytes | None:
        return self.own.get(name)

    def hard_state(self) -> tuple[int, str | None]:
        return self.term, self.voted_for

    def log_bounds(self) -> tuple[int, int]:
        return (min(self.log), max(self.log)) if self.log else (self.base[0] + 1, self.base[0])

    def log_term(self, index: int) -> int | None:
        if index == self.base[0]:
            return self.base[1]
        return self.log[index][0] if index in self.log else None

    def log_entries(self, first: int, max_bytes: int) -> list[LogEntry]:
        found, size = [], 0
        while first in self.log and (not found or size < max_bytes):
            found.append(LogEntry(first, *self.log[first]))
            size += len(found[-1].data)
            first += 1
        return found

    @contextmanager
    def read(self) -> Iterator[MemoryView]:
        yield MemoryView(self.tables)

    # ---- writes

    def write(self, batch: WriteBatch, on_applied: OnApplied | None = None) -> WriteResult:
        log = dict(self.log)
        if batch.truncate_from is not None:
            for index in [i for i in log if i >= batch.truncate_from]:
                del log[index]
        last = max(log, default=self.base[0])
        for index, term, data in batch.append:
            assert index == last + 1, f"entry {index} does not follow {last}"
            log[index] = (term, data)
            last = index
        if batch.apply and self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        tables = {table: dict(rows) for table, rows in self.tables.items()} if batch.apply else self.tables
        applier, applied, at = Applier(MemoryView(tables)), [], self.applied_index
        for index, term, data in batch.apply:
            assert index == at + 1, f"applying {index} after {at}"
            applied.append(applier.entry(index, term, data))
            if index in self.history:
                self.applied_twice.append(index)
            self.history[index] = (term, data)
            at, self.applied_term = index, term
        if batch.apply:
            applier.close()
            if on_applied is not None:
                on_applied(WriteResult(applied))
        self.tables, self.log, self.applied_index = tables, log, at
        if batch.hard_state is not None:
            self.term, self.voted_for = batch.hard_state
        if batch.commit_index is not None:
            self.commit = batch.commit_index
        for name, value in batch.local.items():
            if value is None:
                self.own.pop(name, None)
            else:
                self.own[name] = value
        if batch.drop_below is not None:
            for index in [i for i in sorted(self.log) if i < min(batch.drop_below, self.applied_index)]:
                self.base = (index, self.log.pop(index)[0])
        return WriteResult(applied)

    # ---- snapshots

    def size_bytes(self) -> int:
        return 0

    def copy(self, target: Path) -> SnapshotMeta:
        raw = pickle.dumps((self.tables, self.history))
        target.write_bytes(raw)
        return SnapshotMeta(self.applied_index, self.applied_term, len(raw), hashlib.sha256(raw).digest())

    def prepare(self, source: Path, meta: SnapshotMeta) -> Fresh:
        raw = source.read_bytes()
        if self.verify and (len(raw), hashlib.sha256(raw).digest()) != (meta.size, meta.sha256):
            self.damaged += 1
            raise ValueError("snapshot file is damaged")
        source.unlink()
        self._prepared += 1
        fresh = Fresh(Path(f"fresh-{self._prepared}"), meta)
        self.fresh[fresh] = pickle.loads(raw)
        return fresh

    def discard(self, fresh: Fresh) -> None:
        self.fresh.pop(fresh, None)

    def swap(self, fresh: Fresh) -> None:
        meta = fresh.meta
        if self.verify and meta.index <= self.applied_index:
            raise ValueError(f"snapshot at {meta.index} is not newer than {self.applied_index}")
        if fresh not in self.fresh:
            raise ValueError("the snapshot was taken or discarded before")
        self.tables, self.history = self.fresh.pop(fresh)
        self.log = {}
        self.base = (meta.index, meta.term)
        self.applied_index, self.applied_term = self.base
        self.commit = max(self.commit, meta.index)
