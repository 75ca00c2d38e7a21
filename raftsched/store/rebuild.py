"""A state made again: the tables of a backup, with entries of the log applied to them up to one of them.

Apply is deterministic, so these are the tables that every node had after that entry. Nothing here outlives an
interruption: whoever is interrupted begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from raftsched.security.keyring import Keyring
from raftsched.store import backup, snapshot, tables
from raftsched.store.backup import Contents
from raftsched.store.environment import Environment
from raftsched.store.gate import Gate
from raftsched.store.records import State
from raftsched.store.store import MAP_BYTES
from raftsched.store.tables import Rules, Tables
from raftsched.store.view import StoreView
from raftsched.store.write_batch import LogEntry

_UNGUARDED = Rules(synced=False, kept=False)  # no crash leads back to a checkpoint of these tables


@dataclass(frozen=True)
class Rebuilt:
    """A directory of tables that nobody has open."""

    directory: Path
    contents: Contents
    index: int  # of the entry that was applied last, and its term
    term: int


def rebuild(
    source: Path,
    work: Path,
    directory: Path,
    entries: Iterable[list[LogEntry]] = (),
    *,
    map_bytes: int,
    progress: Callable[[int], None] = lambda done: None,
    keys: Keyring | None = None,
) -> Rebuilt:
    """Makes the directory from a backup and from entries, the first of which follows the backup's. `work`: an existing
    directory on the same disk, for the copy that is made while the backup is read. `keys`: see backup.verify.

    Raises NotABackup, OSError, ValueError; then the directory is of no use."""
    copy = work / "copy"
    copy.touch(mode=0o600, exist_ok=False)  # whatever the umask of the command
    with copy.open("wb") as file:
        label = backup.verify(source, progress, file, keys)
    contents = backup.contents(copy, label, str(source), proven=keys is not None)  # nobody else can change the copy
    backup.require_level(contents, str(source))
    was = snapshot.SnapshotMeta(label.index, label.term, label.size, b"")
    with backup.reading(str(source)):
        snapshot.unpack(copy, directory, was, map_bytes=map_bytes, sync=False)
    return go_on(Rebuilt(directory, contents, label.index, label.term), entries, map_bytes=map_bytes)


def go_on(rebuilt: Rebuilt, entries: Iterable[list[LogEntry]], *, map_bytes: int) -> Rebuilt:
    """Applies entries, the first of which follows what was applied last. Raises NotABackup, OSError."""
    directory = rebuilt.directory
    index, term = _apply(directory, State.of_tables(rebuilt.index, rebuilt.term), entries, map_bytes)
    if index == rebuilt.index:
        return rebuilt
    return Rebuilt(directory, _contents(directory, rebuilt.contents, index, term, map_bytes), index, term)


def _apply(directory: Path, state: State, entries: Iterable[list[LogEntry]], map_bytes: int) -> tuple[int, int]:
    opened: Tables | None = None
    try:
        for part in entries:
            if not part:
                continue
            with backup.reading("the backup with the log behind it"):
                if opened is None:
                    tables.make(directory, state, map_bytes=map_bytes, sync=False)
                    gate = Gate(directory)
                    opened = Tables.open(directory, gate, map_bytes=map_bytes, sync=False, rules=_UNGUARDED)
                opened.follow(partial(_from, part))
                opened.apply(part)
                opened.publish()
        return (state.applied_index, state.applied_term) if opened is None else _end(opened)
    finally:
        if opened is not None:
            opened.close()


def _from(part: list[LogEntry], first: int, size: int) -> list[LogEntry]:
    return [entry for entry in part if entry.index >= first]


def _end(opened: Tables) -> tuple[int, int]:
    return opened.applied_index, opened.applied_term


def _contents(directory: Path, was: Contents, index: int, term: int, map_bytes: int) -> Contents:
    env = Environment(directory, map_bytes=map_bytes, sync=False, shared=False)
    try:
        with env.lmdb.begin() as txn:
            label = msgspec.structs.replace(was.label, index=index, term=term)
            return backup.contents_in(txn, env.tables, label)
    finally:
        env.close()


@contextmanager
def reading(directory: Path, *, map_bytes: int = MAP_BYTES) -> Iterator[StoreView]:
    """Opens a view of the tables."""
    env = Environment(directory, map_bytes=map_bytes, sync=False, shared=False)
    try:
        with env.lmdb.begin() as txn:
            yield StoreView(txn, env.tables)
    finally:
        env.close()
