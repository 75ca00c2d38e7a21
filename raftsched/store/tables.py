"""The replicated tables: an LMDB environment of their own, which is not synced with each write.

Entries are applied in one transaction after another, in the thread of the event loop. A transaction stays open over
many entries: their pages are written once, when it is published. From time to time a checkpoint brings all of it to the
disk, in another thread, while the next entries are applied. After a crash the tables are those of the newest checkpoint
(checkpoint.py), and the log has what was applied since.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from raftsched.core.apply import Applier
from raftsched.core.entry import EntryResult
from raftsched.store import checkpoint, records
from raftsched.store.checkpoint import CHECKPOINT, Checkpoint
from raftsched.store.datafile import CutOff, is_whole
from raftsched.store.environment import DATA, Environment, require_at
from raftsched.store.gate import Gate
from raftsched.store.records import STATE, State
from raftsched.store.snapshot import ROOM_BYTES, sync_directory
from raftsched.store.view import StoreView, WriteView
from raftsched.store.write_batch import LogEntry

PUBLISH_BYTES = 2 << 20  # of entries in one transaction: LMDB searches and moves a list of its pages with each one

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that make a checkpoint safe. Tests leave one out to show the harm; tables that are made anew after an
    interruption (rebuild.py) need neither."""

    synced: bool = True  # its pages are on the disk before it names them
    kept: bool = True  # its pages are not used again before there is another


class Tables:
    """`env` is replaced where the map grows or another state is swapped in."""

    def __init__(self, directory: Path, gate: Gate, *, map_bytes: int, sync: bool, rules: Rules) -> None:
        """Opens the state of the newest checkpoint. Raises lmdb.Error, OSError, records.Damaged, UnknownFormat."""
        self.directory = directory
        self.map_bytes = map_bytes
        self._gate = gate
        self._sync = sync
        self._rules = rules
        self._txn: Any = None  # the open transaction,
        self._owner = 0  # the thread that it belongs to,
        self._applier: Applier | None = None
        self._broken = False  # something failed in it: what is in memory is not what is in the environment
        self._bytes = 0  # and the bytes of entries that were applied in it
        self._entries: Callable[[int, int], Sequence[LogEntry]] = lambda first, size: ()
        self.env = Environment(directory, map_bytes=map_bytes, sync=False)
        self._data = -1
        self._sync_failed = False
        self._writing = threading.Lock()
        self._guard: Any = None  # the reader that keeps the pages of the checkpoint
        try:
            self.map_bytes = self.env.lmdb.info()["map_size"]
            self._data = os.open(directory / DATA, os.O_RDWR | os.O_CLOEXEC)
            with self.env.lmdb.begin() as txn:
                state = records.decode_state(txn.get(STATE, db=self.env.own) or b"")
            self.applied_index, self.applied_term = state.applied_index, state.applied_term
            self._published = self.applied_index, self.applied_term
            self._number = self._newest = self._written = self._newest_number(directory)
            self.checkpoint_index = self.applied_index  # what a crash leaves
            self._keep()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, directory: Path, gate: Gate, *, map_bytes: int, sync: bool, rules: Rules) -> Tables:
        """Opens the tables in a directory that `make` has made. Raises CutOff, and what the constructor raises."""
        found = checkpoint.find(directory)
        if found is None:
            raise records.Damaged("its checkpoint is missing or cut off")
        if sync:
            checkpoint.make_durable(directory, found)
        if not (directory / DATA).exists():
            raise CutOff
        checkpoint.put_back(directory / DATA, found)
        if not is_whole(directory):
            raise CutOff
        tables = cls(directory, gate, map_bytes=map_bytes, sync=sync, rules=rules)
        if (tables.applied_index, tables.applied_term) != (found.applied_index, found.applied_term):
            tables.close()
            raise records.Damaged(f"it is of entry {tables.applied_index}, its checkpoint of {found.applied_index}")
        return tables

    @staticmethod
    def _newest_number(directory: Path) -> int:
        found = checkpoint.find(directory)
        return 0 if found is None else found.number

    @property
    def is_checkpointed(self) -> bool:
        """Returns whether a checkpoint has all that was applied, or none can be made any more."""
        return self._broken or self.applied_index <= self.checkpoint_index

    def close(self) -> None:
        """Closes the environment; what was not published is not in it."""
        self._abort()
        self._release()
        self.env.close()
        if self._data >= 0:
            os.close(self._data)
            self._data = -1

    def follow(self, entries: Callable[[int, int], Sequence[LogEntry]]) -> None:
        """`entries(first, bytes)` reads the log; see `_again`."""
        self._entries = entries

    # ------------------------------------------------------------ reads

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Gives the open transaction to the thread that it belongs to, and a reader of what was published last to
        others."""
        if self._txn is not None and self._owner == threading.get_ident():
            yield self._txn
            return
        with self.env.lmdb.begin() as txn:
            yield txn

    def view(self, txn: Any) -> StoreView:
        return StoreView(txn, self.env.tables, self._applied_in)

    def _applied_in(self, txn: Any) -> int:
        if txn is self._txn:
            return self.applied_index
        raw = txn.get(STATE, db=self.env.own)
        return records.decode_state(raw or b"").applied_index

    # ------------------------------------------------------------ writes

    def apply(self, entries: Sequence[LogEntry]) -> list[EntryResult]:
        """Applies entries, the first of which follows what was applied last. Any exception means: stop the node."""
        self._check_owner()
        try:
            results = self._fitting(lambda: self._apply(entries))
        except BaseException:
            self._fail()
            raise
        if self._bytes >= PUBLISH_BYTES:
            self.publish()
        return results

    def _apply(self, entries: Sequence[LogEntry]) -> list[EntryResult]:
        applier = self._open()
        results = []
        index, term = self.applied_index, self.applied_term
        for entry in entries:
            if entry.index != index + 1:
                raise RuntimeError(f"applying {entry.index} after {index}")
            results.append(applier.entry(*entry))
            index, term, _ = entry
            self._bytes += len(entry.data)
        applier.close()
        self.applied_index, self.applied_term = index, term
        return results

    def _check_whole(self) -> None:
        if self._broken:
            raise RuntimeError("entries could not be applied: the tables are not written any more")

    def _open(self) -> Applier:
        """Returns what applies entries in the open transaction. It lasts as long, with what it has read."""
        self._check_whole()
        if self._applier is None:
            if self.env.lmdb.info()["last_pgno"] * self.env.page_bytes > self.map_bytes // 2:
                self._grow()
            self._txn = self.env.lmdb.begin(write=True)
            self._owner = threading.get_ident()
            self._applier = Applier(WriteView(self._txn, self.env.tables))
            self._bytes = 0
        return self._applier

    def _check_owner(self) -> None:
        """LMDB wants a transaction ended by the thread that began it, with whatever result."""
        if self._txn is not None and self._owner != threading.get_ident():
            raise RuntimeError("the tables are written by another thread")

    def publish(self) -> None:
        """Ends the open transaction: other threads see what was applied. No disk has it before the next checkpoint."""
        if self._txn is None:
            return
        self._check_owner()
        try:
            self._fitting(self._commit)
        except BaseException:
            self._fail()
            raise
        self._published = self.applied_index, self.applied_term

    def _commit(self) -> None:
        if self._txn is not None:  # else a checkpoint was made meanwhile, for a larger map
            state = State.of_tables(self.applied_index, self.applied_term)
            self._txn.put(STATE, records.encode_state(state), db=self.env.own)
            txn, self._txn, self._applier = self._txn, None, None
            txn.commit()

    def _fitting(self, step: Callable[[], _T]) -> _T:
        """Returns what the step returns, in a map that is large enough for it."""
        while True:
            try:
                return step()
            except lmdb.MapFullError:
                self._again()

    def _fail(self) -> None:
        self._broken = True
        self._abort()

    def _abort(self) -> None:
        txn, self._txn, self._applier = self._txn, None, None
        if txn is not None:
            txn.abort()

    def _again(self) -> None:
        """The map was full: applies again, in a larger one, what was applied since the tables were last published. All
        of it is in the log, and has the same results again."""
        wanted = self.applied_index
        self._back()
        self._grow()
        while self.applied_index < wanted:
            entries = [e for e in self._entries(self.applied_index + 1, PUBLISH_BYTES) if e.index <= wanted]
            if not entries:
                raise RuntimeError(f"entry {self.applied_index + 1} was applied, and is not in the log")
            try:
                self._apply(entries)
            except lmdb.MapFullError:
                self._back()
                self._grow()

    def _back(self) -> None:
        self._abort()
        self.applied_index, self.applied_term = self._published

    def _grow(self) -> None:
        """Doubles the map. LMDB wants no transaction of this process open meanwhile, the one that keeps the checkpoint
        included: so a new checkpoint is made first."""
        made = self.begin_checkpoint()
        self.write_checkpoint(made)
        with self._gate.alone():
            self._release()
            self.map_bytes *= 2
            self.env.lmdb.set_mapsize(self.map_bytes)
            self._keep()
        self._ended(made)

    # ------------------------------------------------------------ checkpoints

    def begin_checkpoint(self) -> Checkpoint:
        """Publishes what was applied, and returns what has to be written for it to outlive a crash."""
        self.publish()
        self._check_whole()
        self._number += 1
        if (self._number - self._written) % 2 == 0:  # one that was begun is not written yet, and the map has to grow:
            self._number += 1  # this one takes its place, and not that of the newest that the disk has
        return checkpoint.take(self._data, self._number, self.applied_index, self.applied_term)

    def keep(self) -> Any:
        """Returns a reader that keeps the pages of what was published last; see `end_checkpoint`."""
        return self.env.lmdb.begin() if self._rules.kept else None

    def write_checkpoint(self, made: Checkpoint) -> None:
        """Brings it to the disk. In any thread; raises OSError, and each time after that: a further sync would succeed
        and leave out the pages of the one that failed (`checkpoint.make_durable`)."""
        if self._sync_failed:
            raise OSError(errno.EIO, "an earlier sync of the tables failed; start the node again")
        try:
            require_at(self.directory / DATA, os.fstat(self._data))
            if self._sync and self._rules.synced:
                os.fdatasync(self._data)
            with self._writing:
                if made.number > self._written:  # else the map has grown meanwhile, and its place is a newer one's
                    checkpoint.write(self.directory, made, sync=self._sync)
                    self._written = made.number
        except OSError:
            self._sync_failed = True
            raise

    def end_checkpoint(self, made: Checkpoint, reader: Any) -> None:
        """It is on the disk: `reader`, made when it began, keeps its pages from now on."""
        if made.number < self._newest:  # the map has grown meanwhile, and there is a newer one
            if reader is not None:
                reader.abort()
            return
        self._release()
        self._guard = reader
        self._ended(made)

    def _ended(self, made: Checkpoint) -> None:
        self.checkpoint_index, self._newest = made.applied_index, made.number

    def _keep(self) -> None:
        self._guard = self.keep()

    def _release(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.abort()


def make(directory: Path, state: State, *, map_bytes: int, sync: bool) -> None:
    """Makes a directory of tables: empty ones, or those of the LMDB file that is in it already. Afterwards all of it is
    on the disk, except the name of the directory. Raises OSError, lmdb.Error."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / CHECKPOINT).unlink(missing_ok=True)
    with suppress(FileNotFoundError):  # another node's may be larger than this one's map
        map_bytes = max(map_bytes, (directory / DATA).stat().st_size + ROOM_BYTES)
    env = Environment(directory, map_bytes=map_bytes, sync=False)
    try:
        with env.lmdb.begin(write=True) as txn:
            txn.put(STATE, records.encode_state(state), db=env.own)
        data = os.open(directory / DATA, os.O_RDWR | os.O_CLOEXEC)
        try:
            if sync:
                os.fsync(data)
            made = checkpoint.take(data, 1, state.applied_index, state.applied_term)
        finally:
            os.close(data)
    finally:
        env.close()
    checkpoint.write(directory, made, sync=sync)
    if sync:
        sync_directory(directory)
