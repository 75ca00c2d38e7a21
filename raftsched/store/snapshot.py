"""Another node's state: a file that is an LMDB environment, compacted, as of one applied entry.

Received, it is made into a fresh environment beside the running one: checked, and emptied of what belongs to its sender
(log and own records). It takes the running one's place by a rename, which either happened or did not.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import lmdb

from raftsched.core.tables import Table
from raftsched.store.datafile import is_whole
from raftsched.store.environment import BROKEN, DATA, Environment, table_name
from raftsched.store.records import STATE, Damaged, State, UnknownFormat, decode_state, encode_state

ROOM_BYTES = 64 << 20  # map beyond the file's size: freeing what was the sender's takes pages itself


@dataclass(frozen=True)
class SnapshotMeta:
    index: int  # applied index and term of the copied state
    term: int
    size: int  # bytes of the file
    sha256: bytes


@dataclass(frozen=True)
class Fresh:
    """A received state that is ready to replace the running one."""

    directory: Path
    meta: SnapshotMeta

    @property
    def file(self) -> Path:
        return self.directory / DATA


def sync_file(file: Path) -> None:
    """Brings to the disk everything written to the file through any descriptor (fsync(2))."""
    fd = os.open(file, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(directory: Path) -> None:
    """Makes a directory, for its owner alone, with its parents; the entries of all new ones are on the disk
    afterwards."""
    new = []
    above = directory.absolute()
    while not above.exists():
        new.append(above)
        above = above.parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for made in new:
        sync_directory(made.parent)


def sync_directory(directory: Path) -> None:
    """Brings to the disk the entry of a file just made or renamed (fsync(2))."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def describe(file: Path) -> SnapshotMeta:
    """Returns the meta data of a copy made just now. Raises OSError; ValueError when no store wrote it."""
    try:
        with lmdb.open(
            str(file), subdir=False, readonly=True, lock=False, max_dbs=4, lib_version=0, create=False
        ) as env:
            own = env.open_db(b"local", create=False)
            with env.begin() as txn:
                raw = txn.get(STATE, db=own)
        state = State() if raw is None else decode_state(raw)
    except (lmdb.Error, Damaged, UnknownFormat) as error:
        raise ValueError(f"the copy cannot be read: {error}") from None
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").digest()
        size = os.fstat(opened.fileno()).st_size
    return SnapshotMeta(state.applied_index, state.applied_term, size, digest)


def verify(source: Path, meta: SnapshotMeta) -> None:
    """Raises ValueError unless the file has the size and the checksum of `meta`."""
    size = source.stat().st_size
    if size != meta.size:
        raise ValueError(f"snapshot file has {size} bytes instead of {meta.size}")
    with source.open("rb") as file:
        if hashlib.file_digest(file, "sha256").digest() != meta.sha256:
            raise ValueError("snapshot file is damaged: its checksum is another")


def unpack(source: Path, directory: Path, meta: SnapshotMeta, *, map_bytes: int, sync: bool) -> Fresh:
    """Moves the verified file into `directory`, which it makes, and removes the sender's own data. Raises OSError, and
    ValueError when the file is not the state that `meta` describes; then neither file nor directory is left."""
    fresh = Fresh(directory, meta)
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # else it would be as the umask says
        directory.mkdir(mode=0o700)
        _move(source, fresh.file)
        if not is_whole(directory):
            raise ValueError("snapshot file is cut off")
        env = _open(fresh, map_bytes)
        try:
            _check(env, meta)
            state = State.of_tables(meta.index, meta.term)
            with env.lmdb.begin(write=True) as txn:
                txn.drop(env.log, delete=False)
                txn.drop(env.own, delete=False)
                txn.put(STATE, encode_state(state), db=env.own)
        finally:
            env.close()
        if sync:
            sync_file(fresh.file)
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, BROKEN):
            raise ValueError(f"snapshot file is no LMDB environment of a store: {error}") from None
        if isinstance(error, lmdb.Error):
            raise OSError(f"the snapshot cannot be made ready in {directory}: {error}") from None
        raise
    return fresh


def require(fresh: Fresh, *, map_bytes: int) -> None:
    """Raises ValueError unless the prepared state is the one that its meta data describe; lmdb.Error."""
    env = _open(fresh, map_bytes)
    try:
        _check(env, fresh.meta)
    finally:
        env.close()


def _open(fresh: Fresh, map_bytes: int) -> Environment:
    """Opens the environment without LMDB's own syncs: nothing counts before the whole file is synced."""
    size = max(map_bytes, fresh.meta.size + ROOM_BYTES)
    return Environment(fresh.directory, map_bytes=size, sync=False, shared=False)


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copyfile(source, target)
        source.unlink()


def _check(env: Environment, meta: SnapshotMeta) -> None:
    known = {b"log", b"local", *map(table_name, Table)}
    with env.lmdb.begin() as txn:
        with txn.cursor() as cursor:
            unknown = [name for name in cursor.iternext(values=False) if name not in known]
        raw = txn.get(STATE, db=env.own)
    if unknown:
        names = ", ".join(name.decode(errors="replace") for name in unknown)
        raise ValueError(f"snapshot file has tables that this version does not know ({names}): a newer version made it")
    if raw is None:
        raise ValueError("snapshot file has no state record")
    try:
        state = decode_state(raw)
    except Damaged as error:
        raise ValueError(f"snapshot file has a damaged state record: {error}") from None
    except UnknownFormat as error:
        raise ValueError(f"snapshot file {error}") from None
    if (state.applied_index, state.applied_term) != (meta.index, meta.term):
        raise ValueError(
            f"snapshot file is of entry {state.applied_index} of term {state.applied_term}, "
            f"not of entry {meta.index} of term {meta.term} as announced"
        )
