"""A store in memory with the interface of raftsched.store.Store, for consensus tests.

A write batch that ran survives a crash; one that has not run is lost, as on a real disk. Of what was applied only the
newest checkpoint survives: `crash` applies the rest again, as far as the log says that it is committed. It remembers
every entry it ever applied, for the checkers.
"""

from __future__ import annotations

import hashlib
import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from raftsched.core.apply import Applier
from raftsched.core.entry import EntryResult
from raftsched.core.tables import Table
from raftsched.store import Fresh, LogEntry, SnapshotMeta, WriteBatch
from raftsched.store.records import MARK_EVERY

Rows = dict[Table, dict[bytes, bytes]]
History = dict[int, tuple[int, bytes]]


class MemoryView:
    """Ordered tables as dicts."""

    def __init__(self, tables: Rows) -> None:
        self.tables = tables

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self.tables[table].get(key)

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        self.tables[table][key] = value

    def getter(self, table: Table) -> Callable[[bytes], bytes | None]:
        return partial(self.get, table)

    def putter(self, table: Table) -> Callable[[bytes, bytes], object]:
        return partial(self.put, table)

    def first(self, table: Table, low: bytes = b"", high: bytes | None = None) -> tuple[bytes, bytes] | None:
        return next(self.scan(table, low, high), None)

    def delete(self, table: Table, key: bytes) -> bool:
        return self.tables[table].pop(key, None) is not None

    def scan(
        self, table: Table, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = sorted(self.tables[table].items())
        keys = [key for key, _ in rows]
        rows = rows[bisect_left(keys, low) : len(keys) if high is None else bisect_left(keys, high)]
        yield from reversed(rows) if reverse else rows

    def count(self, table: Table) -> int:
        return len(self.tables[table])


class Applied(NamedTuple):
    """A copy of the tables, and the entry that was applied last in them."""

    index: int  # type: ignore[assignment]  # hides tuple.index on purpose
    term: int
    tables: Rows
    history: History
    life: int  # which tables they are: a crash and a snapshot replace them


class MemoryStore:
    def __init__(self) -> None:
        self.tables: Rows = {table: {} for table in Table}
        self.log: dict[int, tuple[int, bytes]] = {}
        self.own: dict[str, bytes] = {}
        self.term, self.voted_for = 0, None
        self.commit = self.applied_index = self.applied_term = 0
        self.base = (0, 0)
        self.history: History = {}  # every entry applied
        self.applied_twice: list[int] = []
        self.fail: Exception | None = None  # raised by the next write
        self.fail_apply: Exception | None = None  # raised by the next apply
        self.verify = True
        self.damaged = 0  # snapshots that were not what they should be
        self._life = 0
        self._published = self._kept = self._copied()  # what other threads see, and what a crash leaves
        self.checkpoint_index = 0
        self._prepared = 0
        self.fresh: dict[Fresh, tuple[Rows, History]] = {}

    def crash(self) -> None:
        """What a kill leaves, opened again."""
        self._life += 1
        self._put_back(self._kept)
        self.fresh.clear()
        last = min(self.commit, self.log_bounds()[1])
        self.apply([e for e in self.log_entries(self.applied_index + 1, 1 << 40) if e.index <= last])
        self.publish()

    def _copied(self) -> Applied:
        tables = {table: dict(rows) for table, rows in self.tables.items()}
        return Applied(self.applied_index, self.applied_term, tables, dict(self.history), self._life)

    def _put_back(self, kept: Applied) -> None:
        self.applied_index, self.applied_term = kept.index, kept.term
        self.tables = {table: dict(rows) for table, rows in kept.tables.items()}
        self.history = dict(kept.history)
        self._published = self._kept = self._copied()
        self.checkpoint_index = kept.index

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

    # ---- the log

    def write(self, batch: WriteBatch) -> None:
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        log = dict(self.log)
        if batch.truncate_from is not None:
            assert batch.truncate_from > self.applied_index, "applied entries are cut off"
            for index in [i for i in log if i >= batch.truncate_from]:
                del log[index]
        last = max(log, default=self.base[0])
        for index, term, data in batch.append:
            assert index == last + 1, f"entry {index} does not follow {last}"
            log[index] = (term, data)
            last = index
        self.log = log
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

    # ---- the tables

    def apply(self, entries: Sequence[LogEntry]) -> list[EntryResult]:
        if self.fail_apply is not None:
            error, self.fail_apply = self.fail_apply, None
            raise error
        applier, results = Applier(MemoryView(self.tables)), []
        for index, term, data in entries:
            assert index == self.applied_index + 1, f"applying {index} after {self.applied_index}"
            results.append(applier.entry(index, term, data))
            if index in self.history:
                self.applied_twice.append(index)
            self.history[index] = (term, data)
            self.applied_index, self.applied_term = index, term
        applier.close()
        return results

    def publish(self) -> None:
        self._published = self._copied()

    def begin_checkpoint(self) -> Applied | None:
        if self.applied_index == self.checkpoint_index:
            return None
        self.publish()
        return self._published

    def write_checkpoint(self, pending: Applied) -> None:
        if pending.life == self._life:
            self._kept = pending

    def end_checkpoint(self, pending: Applied) -> None:
        if pending.life == self._life:
            self.checkpoint_index = pending.index

    # ---- snapshots

    def size_bytes(self) -> int:
        return 0

    def copy(self, target: Path) -> SnapshotMeta:
        published = self._published
        raw = pickle.dumps((published.tables, published.history))
        target.write_bytes(raw)
        return SnapshotMeta(published.index, published.term, len(raw), hashlib.sha256(raw).digest())

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
        assert self._published.index == self.applied_index, "a transaction of the tables is open"
        self.log = {}
        self.base = (meta.index, meta.term)
        self.commit = max(self.commit, meta.index)
        self._life += 1
        self._put_back(Applied(meta.index, meta.term, *self.fresh.pop(fresh), self._life))
