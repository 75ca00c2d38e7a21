"""The store of one node."""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from raftsched.core.apply import Applier
from raftsched.errors import StartupError
from raftsched.store import records, snapshot
from raftsched.store.datafile import is_whole
from raftsched.store.environment import BROKEN, DATA, Environment
from raftsched.store.gate import Gate
from raftsched.store.records import STATE, Damaged, State
from raftsched.store.snapshot import Fresh, SnapshotMeta
from raftsched.store.view import StoreView, WriteView
from raftsched.store.write_batch import LogEntry, OnApplied, WriteBatch, WriteResult

__all__ = ["CorruptLog", "Fresh", "SnapshotMeta", "Store", "StoreView"]

# Address space, not disk: the file grows with its pages. Doubled when a write does not fit.
MAP_BYTES = 64 * 2**30
CLOSE_WAIT_S = 5.0
DROP_EXTRA = 256  # log entries a write may delete beyond as many as it appends
NEXT = "next"

log = logging.getLogger("raftsched.store")


class CorruptLog(Exception):
    """The log, or an own record, is damaged on this disk; the text says what to do."""

    def __init__(self, what: str, directory: Path) -> None:
        super().__init__(
            f"{what}. This node must not take part with it: what it promised to the others may be gone. "
            f"Move {directory} away, start the node again with an empty one, and have it admitted by "
            "'raftsched cluster members replace ID', ID being this node's id. "
            "Nothing is lost while a majority of the nodes is healthy."
        )


class Store:
    """LMDB environment with log, tables and own records; see the package's docstring.

    In its directory: the environment (data.mdb, lock.mdb); `lock`, held by the process that has it open; `next`, where
    a state from another node is made ready."""

    def __init__(
        self, directory: Path, env: Environment, lock: int, *, map_bytes: int, sync: bool, metasync: bool
    ) -> None:
        self._directory = directory
        self._env = env
        self._lock = lock
        self._map_bytes = map_bytes
        self._sync = sync
        self._metasync = metasync
        self._gate = Gate(directory)
        self._fresh_numbers = itertools.count(1)
        self._state = self._checked_state()
        kept = self._checked_log()
        self._first, self._last = kept.first, kept.last
        # Of the log as it was found: (index, bytes of the kept entries before it), every 32 entries, and all its bytes.
        self.log_marks = kept.marks
        self.log_bytes = kept.bytes

    @classmethod
    def open(cls, directory: Path, *, sync: bool = True, metasync: bool = True, map_bytes: int = MAP_BYTES) -> Store:
        """Opens the store, making it where it does not exist. Tests alone go without `sync`, or without `metasync` (see
        Environment).

        Raises StartupError: in use by another process, not writable, damaged, or of another format."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartupError(f"The data directory {directory} cannot be used: {error.strerror}.") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise StartupError(f"The data directory {directory} is in use by another node process.") from None
        env = None
        try:
            if not is_whole(directory):
                raise CorruptLog(f"The store in {directory} is cut off", directory)
            if (directory / NEXT).exists():
                shutil.rmtree(directory / NEXT)
            env = Environment(directory, map_bytes=map_bytes, sync=sync, metasync=metasync)
            store = cls(directory, env, lock, map_bytes=env.lmdb.info()["map_size"], sync=sync, metasync=metasync)
            snapshot.sync_directory(directory)
            snapshot.sync_directory(directory.parent)
            return store
        except BaseException as error:
            if env is not None:
                env.close()
            os.close(lock)
            if isinstance(error, CorruptLog):
                raise StartupError(str(error)) from None
            if isinstance(error, BROKEN):
                raise StartupError(
                    str(CorruptLog(f"The store in {directory} is damaged: {error}", directory))
                ) from None
            if isinstance(error, lmdb.Error | OSError):
                raise StartupError(f"The store in {directory} cannot be opened: {error}.") from None
            raise

    def close(self) -> None:
        """Closes the store; idempotent. It waits for readers that are open in other threads, a few seconds at most; a
        copy that is being written ends at once, and fails."""
        if self._lock < 0:
            return
        if others := self._gate.close(CLOSE_WAIT_S):
            log.warning("closing the store under %d open readers", others)
        self._env.close()
        os.close(self._lock)
        self._lock = -1

    def _environment(self) -> Environment:
        return Environment(self._directory, map_bytes=self._map_bytes, sync=self._sync, metasync=self._metasync)

    # ------------------------------------------------------------ durable state

    def _checked_state(self) -> State:
        """Returns the state record, and checks the own records. Raises CorruptLog, StartupError."""
        with self._env.lmdb.begin() as txn:
            own = dict(txn.cursor(self._env.own))
            empty = next(iter(txn.cursor(self._env.log)), None) is None
        raw = own.pop(STATE, None)
        try:
            if raw is None and (own or not empty):
                raise Damaged("it is missing")
            state = State() if raw is None else records.decode_state(raw)
        except records.UnknownFormat as error:
            raise StartupError(f"The store in {self._directory} {error}.") from None
        except Damaged as error:
            raise self._corrupt("state record", error) from None
        for key, value in own.items():
            self._own_value(key, value)
        return state

    def _checked_log(self) -> records.Kept:
        """Walks over the whole log. Raises CorruptLog."""
        with self._env.lmdb.begin(buffers=True) as txn, txn.cursor(self._env.log) as cursor:
            try:
                return records.check_log(cursor, self._state)
            except records.DamagedEntry as error:
                raise self._corrupt_entry(error.index, error) from None

    def _corrupt(self, what: str, how: object) -> CorruptLog:
        return CorruptLog(f"The {what} of this node (in {self._directory}) is damaged: {how}", self._directory)

    def _corrupt_entry(self, index: int, how: object) -> CorruptLog:
        what = f"The log of this node (in {self._directory}) is damaged at entry {index}: {how}"
        return CorruptLog(what, self._directory)

    def _own_value(self, key: bytes, raw: bytes) -> bytes:
        """Returns the value of an own record. Raises CorruptLog."""
        try:
            return records.decode_own(key, raw)
        except Damaged as error:
            name = key.removeprefix(records.OWN).decode(errors="replace")
            raise self._corrupt(f"own record {name!r}", error) from None

    @property
    def commit_index(self) -> int:
        """The commit index. Never ahead of the log: one transaction writes commit and log, and this is the
        smaller one."""
        return min(self._state.commit_index, self._last)

    @property
    def applied_index(self) -> int:
        return self._state.applied_index

    @property
    def applied_term(self) -> int:
        return self._state.applied_term

    def hard_state(self) -> tuple[int, str | None]:
        """Returns (current term, voted for)."""
        return self._state.term, self._state.voted_for

    def local(self, name: str) -> bytes | None:
        """Returns one of this node's own records. Raises CorruptLog."""
        key = records.OWN + name.encode()
        with self._transaction() as txn:
            raw = txn.get(key, db=self._env.own)
        return None if raw is None else self._own_value(key, raw)

    def free_bytes(self) -> int:
        """Returns the bytes that the file system still gives to this process."""
        return self.room()[0]

    def room(self) -> tuple[int, int]:
        """Returns the bytes that the file system still gives to this process, and all that it has. Raises OSError."""
        stat = os.statvfs(self._directory)
        return stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize

    def size_bytes(self) -> int:
        """Returns the bytes of disk taken by the store, and by a state that is being made ready to replace it."""
        blocks = 0
        for file in (self._directory / DATA, *(self._directory / NEXT).glob(f"*/{DATA}")):
            try:
                blocks += file.stat().st_blocks
            except FileNotFoundError:  # swapped in or discarded just now
                continue
        return blocks * 512

    # ------------------------------------------------------------ reads

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._gate.admitted():
            try:
                with self._env.lmdb.begin() as txn:
                    yield txn
            except lmdb.MemoryError as error:
                raise MemoryError(str(error)) from None
            except BROKEN as error:
                raise self._corrupt("store", error) from error

    def _applied(self, txn: Any) -> int:
        state = self._state_in(txn)
        return 0 if state is None else state.applied_index

    def _state_in(self, txn: Any) -> State | None:
        raw = txn.get(STATE, db=self._env.own)
        try:
            return None if raw is None else records.decode_state(raw)
        except (Damaged, records.UnknownFormat) as error:
            raise self._corrupt("state record", error) from None

    @contextmanager
    def read(self) -> Iterator[StoreView]:
        """Opens a consistent view. Keep it short: an open reader stops the reuse of pages, and the file never
        shrinks."""
        with self._transaction() as txn:
            yield StoreView(txn, self._env.tables, self._applied)

    def log_bounds(self) -> tuple[int, int]:
        """Returns (first index, last index) of the log; an empty log gives (n + 1, n)."""
        return self._first, self._last

    def log_term(self, index: int) -> int | None:
        """Returns the term of the entry, also of the one just before the log; None: not known here. Raises
        CorruptLog."""
        if index == self._state.base_index and index < self._first:
            return self._state.base_term
        with self._transaction() as txn:
            raw = txn.get(records.index_key(index), db=self._env.log)
            if raw is None:
                return self._base_term(txn, index)
        return self._term_in(index, raw)

    def _base_term(self, txn: Any, index: int) -> int | None:
        """Returns the term of the entry before the log as this transaction sees it: a batch may have dropped it a
        moment ago."""
        state = self._state_in(txn)
        return state.base_term if state is not None and state.base_index == index else None

    def _term_in(self, index: int, raw: bytes) -> int:
        """Returns the term of a stored entry. Raises CorruptLog."""
        try:
            return records.entry_term(raw)
        except Damaged as error:
            raise self._corrupt_entry(index, error) from None

    def log_entries(self, first: int, max_bytes: int) -> list[LogEntry]:
        """Returns entries from `first` on, at least one if it is there, about `max_bytes` in all. Raises CorruptLog."""
        entries: list[LogEntry] = []
        size = 0
        with self._transaction() as txn, txn.cursor(self._env.log) as cursor:
            found = cursor.set_key(records.index_key(first))
            while found:
                key, raw = cursor.item()
                index = first + len(entries)
                if key != records.index_key(index):
                    raise self._corrupt_entry(index, "it is missing")
                entries.append(LogEntry(index, self._term_in(index, raw), records.entry_data(raw)))
                size += len(raw)
                if size >= max_bytes:
                    break
                found = cursor.next()
        return entries

    # ------------------------------------------------------------ write batches

    def write(self, batch: WriteBatch, on_applied: OnApplied | None = None) -> WriteResult:
        """Writes all of the batch or nothing. Always from the same thread. Any exception means: stop the node.

        `on_applied` is called in this thread with the results of the applied entries when only the flush to the
        disk is left. They may be acknowledged already, because committed entries are applied again, the same way,
        if the flush fails; reads do not show them yet. It is called once or, when the batch has to be repeated,
        perhaps not at all."""
        self._gate.check_open()
        while True:
            try:
                return self._run(batch, on_applied)
            except lmdb.MapFullError:
                on_applied = None
                self._grow()
            except BROKEN as error:
                raise self._corrupt("store", error) from error

    def _run(self, batch: WriteBatch, on_applied: OnApplied | None) -> WriteResult:
        state = msgspec.structs.replace(self._state)
        first, last = self._first, self._last
        with self._env.lmdb.begin(write=True) as txn:
            if batch.truncate_from is not None and batch.truncate_from <= last:
                if batch.truncate_from <= state.applied_index:
                    raise RuntimeError(f"truncation at {batch.truncate_from} below applied {state.applied_index}")
                self._delete(txn, batch.truncate_from, last + 1)
                last = batch.truncate_from - 1
            for index, term, data in batch.append:
                if index != last + 1:
                    raise RuntimeError(f"entry {index} does not follow {last}")
                txn.put(records.index_key(index), records.encode_entry(term, data), append=True, db=self._env.log)
                last = index
            if batch.hard_state is not None:
                state.term, state.voted_for = batch.hard_state
            if batch.commit_index is not None:
                state.commit_index = batch.commit_index
            result = self._apply(txn, batch, state)
            for name, value in batch.local.items():
                key = records.OWN + name.encode()
                if value is None:
                    txn.delete(key, db=self._env.own)
                else:
                    txn.put(key, records.encode_own(key, value), db=self._env.own)
            if batch.drop_below is not None:
                first = self._drop(txn, batch, state, first)
            state.last_index = last
            txn.put(STATE, records.encode_state(state), db=self._env.own)
            if on_applied is not None and result.applied:
                on_applied(result)
        self._state, self._first, self._last = state, first, last
        return result

    def _apply(self, txn: Any, batch: WriteBatch, state: State) -> WriteResult:
        if not batch.apply:
            return WriteResult([])
        applier = Applier(WriteView(txn, self._env.tables))
        applied = []
        for index, term, data in batch.apply:
            if index != state.applied_index + 1:
                raise RuntimeError(f"applying {index} after {state.applied_index}")
            applied.append(applier.entry(index, term, data))
            state.applied_index, state.applied_term = index, term
        applier.close()
        return WriteResult(applied)

    def _drop(self, txn: Any, batch: WriteBatch, state: State, first: int) -> int:
        """Compacts the log: never above what is applied, a bounded number of entries per batch."""
        assert batch.drop_below is not None
        below = min(batch.drop_below, state.applied_index, first + len(batch.append) + DROP_EXTRA)
        if below <= first:
            return first
        raw = txn.get(records.index_key(below - 1), db=self._env.log)
        if raw is None:
            return first
        state.base_index, state.base_term = below - 1, self._term_in(below - 1, raw)
        self._delete(txn, first, below)
        return below

    def _delete(self, txn: Any, first: int, end: int) -> None:
        for index in range(first, end):
            txn.delete(records.index_key(index), db=self._env.log)

    def _grow(self) -> None:
        """Doubles the map; LMDB wants no transaction of this process open meanwhile."""
        with self._gate.alone():
            self._map_bytes *= 2
            self._env.lmdb.set_mapsize(self._map_bytes)

    # ------------------------------------------------------------ snapshots

    def copy(self, target: Path) -> SnapshotMeta:
        """Writes a compacted copy of the environment to a file, as of now, and does not sync it. Any thread; others go
        on meanwhile. Raises OSError, also when the store grows, is replaced or closes under it; then there is no file.
        """
        try:
            self._copy(target)
            return snapshot.describe(target)
        except BaseException as error:
            target.unlink(missing_ok=True)
            if isinstance(error, lmdb.Error | ValueError):
                raise OSError(f"the store cannot be copied to {target}: {error}") from error
            raise

    def _copy(self, target: Path) -> None:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # As LMDB does by itself for a path. A flush would wait for gigabytes of unwritten pages.
            with suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
            with self._gate.admitted(copy_to=fd):
                try:
                    self._env.lmdb.copyfd(fd, compact=True)
                except lmdb.IncompatibleError:  # not after a page leak (lmdb.h, MDB_CP_COMPACT): then all as it is
                    os.ftruncate(fd, 0)
                    os.lseek(fd, 0, os.SEEK_SET)
                    self._env.lmdb.copyfd(fd, compact=False)
        finally:
            os.close(fd)

    def prepare(self, source: Path, meta: SnapshotMeta) -> Fresh:
        """Makes a received file ready to replace this store: moved into the store's directory, checked, emptied of its
        sender's own data, synced. Any thread; it takes long. Discard it when it is not swapped in.

        Raises ValueError when the file is not what `meta` says, or OSError."""
        snapshot.verify(source, meta)
        directory = self._directory / NEXT / str(next(self._fresh_numbers))
        return snapshot.unpack(source, directory, meta, map_bytes=self._map_bytes, sync=self._sync)

    def discard(self, fresh: Fresh) -> None:
        """Deletes a prepared state."""
        shutil.rmtree(fresh.directory, ignore_errors=True)

    def swap(self, fresh: Fresh) -> None:
        """Puts the prepared state in place of tables and log. Identity, term, vote and own records stay as they are.

        Writer thread only, between two write batches. A process that ends at any line of it leaves the whole old store
        or the whole new one. Raises ValueError, and nothing was changed, when the state is not newer than the current
        one or is gone. Any other exception means: stop the node."""
        meta = fresh.meta
        if meta.index <= self._state.applied_index:
            raise ValueError(f"snapshot at {meta.index} is not newer than applied {self._state.applied_index}")
        state = msgspec.structs.replace(
            self._state,
            commit_index=max(self._state.commit_index, meta.index),
            applied_index=meta.index,
            applied_term=meta.term,
            base_index=meta.index,
            base_term=meta.term,
            last_index=meta.index,
        )
        with self._transaction() as txn:
            own = [(key, raw) for key, raw in txn.cursor(self._env.own) if key != STATE]
        snapshot.adopt(fresh, state, own, map_bytes=self._map_bytes, sync=self._sync)
        data = self._directory / DATA
        # Held open, the old file is given back to the file system outside the gate: that takes long when it is large.
        old = os.open(data, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.rename(fresh.file, data)
            try:
                if self._sync:
                    snapshot.sync_directory(self._directory)
                with self._gate.alone():
                    self._env.close()
                    self._env = self._environment()
                    self._map_bytes = self._env.lmdb.info()["map_size"]
                    self._state, self._first, self._last = state, meta.index + 1, meta.index
                    self.log_marks, self.log_bytes = [], 0
            except BaseException:
                self._gate.closed = True  # nothing more may go into the old file: a restart does not find it
                raise
        finally:
            os.close(old)
        self.discard(fresh)
