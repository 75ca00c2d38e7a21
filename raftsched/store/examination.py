"""Looks at the store of a node that does not run, and changes nothing: is all of it there, and of a known format?

It reads what the next start would read: the state record, this node's own records, each entry of the log with its
checksum, the checkpoint of the tables, and the cluster's level in them. Rows of the tables have no checksums
(records.py); whether each page is one that LMDB could have written can be told (pages.py). That is looked at first,
since LMDB would end the process.
"""

from __future__ import annotations

import fcntl
import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import lmdb
import msgspec

from raftsched.core.entry import Entry, NewerLog, check_level, decode_entry
from raftsched.core.rows import META_KEY, decode_meta
from raftsched.core.subjects.cluster import Form, RaiseLevel
from raftsched.core.tables import Table
from raftsched.store import checkpoint, records
from raftsched.store.datafile import is_whole
from raftsched.store.environment import BROKEN, DATA, table_name
from raftsched.store.layout import LOCK, LOG, LogMissing, require_none, tables_directory
from raftsched.store.one_row import Unreadable, row_at
from raftsched.store.pages import Unsound, require_sound
from raftsched.store.records import OWN, STATE, Damaged, LogState, UnknownFormat
from raftsched.system.regular_files import open_regular

NEWEST = 1_000  # entries whose commands are decoded, to find such as only a later version knows
_LONGEST = 1 << 46  # bytes of address space, as the file says itself


@dataclass(frozen=True)
class Examined:
    """`damaged`: the node must not take part with it. `unknown`: another version has to open it. Empty: neither."""

    term: int = 0
    applied_index: int = 0  # of the newest checkpoint
    last_index: int = 0
    entries: int = 0
    damaged: str = ""
    unknown: str = ""


class InUse(Exception):
    """A process has the store open; `pid` is it, where the system says so."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(pid)
        self.pid = pid


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keeps every node out while it lasts. Raises InUse, OSError."""
    try:
        lock = open_regular(directory / LOCK)
    except FileNotFoundError:  # whoever opens a store makes it first, and keeps it: nobody has it open
        directory.stat()
        yield
        return
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(holder(directory / LOCK)) from None
        yield
    finally:
        lock.close()


def holder(lock: Path, locks: Path = Path("/proc/locks")) -> int | None:
    """Returns the process that holds a file's lock (proc(5), /proc/locks). None: the system does not say."""
    with suppress(OSError, ValueError):
        inode = lock.stat().st_ino
        for line in locks.read_text().splitlines():
            fields = line.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
                return int(fields[4]) if int(fields[4]) > 0 else None
    return None


def examine(directory: Path) -> Examined | None:
    """Returns what lies there; None: no store. To be called while it is `held`. Raises OSError."""
    parts = (directory / LOG / DATA, directory / DATA)
    data = next((part for part in parts if part.exists()), None)
    if data is None:
        return _without_log(directory)
    if data != parts[0]:  # of before log and tables parted
        return Examined(damaged="" if is_whole(directory, changes=False) else "its file is cut off")
    if data.stat().st_size == 0:
        return Examined(damaged="the file of the log is empty")
    if not is_whole(directory / LOG, changes=False):
        return Examined(damaged="the file of the log is cut off")
    try:
        require_sound(directory / LOG / DATA)
        env = lmdb.open(
            str(directory / LOG), readonly=True, lock=False, create=False, max_dbs=64, map_size=_LONGEST, lib_version=0
        )
    except (Unsound, *BROKEN) as error:
        return Examined(damaged=f"the log is no LMDB file: {error}")
    except lmdb.Error as error:
        raise OSError(f"the log cannot be opened: {error}") from None
    try:
        return _looked_at(directory, env)
    except (Damaged, Unsound, lmdb.NotFoundError, lmdb.IncompatibleError, msgspec.DecodeError, *BROKEN) as error:
        return Examined(damaged=f"the state record, the log or the tables: {error}")
    except (UnknownFormat, NewerLog) as error:
        return Examined(unknown=str(error))
    finally:
        env.close()


def _without_log(directory: Path) -> Examined | None:
    """Returns what it means that no file of a log is there. None: no start has ended yet."""
    if (directory / LOG).exists():
        return Examined(damaged="the file of the log is missing")
    try:
        require_none(directory)
    except LogMissing as error:
        return Examined(damaged=str(error))
    return None


def _looked_at(directory: Path, env: lmdb.Environment) -> Examined:
    with env.begin(buffers=False) as txn:
        own = {bytes(key): bytes(raw) for key, raw in txn.cursor(env.open_db(b"local", txn=txn, create=False))}
        raw = own.pop(STATE, None)
        if raw is None:
            return Examined(damaged="the state record is missing")
        state = records.decode_log_state(raw)
        for key, value in own.items():
            try:
                records.decode_own(key, value)
            except Damaged as error:
                return Examined(damaged=f"the own record {key.removeprefix(OWN).decode(errors='replace')}: {error}")
        place = tables_directory(directory, state.tables)
        found = checkpoint.find(place)
        if found is None:
            return Examined(damaged=f"{place.name} has no checkpoint that is whole")
        if not (place / DATA).exists():
            return Examined(damaged=f"the file of {place.name} is missing")
        if (place / DATA).stat().st_size < 2 * found.page_bytes:
            return Examined(damaged=f"the file of {place.name} is cut off")
        require_sound(place / DATA, metas=found.metas)
        with suppress(Unreadable):  # LMDB may read it all the same: the node tells then
            check_level(decode_meta(row_at(place, found, table_name(Table.META), META_KEY)).level)
        newest: deque[bytes] = deque(maxlen=NEWEST)
        return _of_log(txn, env, state, found, newest)


def _of_log(
    txn: lmdb.Transaction, env: lmdb.Environment, state: LogState, found: checkpoint.Checkpoint, newest: deque[bytes]
) -> Examined:
    log = env.open_db(b"log", txn=txn, create=False)

    def rows() -> Iterator[tuple[memoryview, memoryview]]:
        for key, row in txn.cursor(log):
            newest.append(bytes(row))
            yield memoryview(key), memoryview(row)

    try:
        kept = records.check_log(rows(), state, found.applied_index, found.applied_term)
    except records.DamagedEntry as error:
        return Examined(damaged=f"the log at entry {error.index}: {error}")
    for row in newest:
        decode_entry(records.entry_data(row))
    with txn.cursor(log) as cursor:
        cursor.set_range(records.index_key(found.applied_index + 1))
        for _, raw in itertools.islice(cursor, max(0, state.commit_index - found.applied_index)):
            _check_levels(decode_entry(records.entry_data(bytes(raw))))
    return Examined(state.term, found.applied_index, kept.last, kept.last - state.base_index)


def _check_levels(entry: Entry | None) -> None:
    """Raises NewerLog where the next start would: commands that give the cluster its level need not be of it."""
    for batch in () if entry is None else entry.batches:
        for command in batch.commands:
            if isinstance(command, RaiseLevel | Form):
                check_level(command.level)
