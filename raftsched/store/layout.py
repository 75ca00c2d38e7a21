"""Makes or finds the directory of a store, or converts it from the one environment of earlier versions.

lock          held by the process that has the store open
log/          LMDB: the log, this node's own records, its Raft state
tables-N/     LMDB: the tables, and their checkpoint; the log's state record says which N goes with it
next/         where a state from another node is made ready
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import lmdb

from raftsched.store import checkpoint, records, tables
from raftsched.store.datafile import CutOff, is_whole
from raftsched.store.environment import DATA, Environment
from raftsched.store.records import STATE, LogState, State
from raftsched.store.snapshot import ROOM_BYTES, sync_directory, sync_file

LOCK = "lock"
LOG = "log"
NEXT = "next"
_LOG_UNDER_WAY = "log.new"
_FIRST = 1


class LogMissing(Exception):
    """The directory had a store whose log is gone, and with it what this node has promised. To begin anew would be to
    vote twice."""


def tables_directory(directory: Path, number: int) -> Path:
    return directory / f"tables-{number}"


def log_environment(directory: Path, *, map_bytes: int, sync: bool, metasync: bool, shared: bool = True) -> Environment:
    return Environment(directory, map_bytes=map_bytes, sync=sync, metasync=metasync, shared=shared, tables=())


def prepare(directory: Path, *, map_bytes: int, sync: bool) -> None:
    """Makes a store where there is none, or one of an earlier version. A process that ends at any line of it leaves
    what was there before, or all of the new one. Raises OSError, lmdb.Error, CutOff, Damaged, UnknownFormat."""
    if (directory / LOG).exists():
        remove(directory / DATA)
        remove(directory / "lock.mdb")
        shutil.rmtree(directory / NEXT, ignore_errors=True)
        return
    if not (directory / DATA).exists():
        require_none(directory)
    shutil.rmtree(directory / _LOG_UNDER_WAY, ignore_errors=True)
    shutil.rmtree(tables_directory(directory, _FIRST), ignore_errors=True)
    if (directory / DATA).exists():
        _convert(directory, map_bytes=map_bytes, sync=sync)
        prepare(directory, map_bytes=map_bytes, sync=sync)
    else:
        make(directory, State(), LogState(), {}, map_bytes=map_bytes, sync=sync)


def require_none(directory: Path) -> None:
    """Raises LogMissing where there are tables of a log that is not there. Empty ones are those of a start that ended
    too soon: the next one makes them again."""
    for place in sorted(directory.glob("tables-*")):
        found = checkpoint.find(place)
        if found is not None and found.applied_index:
            raise LogMissing(f"the log is missing, though {place.name} is of entry {found.applied_index}")


def make(
    directory: Path,
    state: State,
    log_state: LogState,
    own: dict[bytes, bytes],
    log: Iterable[tuple[bytes, bytes]] = (),
    *,
    map_bytes: int,
    sync: bool,
) -> None:
    """Makes the store: with the tables that are in their directory already, or empty ones. `own`, `log`: rows as they
    are stored."""
    tables.make(tables_directory(directory, log_state.tables), state, map_bytes=map_bytes, sync=sync)
    under_way = directory / _LOG_UNDER_WAY
    under_way.mkdir(mode=0o700)
    env = log_environment(under_way, map_bytes=map_bytes, sync=False, metasync=False, shared=False)
    try:
        with env.lmdb.begin(write=True) as txn:
            for key, raw in log:
                txn.put(key, raw, append=True, db=env.log)
            for key, raw in own.items():
                txn.put(key, raw, db=env.own)
            txn.put(STATE, records.encode_state(log_state), db=env.own)
    finally:
        env.close()
    if sync:
        sync_file(under_way / DATA)
        sync_directory(under_way)
        sync_directory(directory)
    under_way.rename(directory / LOG)
    if sync:
        sync_directory(directory)


def _convert(directory: Path, *, map_bytes: int, sync: bool) -> None:
    if not is_whole(directory):
        raise CutOff
    target = tables_directory(directory, _FIRST)
    target.mkdir(mode=0o700)
    map_bytes = max(map_bytes, 2 * (directory / DATA).stat().st_size + ROOM_BYTES)  # for the log alone as well
    old = Environment(directory, map_bytes=map_bytes, sync=sync)  # which makes the tables that are new
    try:
        with old.lmdb.begin() as txn:
            own = {bytes(key): bytes(raw) for key, raw in txn.cursor(old.own)}
            log = [(bytes(key), bytes(raw)) for key, raw in txn.cursor(old.log)]
        raw = own.pop(STATE, None)
        if raw is None and (own or log):
            raise records.Damaged("it is missing")
        was = State() if raw is None else records.decode_state(raw)
        try:
            old.lmdb.copy(str(target), compact=True)
        except lmdb.IncompatibleError:  # not after a page leak (lmdb.h, MDB_CP_COMPACT): then all as it is
            remove(target / DATA)
            old.lmdb.copy(str(target), compact=False)
    finally:
        old.close()
    env = Environment(target, map_bytes=map_bytes, sync=False, shared=False)
    try:
        with env.lmdb.begin(write=True) as txn:
            txn.drop(env.log, delete=False)
            txn.drop(env.own, delete=False)
    finally:
        env.close()
    state = State.of_tables(was.applied_index, was.applied_term)
    log_state = LogState(
        term=was.term,
        voted_for=was.voted_for,
        commit_index=was.commit_index,
        base_index=was.base_index,
        base_term=was.base_term,
        last_index=was.last_index,
        tables=_FIRST,
    )
    make(directory, state, log_state, own, log, map_bytes=map_bytes, sync=sync)


def remove_others(directory: Path, number: int) -> None:
    """Deletes the tables that do not go with the log."""
    for found in directory.glob("tables-*"):
        if found != tables_directory(directory, number):
            shutil.rmtree(found, ignore_errors=True)


def files(directory: Path) -> list[Path]:
    """Returns the files that the store's bytes are in."""
    return [
        directory / DATA,
        directory / LOG / DATA,
        *directory.glob(f"tables-*/{DATA}"),
        *directory.glob(f"{NEXT}/*/{DATA}"),
    ]


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def lock(directory: Path) -> int:
    """Returns the descriptor of the lock file, with the directory made. Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
