"""Opens and holds the store of one node."""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from raftsched.core.entry import EntryResult, NewerLog, check_level
from raftsched.core.rows import read_meta
from raftsched.errors import StartupError
from raftsched.lost_majority import ELSE
from raftsched.quantities import size_text
from raftsched.store import compaction, layout, records, snapshot, tables
from raftsched.store.checkpoint import Checkpoint
from raftsched.store.compaction import Usage
from raftsched.store.datafile import CutOff, is_whole
from raftsched.store.environment import BROKEN, DATA, Environment, require_at
from raftsched.store.gate import Gate
from raftsched.store.layout import LOG, NEXT, tables_directory
from raftsched.store.records import STATE, Damaged, LogState, State
from raftsched.store.snapshot import Fresh, SnapshotMeta
from raftsched.store.tables import Rules, Tables
from raftsched.store.view import StoreView
from raftsched.store.write_batch import LogEntry, WriteBatch

__all__ = ["CorruptLog", "Fresh", "PendingCheckpoint", "Rules", "SnapshotMeta", "Store", "StoreView"]

# Address space, not disk: the file grows with its pages. Doubled when a write does not fit.
MAP_BYTES = 64 * 2**30
CLOSE_WAIT_S = 5.0
DROP_EXTRA = 256  # log entries a write may delete beyond as many as it appends
REPLAY_BYTES = 1 << 20  # of entries that are applied at once when the store is opened

log = logging.getLogger("raftsched.store")


class CorruptLog(Exception):
    """The log, or an own record, is damaged on this disk; the text says what to do."""

    def __init__(self, what: str, directory: Path) -> None:
        super().__init__(
            f"{what}. This node must not take part with it: what it promised to the others may be gone. "
            f"Move {directory} away, start the node again with an empty one, and have it admitted by "
            "'raftsched cluster members replace ID', ID being this node's id. "
            f"Nothing is lost while a majority of the nodes is healthy. {ELSE}."
        )


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint on its way to the disk: begun and ended by the event loop, written by any thread between."""

    of: Tables
    made: Checkpoint
    reader: Any

    @property
    def index(self) -> int:
        """The entry that was applied last in it."""
        return self.made.applied_index


class Store:
    """Log and own records in one LMDB environment, tables in another; see the package's docstring, and layout.py for
    the files.

    `write` belongs to one thread, `apply` and what has to do with it to another one."""

    def __init__(
        self, directory: Path, env: Environment, lock: int, *, map_bytes: int, sync: bool, metasync: bool, rules: Rules
    ) -> None:
        self._directory = directory
        self._env = env
        self._lock = lock
        self._map_bytes = map_bytes
        self._sync = sync
        self._metasync = metasync
        self._rules = rules
        self._gate = Gate(directory)
        self._log_gate = Gate(directory)
        self._checkpointing = threading.Lock()  # held while a checkpoint is written
        self._fresh_numbers = itertools.count(1)
        self._log_file = (directory / LOG / DATA).stat()
        self._state = self._checked_state()
        layout.remove_others(directory, self._state.tables)
        self._tables = self._open_tables(self._state.tables)
        try:
            kept = self._checked_log()
            self._first, self._last = kept.first, kept.last
            # Of the log as found: (index, bytes of the kept entries before it), every 32 entries, and all its bytes.
            self.log_marks = kept.marks
            self.log_bytes = kept.bytes
            self._replay()
        except BaseException:
            self._tables.close()
            raise

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        sync: bool = True,
        metasync: bool = True,
        map_bytes: int = MAP_BYTES,
        rules: Rules = Rules(),  # noqa: B008
    ) -> Store:
        """Opens the store, making it where it does not exist, and applies what the log has beyond the tables, as far as
        it is known to be committed. Tests alone go without `sync`, without `metasync` (see Environment), or with other
        `rules`.

        Raises StartupError: in use by another process, not writable, damaged, of another format, or with a log that a
        later version wrote."""
        try:
            lock = layout.lock(directory)
        except OSError as error:
            raise StartupError(f"The data directory {directory} cannot be used: {error.strerror}.") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise StartupError(f"The data directory {directory} is in use by another node process.") from None
        env = store = None
        try:
            layout.prepare(directory, map_bytes=map_bytes, sync=sync)
            if not is_whole(directory / LOG):
                raise CutOff
            env = layout.log_environment(directory / LOG, map_bytes=map_bytes, sync=sync, metasync=metasync)
            if sync:
                env.lmdb.sync(True)  # an earlier process may have ended between a write and its sync
            size = env.lmdb.info()["map_size"]
            store = cls(directory, env, lock, map_bytes=size, sync=sync, metasync=metasync, rules=rules)
            snapshot.sync_directory(directory)
            snapshot.sync_directory(directory.parent)
            with store.read() as view:
                check_level(read_meta(view).level)
            return store
        except BaseException as error:
            if store is not None:
                store._tables.close()
            if env is not None:
                env.close()
            os.close(lock)
            if isinstance(error, CorruptLog | NewerLog):
                raise StartupError(str(error)) from None
            if isinstance(error, CutOff):
                raise StartupError(str(CorruptLog(f"The store in {directory} is cut off", directory))) from None
            if isinstance(error, Damaged):
                what = f"The state record of this node (in {directory}) is damaged: {error}"
                raise StartupError(str(CorruptLog(what, directory))) from None
            if isinstance(error, records.UnknownFormat):
                raise StartupError(f"The store in {directory} {error}.") from None
            if isinstance(error, (*BROKEN, layout.LogMissing)):
                raise StartupError(
                    str(CorruptLog(f"The store in {directory} is damaged: {error}", directory))
                ) from None
            if isinstance(error, lmdb.Error | OSError):
                raise StartupError(f"The store in {directory} cannot be opened: {error}.") from None
            raise

    def close(self) -> None:
        """Closes the store; idempotent. It waits for readers that are open in other threads, a few seconds at most; a
        copy that is being written ends at once, and fails. What was applied is brought to the disk first, so that the
        next start has nothing to apply again."""
        if self._lock < 0:
            return
        try:
            self._last_checkpoint()
        except (OSError, lmdb.Error) as error:  # the log has all of it
            log.warning("the tables in %s could not be brought to the disk at the end: %s", self._directory, error)
        if others := self._gate.close(CLOSE_WAIT_S) + self._log_gate.close(CLOSE_WAIT_S):
            log.warning("closing the store under %d open readers", others)
        with self._checkpointing:
            self._tables.close()
            self._env.close()
        os.close(self._lock)
        self._lock = -1

    def _last_checkpoint(self) -> None:
        pending = self.begin_checkpoint()
        if pending is not None:
            self.write_checkpoint(pending)
            self.end_checkpoint(pending)

    def _open_tables(self, number: int) -> Tables:
        directory = tables_directory(self._directory, number)
        opened = Tables.open(directory, self._gate, map_bytes=self._map_bytes, sync=self._sync, rules=self._rules)
        opened.follow(self.log_entries)
        return opened

    # ------------------------------------------------------------ durable state

    def _checked_state(self) -> LogState:
        """Returns the state record, and checks the own records. Raises CorruptLog, StartupError."""
        with self._env.lmdb.begin() as txn:
            own = dict(txn.cursor(self._env.own))
        raw = own.pop(STATE, None)
        try:
            if raw is None:
                raise Damaged("it is missing")
            state = records.decode_log_state(raw)
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
                return records.check_log(cursor, self._state, self._tables.applied_index, self._tables.applied_term)
            except records.DamagedEntry as error:
                raise self._corrupt_entry(error.index, error) from None

    def _replay(self) -> None:
        """Applies what is committed and not in the checkpoint."""
        while self._tables.applied_index < self.commit_index:
            entries = self.log_entries(self._tables.applied_index + 1, REPLAY_BYTES)
            self._tables.apply([entry for entry in entries if entry.index <= self.commit_index])
        self._tables.publish()

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
        """The commit index, as far as it was written. Never ahead of the log: one transaction writes commit and log,
        and this is the smaller one."""
        return min(self._state.commit_index, self._last)

    @property
    def applied_index(self) -> int:
        return self._tables.applied_index

    @property
    def applied_term(self) -> int:
        return self._tables.applied_term

    @property
    def checkpoint_index(self) -> int:
        """The entry up to which a crash takes nothing from the tables: the log is needed from the next one on."""
        return self._tables.checkpoint_index

    def hard_state(self) -> tuple[int, str | None]:
        """Returns (current term, voted for)."""
        return self._state.term, self._state.voted_for

    def local(self, name: str) -> bytes | None:
        """Returns one of this node's own records. Raises CorruptLog."""
        key = records.OWN + name.encode()
        with self._log_transaction() as txn:
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
        for file in layout.files(self._directory):
            try:
                blocks += file.stat().st_blocks
            except FileNotFoundError:  # swapped in or discarded just now
                continue
        return blocks * 512

    # ------------------------------------------------------------ reads

    @contextmanager
    def _log_transaction(self) -> Iterator[Any]:
        with self._log_gate.admitted(), self._read_errors(), self._env.lmdb.begin() as txn:
            yield txn

    @contextmanager
    def _read_errors(self) -> Iterator[None]:
        try:
            yield
        except lmdb.MemoryError as error:
            raise MemoryError(str(error)) from None
        except BROKEN as error:
            raise self._corrupt("store", error) from error

    @contextmanager
    def read(self) -> Iterator[StoreView]:
        """Opens a view: the thread that applies sees all that it applied, others see one state that was published (see
        `publish`). Keep it short: an open reader stops the reuse of pages, and the file never shrinks."""
        with self._gate.admitted(), self._read_errors():
            tables = self._tables
            with tables.transaction() as txn:
                yield tables.view(txn)

    def log_bounds(self) -> tuple[int, int]:
        """Returns (first index, last index) of the log; an empty log gives (n + 1, n)."""
        return self._first, self._last

    def log_term(self, index: int) -> int | None:
        """Returns the term of the entry, also of the one just before the log; None: not known here. Raises
        CorruptLog."""
        if index == self._state.base_index and index < self._first:
            return self._state.base_term
        with self._log_transaction() as txn:
            raw = txn.get(records.index_key(index), db=self._env.log)
            if raw is None:
                return self._base_term(txn, index)
        return self._term_in(index, raw)

    def _base_term(self, txn: Any, index: int) -> int | None:
        """Returns the term of the entry before the log as this transaction sees it: a batch may have dropped it a
        moment ago."""
        try:
            state = records.decode_log_state(txn.get(STATE, db=self._env.own) or b"")
        except (Damaged, records.UnknownFormat) as error:
            raise self._corrupt("state record", error) from None
        return state.base_term if state.base_index == index else None

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
        with self._log_transaction() as txn, txn.cursor(self._env.log) as cursor:
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

    # ------------------------------------------------------------ the log

    def write(self, batch: WriteBatch) -> None:
        """Writes all of the batch or nothing; when it returns, the batch is on the disk. Always from the same thread.
        Any exception means: stop the node."""
        self._log_gate.check_open()
        while True:
            try:
                self._write(batch)
                return
            except lmdb.MapFullError:
                self._grow()
            except BROKEN as error:
                raise self._corrupt("store", error) from error

    def _write(self, batch: WriteBatch) -> None:
        state = msgspec.structs.replace(self._state)
        first, last = self._first, self._last
        with self._env.lmdb.begin(write=True) as txn:
            if batch.truncate_from is not None and batch.truncate_from <= last:
                if batch.truncate_from <= self.applied_index:
                    raise RuntimeError(f"truncation at {batch.truncate_from} below applied {self.applied_index}")
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
        self._state, self._first, self._last = state, first, last

    def _drop(self, txn: Any, batch: WriteBatch, state: LogState, first: int) -> int:
        """Compacts the log: never above what is applied, a bounded number of entries per batch."""
        assert batch.drop_below is not None
        below = min(batch.drop_below, self.applied_index, first + len(batch.append) + DROP_EXTRA)
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
        with self._log_gate.alone():
            self._map_bytes *= 2
            self._env.lmdb.set_mapsize(self._map_bytes)

    # ------------------------------------------------------------ the tables

    def apply(self, entries: Sequence[LogEntry]) -> list[EntryResult]:
        """Applies committed entries, which are in the log on this disk; reads of this thread show the result, and after
        a crash they are applied again, the same way. Always from the same thread, beside any `write`. Any exception
        means: stop the node."""
        self._gate.check_open()
        try:
            return self._tables.apply(entries)
        except BROKEN as error:
            raise self._corrupt("store", error) from error

    def publish(self) -> None:
        """Shows other threads what was applied. In the thread that applies."""
        self._tables.publish()

    def begin_checkpoint(self) -> PendingCheckpoint | None:
        """Begins to make what was applied outlive a crash; None: it does. In the thread that applies."""
        tables = self._tables
        if tables.is_checkpointed:
            return None
        made = tables.begin_checkpoint()
        return PendingCheckpoint(tables, made, tables.keep())

    def write_checkpoint(self, pending: PendingCheckpoint) -> None:
        """Brings it to the disk. In any thread. Raises OSError: stop the node."""
        with self._checkpointing:
            if pending.of is self._tables and self._lock >= 0:
                require_at(self._directory / LOG / DATA, self._log_file)
                pending.of.write_checkpoint(pending.made)

    def end_checkpoint(self, pending: PendingCheckpoint) -> None:
        """It was written. In the thread that applies."""
        with self._checkpointing:  # else the tables may be replaced meanwhile
            if pending.of is self._tables:
                pending.of.end_checkpoint(pending.made, pending.reader)

    # ------------------------------------------------------------ snapshots

    def copy(self, target: Path) -> SnapshotMeta:
        """Writes a compacted copy of the tables to a file, as they were published last, and does not sync it. Any
        thread; others go on meanwhile. Raises OSError, also when the store grows, is replaced or closes under it; then
        there is no file."""
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
                env = self._tables.env.lmdb
                try:
                    env.copyfd(fd, compact=True)
                except lmdb.IncompatibleError:  # not after a page leak (lmdb.h, MDB_CP_COMPACT): then all as it is
                    os.ftruncate(fd, 0)
                    os.lseek(fd, 0, os.SEEK_SET)
                    env.copyfd(fd, compact=False)
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

        Writer thread only, between two write batches, while nothing is applied and after `publish`. A process that ends
        at any line of it leaves the whole old store or the whole new one: the log's own transaction says which tables
        go with it. Raises ValueError, and nothing was changed, when the state is not newer than the current one or is
        gone. Any other exception means: stop the node."""
        meta = fresh.meta
        if meta.index <= self.applied_index:
            raise ValueError(f"snapshot at {meta.index} is not newer than applied {self.applied_index}")
        if not fresh.file.is_file():
            raise ValueError(f"the snapshot in {fresh.directory} was taken or discarded before")
        number = self._state.tables + 1
        directory = tables_directory(self._directory, number)
        shutil.rmtree(directory, ignore_errors=True)
        try:
            snapshot.require(fresh, map_bytes=self._map_bytes)
            tables.make(
                fresh.directory, State.of_tables(meta.index, meta.term), map_bytes=self._map_bytes, sync=self._sync
            )
            os.rename(fresh.directory, directory)
        except lmdb.Error as error:
            raise OSError(f"the snapshot in {fresh.directory} cannot be written: {error}") from error
        if self._sync:
            snapshot.sync_directory(self._directory)
        state = msgspec.structs.replace(
            self._state,
            commit_index=max(self._state.commit_index, meta.index),
            base_index=meta.index,
            base_term=meta.term,
            last_index=meta.index,
            tables=number,
        )
        self._switch_to(state, empty_log=True)

    def _switch_to(self, state: LogState, *, empty_log: bool) -> None:
        """Goes on with the tables that this state names, which are on the disk. The log's own transaction is the
        step from the old ones to them; any exception means: stop the node.

        The order is that of what a process may leave behind that ends in between. The new tables are whole and flushed
        before the log names them. The log forgets its entries and names them in one transaction: there is no moment
        with new tables and old entries, or with neither. The old tables are closed and deleted last; until then an
        open finds those that the log names and removes all others (layout.remove_others). In memory the switch is
        made with no reader inside (`alone`) and no checkpoint under way: either would go on in a file that is gone."""
        old = self._tables
        try:
            with self._env.lmdb.begin(write=True) as txn:
                if empty_log:
                    txn.drop(self._env.log, delete=False)
                txn.put(STATE, records.encode_state(state), db=self._env.own)
            with self._checkpointing, self._gate.alone():
                old.close()
                self._tables = self._open_tables(state.tables)
                self._state = state
                if empty_log:
                    self._first, self._last = state.base_index + 1, state.base_index
                    self.log_marks, self.log_bytes = [], 0
        except BaseException:
            self._gate.closed = self._log_gate.closed = True  # nothing more may go into the old state
            raise
        shutil.rmtree(old.directory, ignore_errors=True)

    # ------------------------------------------------------------ compaction

    def usage(self) -> Usage:
        """Returns how many bytes the file of the tables has, and how many of them are in use. Any thread."""
        with self._gate.admitted(), self._read_errors():
            tables = self._tables
            with tables.transaction() as txn:
                return compaction.usage_of(tables.env, txn)

    def compact(self, boot_ms: Callable[[], int]) -> None:
        """Writes the tables anew where most of their file is free pages (compaction.py). For who has just opened the
        store; blocks. Where they cannot be copied the store goes on as it is. A process that ends at any line of it
        leaves the old tables or the new ones, as with `swap`; any exception means: stop the node."""
        self.publish()
        began_ms, usage = boot_ms(), self.usage()
        if not compaction.is_due(usage, self.free_bytes()):
            return
        log.info(
            "%s of the %s that the store's tables take are free: they are written anew without that",
            size_text(usage.free),
            size_text(usage.file),
        )
        number = self._state.tables + 1
        directory = tables_directory(self._directory, number)
        try:
            state = State.of_tables(self.applied_index, self.applied_term)
            compaction.copy(self._tables.env, directory, state, map_bytes=self._map_bytes, sync=self._sync)
            if self._sync:
                snapshot.sync_directory(self._directory)
        except (OSError, lmdb.Error) as error:
            shutil.rmtree(directory, ignore_errors=True)
            log.warning("the tables in %s stay as they are, for they cannot be copied: %s", self._directory, error)
            return
        self._switch_to(msgspec.structs.replace(self._state, tables=number), empty_log=False)
        now, took_s = self.usage(), (boot_ms() - began_ms) / 1000
        log.info("the store's tables take %s now; that took %.1f s", size_text(now.file), took_s)
