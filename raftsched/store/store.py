"""The store of one node."""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import lmdb
import msgspec

from raftsched.core.apply import Applier
from raftsched.core.tables import Table
from raftsched.errors import StartupError
from raftsched.store import snapshot
from raftsched.store.datafile import is_whole
from raftsched.store.snapshot import SnapshotMeta
from raftsched.store.turn import LogEntry, Turn, TurnResult
from raftsched.store.view import StoreView, WriteView

__all__ = ["CorruptLog", "SnapshotMeta", "Store", "StoreView"]

FORMAT = 1
# Address space, not disk: the file grows with its pages. Doubled when a turn does not fit.
MAP_BYTES = 64 * 2**30
CLOSE_WAIT_S = 5.0
DROP_EXTRA = 256  # log entries a turn may delete beyond as many as it appends

log = logging.getLogger("raftsched.store")

_HEAD = struct.Struct(">IQ")  # crc32 of what follows, term
_KEY = struct.Struct(">Q")
_STATE = b"state"


class CorruptLog(Exception):
    """A log entry on this disk is damaged."""


class _State(msgspec.Struct, array_like=True):
    """This node's durable Raft state, one row."""

    format: int = FORMAT
    term: int = 0
    voted_for: str | None = None
    commit_index: int = 0
    applied_index: int = 0
    applied_term: int = 0
    base_index: int = 0  # the entry before the first one in the log
    base_term: int = 0


_decode_state = msgspec.msgpack.Decoder(_State).decode


def _sync_directory(directory: Path) -> None:
    """The entry of a file made just now is on the disk, too (fsync(2))."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Store:
    """LMDB environment with log, tables and own records; see the package's docstring."""

    def __init__(self, directory: Path, env: Any, lock: int) -> None:
        self._directory = directory
        self._env = env
        self._lock = lock
        self._log = env.open_db(b"log")
        self._own = env.open_db(b"local")
        self._tables: list[Any] = [None] * (max(Table) + 1)
        for table in Table:
            self._tables[table] = env.open_db(f"t{table.value:02d}".encode())
        self._state = _State()
        self._first = 1
        self._last = 0
        self._gate = threading.Condition()
        self._readers = 0
        self._mine = threading.local()  # .depth: readers that this thread has open
        self._resizing = False
        self._closed = False
        self._load()

    @classmethod
    def open(cls, directory: Path, *, sync: bool = True, map_bytes: int = MAP_BYTES) -> Store:
        """Raises StartupError: in use by another process, not writable, damaged, or of another format."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
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
                raise StartupError(
                    f"The store in {directory} is cut off; move it away and let the others bring this node up to date."
                )
            env = lmdb.open(
                str(directory),
                map_size=map_bytes,
                max_dbs=40,
                max_readers=512,
                sync=sync,
                metasync=sync,
                meminit=False,
                lib_version=0,
            )
            store = cls(directory, env, lock)
            _sync_directory(directory)
            _sync_directory(directory.parent)
            return store
        except BaseException as error:
            if env is not None:
                env.close()
            os.close(lock)
            if isinstance(error, lmdb.Error | OSError):
                raise StartupError(f"The store in {directory} cannot be opened: {error}.") from None
            if isinstance(error, msgspec.DecodeError | struct.error):
                raise StartupError(
                    f"The store in {directory} is damaged; move it away and let the others bring this node up to date."
                ) from None
            raise

    def close(self) -> None:
        """Idempotent. Readers that are open in other threads are waited for, a few seconds at most."""
        if self._lock < 0:
            return
        with self._gate:
            self._closed = True
            others = self._readers - self._depth
            if not self._gate.wait_for(lambda: self._readers - self._depth <= 0, CLOSE_WAIT_S):
                log.warning("closing the store under %d open readers", others)
        self._env.close()
        os.close(self._lock)
        self._lock = -1

    # ------------------------------------------------------------ durable state

    def _load(self) -> None:
        with self._env.begin() as txn:
            raw = txn.get(_STATE, db=self._own)
            if raw is not None:
                self._state = _decode_state(raw)
                if self._state.format != FORMAT:
                    raise StartupError(
                        f"The store in {self._directory} has format {self._state.format}; this version reads {FORMAT}."
                    )
            with txn.cursor(self._log) as cursor:
                if cursor.first():
                    self._first = _KEY.unpack(cursor.key())[0]
                    cursor.last()
                    self._last = _KEY.unpack(cursor.key())[0]
                else:
                    self._last = self._state.base_index
                    self._first = self._last + 1

    @property
    def commit_index(self) -> int:
        """Never ahead of the log: commit and log are written by one transaction, and this is the smaller one."""
        return min(self._state.commit_index, self._last)

    @property
    def applied_index(self) -> int:
        return self._state.applied_index

    @property
    def applied_term(self) -> int:
        return self._state.applied_term

    def hard_state(self) -> tuple[int, str | None]:
        """(current term, voted for)"""
        return self._state.term, self._state.voted_for

    def local(self, name: str) -> bytes | None:
        """One of this node's own records."""
        with self._transaction() as txn:
            value: bytes | None = txn.get(b"own:" + name.encode(), db=self._own)
        return value

    def free_bytes(self) -> int:
        """Bytes that the file system still gives to this process."""
        stat = os.statvfs(self._directory)
        return stat.f_bavail * stat.f_frsize

    def size_bytes(self) -> int:
        """Bytes of disk taken by the store."""
        return os.stat(self._directory / "data.mdb").st_blocks * 512

    # ------------------------------------------------------------ reads

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._gate:
            # Who has a reader open already is being waited for: waiting here would be for ever.
            while self._resizing and not self._depth and not self._closed:
                self._gate.wait()
            if self._closed:
                raise RuntimeError(f"the store in {self._directory} is closed")
            self._readers += 1
            self._mine.depth = self._depth + 1
        try:
            with self._env.begin() as txn:
                yield txn
        finally:
            with self._gate:
                self._readers -= 1
                self._mine.depth -= 1
                if self._resizing or self._closed:
                    self._gate.notify_all()

    @property
    def _depth(self) -> int:
        depth: int = getattr(self._mine, "depth", 0)
        return depth

    def _stored(self, txn: Any) -> _State:
        raw = txn.get(_STATE, db=self._own)
        return _State() if raw is None else _decode_state(raw)

    @contextmanager
    def read(self) -> Iterator[StoreView]:
        """A consistent view. Keep it short: an open reader stops the reuse of pages, and the file never shrinks."""
        with self._transaction() as txn:
            yield StoreView(txn, self._tables, self._stored(txn).applied_index)

    def log_bounds(self) -> tuple[int, int]:
        """(first index, last index) in the log; an empty log gives (n + 1, n)."""
        return self._first, self._last

    def log_term(self, index: int) -> int | None:
        """Term of the entry, also of the one just before the log; None: not known here. Raises CorruptLog."""
        if index == self._state.base_index and index < self._first:
            return self._state.base_term
        with self._transaction() as txn:
            raw = txn.get(_KEY.pack(index), db=self._log)
        return None if raw is None else self._term_in(index, raw)

    def _term_in(self, index: int, raw: bytes) -> int:
        """Of a stored entry. Raises CorruptLog."""
        if len(raw) < _HEAD.size or crc32(memoryview(raw)[4:]) != _HEAD.unpack_from(raw)[0]:
            raise CorruptLog(f"Log entry {index} in {self._directory} is damaged.")
        term: int = _HEAD.unpack_from(raw)[1]
        return term

    def log_entries(self, first: int, max_bytes: int) -> list[LogEntry]:
        """Entries from `first` on, at least one if it is there, about `max_bytes` in all. Raises CorruptLog."""
        entries: list[LogEntry] = []
        size = 0
        with self._transaction() as txn, txn.cursor(self._log) as cursor:
            found = cursor.set_key(_KEY.pack(first))
            while found:
                key, raw = cursor.item()
                index = _KEY.unpack(key)[0]
                entries.append(LogEntry(index, self._term_in(index, raw), raw[_HEAD.size :]))
                size += len(raw)
                if size >= max_bytes:
                    break
                found = cursor.next()
        return entries

    # ------------------------------------------------------------ the turn

    def run_turn(self, turn: Turn) -> TurnResult:
        """Writes all of it or nothing. Always from the same thread. Any exception means: stop the node."""
        while True:
            try:
                return self._run(turn)
            except lmdb.MapFullError:
                self._grow()

    def _run(self, turn: Turn) -> TurnResult:
        state = msgspec.structs.replace(self._state)
        first, last = self._first, self._last
        with self._env.begin(write=True) as txn:
            if turn.truncate_from is not None and turn.truncate_from <= last:
                if turn.truncate_from <= state.applied_index:
                    raise RuntimeError(f"truncation at {turn.truncate_from} below applied {state.applied_index}")
                self._delete(txn, turn.truncate_from, last + 1)
                last = turn.truncate_from - 1
            for index, term, data in turn.append:
                if index != last + 1:
                    raise RuntimeError(f"entry {index} does not follow {last}")
                body = _KEY.pack(term) + data
                txn.put(_KEY.pack(index), crc32(body).to_bytes(4) + body, append=True, db=self._log)
                last = index
            if turn.hard_state is not None:
                state.term, state.voted_for = turn.hard_state
            if turn.commit_index is not None:
                state.commit_index = turn.commit_index
            result = self._apply(txn, turn, state)
            for name, value in turn.local.items():
                key = b"own:" + name.encode()
                if value is None:
                    txn.delete(key, db=self._own)
                else:
                    txn.put(key, value, db=self._own)
            if turn.drop_below is not None:
                first = self._drop(txn, turn, state, first)
            txn.put(_STATE, msgspec.msgpack.encode(state), db=self._own)
        self._state, self._first, self._last = state, first, last
        return result

    def _apply(self, txn: Any, turn: Turn, state: _State) -> TurnResult:
        if not turn.apply:
            return TurnResult([])
        applier = Applier(WriteView(txn, self._tables))
        applied = []
        for index, term, data in turn.apply:
            if index != state.applied_index + 1:
                raise RuntimeError(f"applying {index} after {state.applied_index}")
            applied.append(applier.entry(index, term, data))
            state.applied_index, state.applied_term = index, term
        applier.close()
        return TurnResult(applied)

    def _drop(self, txn: Any, turn: Turn, state: _State, first: int) -> int:
        """Compaction: never above what is applied, a bounded number per turn."""
        assert turn.drop_below is not None
        below = min(turn.drop_below, state.applied_index, first + len(turn.append) + DROP_EXTRA)
        if below <= first:
            return first
        raw = txn.get(_KEY.pack(below - 1), db=self._log)
        if raw is None:
            return first
        state.base_index, state.base_term = below - 1, self._term_in(below - 1, raw)
        self._delete(txn, first, below)
        return below

    def _delete(self, txn: Any, first: int, end: int) -> None:
        for index in range(first, end):
            txn.delete(_KEY.pack(index), db=self._log)

    def _grow(self) -> None:
        """Doubles the map; LMDB wants no transaction of this process open meanwhile."""
        with self._gate:
            self._resizing = True
            try:
                while self._readers:
                    self._gate.wait()
                self._env.set_mapsize(self._env.info()["map_size"] * 2)
            finally:
                self._resizing = False
                self._gate.notify_all()

    # ------------------------------------------------------------ snapshots

    def copy(self, target: Path) -> SnapshotMeta:
        """Writes the tables as of now to a file. Any thread; the reader is closed before this returns. Raises OSError,
        and then there is no file."""
        try:
            with self._transaction() as txn:
                state = self._stored(txn)
                view = StoreView(txn, self._tables)
                size, digest = snapshot.write(target, view)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return SnapshotMeta(state.applied_index, state.applied_term, size, digest)

    def install(self, source: Path, meta: SnapshotMeta) -> None:
        """Replaces tables and log by a verified copy, in one transaction; identity, term and vote stay.

        Writer thread only. Raises ValueError when the file is not what `meta` says or not newer than what is here."""
        if meta.index <= self._state.applied_index:
            raise ValueError(f"snapshot at {meta.index} is not newer than applied {self._state.applied_index}")
        snapshot.verify(source, meta)
        while True:
            try:
                return self._install(source, meta)
            except lmdb.MapFullError:
                self._grow()

    def _install(self, source: Path, meta: SnapshotMeta) -> None:
        state = msgspec.structs.replace(self._state)
        with self._env.begin(write=True) as txn:
            for table in Table:
                txn.drop(self._tables[table], delete=False)
            txn.drop(self._log, delete=False)
            for number, key, value in snapshot.rows(source):
                if not 0 < number < len(self._tables):
                    raise ValueError(f"snapshot file has a table {number}: a newer version made it")
                if not key or not txn.put(key, value, append=True, db=self._tables[number]):
                    raise ValueError(f"snapshot file has rows of table {number} that are not in order")
            state.applied_index, state.applied_term = meta.index, meta.term
            state.base_index, state.base_term = meta.index, meta.term
            state.commit_index = max(state.commit_index, meta.index)
            txn.put(_STATE, msgspec.msgpack.encode(state), db=self._own)
        self._state, self._first, self._last = state, meta.index + 1, meta.index
