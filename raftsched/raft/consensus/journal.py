"""The Raft log as the engine sees it: memory in front of the store, and the write batch that is being gathered.

Changes take effect in memory at once and are written by the next batch. Entries that are not durable yet are always in
memory; durable ones may be evicted and are then read from the store. The commit index alone needs no write: it goes
along with the next batch.
"""

from __future__ import annotations

from typing import Protocol

from raftsched.core.entry import members_of
from raftsched.raft.guards import Guards
from raftsched.raft.membership.configuration import Membership
from raftsched.raft.options import RaftOptions
from raftsched.store.records import MARK_EVERY
from raftsched.store.snapshot import SnapshotMeta
from raftsched.store.write_batch import LogEntry, WriteBatch

_ROW_BYTES = 64  # that an entry takes beside its data


class LogStore(Protocol):
    """The part of the store that the journal reads."""

    @property
    def commit_index(self) -> int: ...
    @property
    def applied_index(self) -> int: ...
    @property
    def applied_term(self) -> int: ...
    @property
    def checkpoint_index(self) -> int: ...
    @property
    def log_marks(self) -> list[tuple[int, int]]: ...
    @property
    def log_bytes(self) -> int: ...
    def hard_state(self) -> tuple[int, str | None]: ...
    def log_bounds(self) -> tuple[int, int]: ...
    def log_term(self, index: int) -> int | None: ...
    def log_entries(self, first: int, max_bytes: int) -> list[LogEntry]: ...


class Journal:
    """Indices count from 1; index 0 with term 0 stands before the first entry."""

    def __init__(self, store: LogStore, options: RaftOptions, guards: Guards, membership: Membership) -> None:
        self._store = store
        self._membership = membership
        self._options = options
        self._guards = guards
        self.first_index, self.last_index = store.log_bounds()
        self.applied_index = store.applied_index
        self._applied_term = store.applied_term
        self.commit_index = store.commit_index
        if guards.commit_within_log:
            self.commit_index = min(self.commit_index, self.last_index)
        self.commit_index = max(self.commit_index, self.applied_index)
        self.durable_index = self.last_index
        self._memory: list[LogEntry] = []
        self._memory_bytes = 0
        self._memory_first = self.last_index + 1
        self.last_term = self._term_of(self.last_index)
        self._batch = WriteBatch()
        self._dirty = False
        self._running: WriteBatch | None = None
        self._bytes = store.log_bytes  # bytes of the entries found at the start, and of all appended since
        self._marks = list(store.log_marks)  # (index, _bytes before it), ascending
        self._pin: tuple[int, int] | None = None  # (index to keep the log behind, until `_disk_bytes` is above this)
        self._find_configurations()

    def _find_configurations(self) -> None:
        """Finds the configurations among the entries that are not applied yet."""
        first = self.applied_index + 1
        while entries := self.entries(first, self._options.apply_max_bytes):
            for entry in entries:
                members = members_of(entry.data)
                if members is not None:
                    self._membership.appended(entry.index, members)
            first = entries[-1].index + 1

    # ------------------------------------------------------------ reads

    def term(self, index: int) -> int | None:
        """Returns the term of an entry; None: not in the log (compacted, or past its end)."""
        if index == self.last_index:
            return self.last_term
        if index > self.last_index or index < 0:
            return None
        position = index - self._memory_first
        if position >= 0:
            return self._memory[position].term
        if index == 0:
            return 0
        if index == self.applied_index:
            return self._applied_term
        return self._store.log_term(index)

    def _term_of(self, last: int) -> int:
        """Returns the term of the entry that becomes the last one."""
        position = last - self._memory_first
        if position >= 0:
            return self._memory[position].term
        if last == self.applied_index:
            return self._applied_term
        return self._store.log_term(last) or 0

    def entries(self, first: int, max_bytes: int) -> list[LogEntry]:
        """Returns entries from `first` on: at least one if there is one, and no more than about `max_bytes`. Raises
        CorruptLog."""
        if first < self.first_index or first > self.last_index:
            return []
        position = first - self._memory_first
        if position < 0:
            stored = self._store.log_entries(first, max_bytes)
            if stored and stored[-1].index >= self._memory_first:  # the store may lag behind a truncation
                stored = [entry for entry in stored if entry.index < self._memory_first]
            return stored
        size = 0
        end = position
        memory = self._memory
        while end < len(memory):
            size += len(memory[end].data)
            if size > max_bytes and end > position:
                break
            end += 1
        return memory[position:end]

    @property
    def dirty(self) -> bool:
        """There is something to write."""
        return self._dirty

    # ------------------------------------------------------------ changes

    def append(self, term: int, data: bytes) -> int:
        """Adds one entry at the end; returns its index."""
        index = self.last_index + 1
        entry = LogEntry(index, term, data)
        self._memory.append(entry)
        self._memory_bytes += len(data)
        self._batch.append.append(entry)
        self.last_index = index
        self.last_term = term
        if index % MARK_EVERY == 0:
            self._marks.append((index, self._bytes))
        self._bytes += len(data)
        self._dirty = True
        members = members_of(data)
        if members is not None:
            self._membership.appended(index, members)
        return index

    def truncate_from(self, index: int) -> None:
        """Deletes the entries from `index` on. Below the commit index that is a bug, and raises RuntimeError."""
        if self._guards.truncate_only_at_conflict and index <= self.commit_index:
            raise RuntimeError(f"truncation at {index} below commit index {self.commit_index}")
        if index > self.last_index:
            return
        batch = self._batch
        batch.append = [entry for entry in batch.append if entry.index < index]
        if index <= self._written_last():
            batch.truncate_from = min(index, batch.truncate_from or index)
        keep = max(0, index - self._memory_first)
        self._memory_bytes -= sum(len(entry.data) for entry in self._memory[keep:])
        del self._memory[keep:]
        self._memory_first = min(self._memory_first, index)
        self.last_index = index - 1
        self.last_term = self._term_of(self.last_index)
        self.durable_index = min(self.durable_index, self.last_index)
        while self._marks and self._marks[-1][0] >= index:
            self._marks.pop()
        self._dirty = True
        self._membership.truncated(index)

    def _written_last(self) -> int:
        """Returns the last index in the store, including the entries of the batch that is being written."""
        running = self._running
        if running is not None and running.append:
            return max(self._store.log_bounds()[1], running.append[-1].index)
        return self._store.log_bounds()[1]

    def set_hard_state(self, term: int, voted_for: str | None) -> None:
        if self._guards.vote_remembered:
            self._batch.hard_state = (term, voted_for)
        self._dirty = True

    def set_commit(self, index: int) -> None:
        """Raises the commit index to `index`; never lowers it."""
        if index > self.commit_index:
            self.commit_index = index
            self._batch.commit_index = index

    def put_local(self, name: str, value: bytes | None) -> None:
        self._batch.local[name] = value
        self._dirty = True

    # ------------------------------------------------------------ what is to be applied

    @property
    def has_to_apply(self) -> bool:
        return self._last_to_apply > self.applied_index

    @property
    def _last_to_apply(self) -> int:
        """Index of the newest entry that is committed and on this disk."""
        return min(self.commit_index, self.durable_index) if self._guards.apply_only_durable else self.commit_index

    def to_apply(self, max_bytes: int) -> list[LogEntry]:
        """Returns the next entries that are committed and on this disk: about `max_bytes`, and one at the least if
        there is one. What is applied before it is in the log here might get into a checkpoint without it."""
        last = self._last_to_apply
        if last <= self.applied_index:
            return []
        ready = [e for e in self.entries(self.applied_index + 1, max_bytes) if e.index <= last]
        if not ready and self._guards.commit_within_log:
            raise RuntimeError(f"committed entry {self.applied_index + 1} is not in the log")
        return ready

    def applied(self, entry: LogEntry) -> None:
        """All entries up to this one were applied."""
        self.applied_index, self._applied_term = entry.index, entry.term
        self._membership.applied_to(self.applied_index)

    # ------------------------------------------------------------ write batches

    def take(self) -> WriteBatch:
        """Returns the batch to write now."""
        batch, self._batch = self._batch, WriteBatch()
        self._dirty = False
        drop_below = self._drop_below()
        if drop_below > self.first_index:
            batch.drop_below = drop_below
            self.first_index = drop_below
        elif self.first_index > self._store.log_bounds()[0]:
            batch.drop_below = self.first_index  # the store drops a bounded number per write
        self._running = batch
        return batch

    def done(self, batch: WriteBatch) -> None:
        """The batch is on the disk: moves the durable index."""
        self._running = None
        if batch.append:
            last = batch.append[-1].index
            if self._batch.truncate_from is not None:
                last = min(last, self._batch.truncate_from - 1)
            self.durable_index = max(self.durable_index, last)
        self._evict()

    def reset(self, meta: SnapshotMeta) -> None:
        """Starts behind a snapshot that replaced state and log; term, vote and own records gathered meanwhile stay."""
        self.first_index, self.last_index = meta.index + 1, meta.index
        self.last_term = self._applied_term = meta.term
        self.applied_index = self.durable_index = meta.index
        self.commit_index = max(self.commit_index, meta.index)
        self._memory, self._memory_bytes, self._memory_first = [], 0, meta.index + 1
        self._marks, self._bytes = [], 0
        self._pin = None
        self._batch = WriteBatch(hard_state=self._batch.hard_state, local=self._batch.local)
        self._dirty = self._batch.hard_state is not None or bool(self._batch.local)

    # ------------------------------------------------------------ limits

    def pin(self, index: int, max_bytes: int) -> None:
        """Keeps the entries behind `index` for `max_bytes` more of log, while a snapshot of `index` is on its way to a
        peer."""
        self._pin = (index, self._disk_bytes + max_bytes)

    def unpin(self) -> None:
        self._pin = None

    @property
    def pinned_index(self) -> int | None:
        """None: not pinned, or the limit is passed."""
        return None if self._pin is None or self._disk_bytes > self._pin[1] else self._pin[0]

    @property
    def _disk_bytes(self) -> int:
        """The disk space that the log has taken so far, approximately."""
        return self._bytes + _ROW_BYTES * self.last_index

    def _evict(self) -> None:
        options = self._options
        count = len(self._memory)
        if count <= options.memory_max_entries and self._memory_bytes <= options.memory_max_bytes:
            return
        drop = 0
        limit = max(0, self.durable_index + 1 - self._memory_first)
        while drop < limit and (
            count - drop > options.memory_max_entries * 3 // 4 or self._memory_bytes > options.memory_max_bytes * 3 // 4
        ):
            self._memory_bytes -= len(self._memory[drop].data)
            drop += 1
        del self._memory[:drop]
        self._memory_first += drop

    def _drop_below(self) -> int:
        """Returns the index below which compaction drops entries. A tail of applied entries is kept, bounded by count
        and by bytes; and all that a crash would take from the tables."""
        options = self._options
        needed = self._store.checkpoint_index if self._guards.compaction_below_checkpoint else self.applied_index
        if not self._guards.keep_log_tail:
            return needed + 1
        below = self.applied_index - options.keep_entries
        while len(self._marks) > 1 and self._bytes - self._marks[1][1] > options.keep_bytes:
            self._marks.pop(0)
        if self._marks and self._bytes - self._marks[0][1] > options.keep_bytes:
            below = max(below, self._marks[0][0])
        if self.pinned_index is not None:
            below = min(below, self.pinned_index)
        return min(below, needed) if self._guards.compaction_below_applied else below
