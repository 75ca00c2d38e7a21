"""A backup: a copy of a store as LMDB wrote it, and behind it a trailer with what it is and the SHA-256 of all of it.

LMDB reads such a file as it is; what stands behind its last page is nothing to it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import lmdb
import msgspec

from raftsched.core.entry import NewerLog, check_level
from raftsched.core.levels import newest_level
from raftsched.core.model import JobState
from raftsched.core.rows import META_KEY, decode_meta
from raftsched.core.subjects.cluster import Meta
from raftsched.core.tables import Table
from raftsched.security.keyring import Keyring
from raftsched.store.environment import table_name
from raftsched.store.pages import require_sound
from raftsched.store.records import STATE, UnknownFormat, decode_state
from raftsched.store.snapshot import SnapshotMeta
from raftsched.system.regular_files import open_regular

TRAILER = 1024  # bytes, always
_SUM = 64  # hexadecimal digits, before the last line's end
PURPOSE = "backup"  # of the signing key, see keyring.derive
_MARK = b"\nraftsched backup\n"
_FORMAT = 1
_PIECE = 1 << 20  # bytes
_COUNTED = (Table.META, Table.INSTANCES, Table.DEAD)
_MAGIC = b"\xde\xc0\xef\xbe"  # LMDB's, at 16 (mdb.c, MDB_meta; little-endian machines)
Progress = Callable[[int], None]  # bytes so far
# What LMDB says of the disk and not of the file; the plain one is for the numbers of errno(3) that it has no words for.
_OF_THE_DISK = {lmdb.Error, lmdb.DiskError, lmdb.MapFullError, lmdb.MemoryError, lmdb.LockError, lmdb.ReadonlyError}


class NotABackup(ValueError):
    """The file is not a usable backup; the text says in one line what is wrong with it."""


class NotWhole(NotABackup):
    """The file is not, or is no longer, what was stored. Another one may be."""


class Label(msgspec.Struct, kw_only=True):
    """The content of the trailer."""

    format: int = _FORMAT
    index: int  # index and term of the last applied entry
    term: int
    size: int  # bytes before the trailer
    cluster_id: str  # hexadecimal
    node: str  # that made it
    version: str  # raftsched's
    at_ms: int  # by that node's clock
    key: str = ""  # id of the cluster key that it is signed with; empty: the cluster had none
    mac: str = ""  # hexadecimal


@dataclass(frozen=True)
class Contents:
    """The content of a backup."""

    label: Label
    meta: Meta
    jobs: dict[str, int]  # by state, those that there are
    instances: int
    dead_letters: int
    members: list[str]


def label_of(meta: SnapshotMeta, cluster: Meta, node: str, version: str, at_ms: int) -> Label:
    return Label(
        index=meta.index,
        term=meta.term,
        size=meta.size,
        cluster_id=cluster.cluster_id.hex(),
        node=node,
        version=version,
        at_ms=at_ms,
    )


def trailer(label: Label, digest: Any, keys: Keyring | None = None) -> bytes:
    """Returns the trailer. `digest`, a hashlib object, has seen everything before it. With a key the trailer is signed:
    a holder of the key can tell that one of the cluster's nodes made the backup and that it was not changed."""
    if keys:
        mac = _mac(keys.derive(PURPOSE), label, digest.digest())
        label = msgspec.structs.replace(label, key=keys.ids()[0], mac=mac)
    text = (_MARK + msgspec.json.encode(label)).ljust(TRAILER - _SUM - 2) + b"\n"
    assert len(text) == TRAILER - _SUM - 1, "versions and ids of nodes are short"
    digest.update(text)
    return bytes(text + digest.hexdigest().encode() + b"\n")


def _mac(key: bytes, label: Label, digest: bytes) -> str:
    fields = (
        label.format,
        label.index,
        label.term,
        label.size,
        label.cluster_id,
        label.node,
        label.version,
        label.at_ms,
    )
    return hmac.digest(key, msgspec.json.encode([*fields, label.at_ms, digest.hex()]), "sha256").hex()


def check_signed(name: str, key: str, mac: str, ours: Iterable[str], keys: Keyring) -> None:
    """Raises NotABackup unless `mac` is among `ours`, which the keys make of the same bytes. `key`: the id of the one
    that the label names."""
    if not mac:
        raise NotABackup(f"{name} is not signed: anybody may have made it; --unsigned in the place of the key takes it")
    if any(hmac.compare_digest(one, mac) for one in ours):
        return
    if key in keys.ids():
        raise NotABackup(f"{name} was changed since it was signed with the cluster key {key}")
    raise NotABackup(f"{name} says that it is signed with the cluster key {key[:16]!r}, which is not among these")


def read_label(file: BinaryIO, name: str) -> Label:
    """Returns the label of a backup. Raises NotABackup, OSError."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - TRAILER))
    last = file.read(TRAILER)
    if len(last) == TRAILER and last.startswith(_MARK):
        try:
            label = msgspec.json.decode(last[len(_MARK) : -_SUM - 1].rstrip(), type=Label)
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise NotWhole(f"{name} is damaged: what stands at its end cannot be read") from None
        if label.format != _FORMAT:
            raise NotABackup(f"{name} has format {label.format} of backups; this version reads {_FORMAT}")
        if label.size != size - TRAILER:
            raise NotWhole(f"{name} is damaged: {size - TRAILER} bytes instead of {label.size}")
        return label
    file.seek(16)
    if file.read(4) == _MAGIC:
        raise NotWhole(f"{name} is cut off: what stands at the end of a backup is not there")
    raise NotWhole(f"{name} is not a backup of raftsched")


def verify(
    path: Path,
    progress: Progress = lambda done: None,
    copy: BinaryIO | None = None,
    keys: Keyring | None = None,
) -> Label:
    """Reads the whole backup; returns its label. `copy` gets everything before the trailer. With `keys` it must be
    signed with one of them.

    Raises NotABackup, OSError."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        label = read_label(file, str(path))
        file.seek(0)
        left = label.size
        while left:
            piece = file.read(min(_PIECE, left))
            if not piece:
                raise NotWhole(f"{path} became shorter while it was read")
            digest.update(piece)
            if copy is not None:
                copy.write(piece)
            left -= len(piece)
            progress(label.size - left)
        last = file.read(TRAILER)
    before = digest.digest()
    digest.update(last[: -_SUM - 1])
    if last[-_SUM - 1 :] != digest.hexdigest().encode() + b"\n":
        raise NotWhole(f"{path} is damaged: its checksum is another than when it was made")
    if keys is not None:
        ours = (_mac(key, label, before) for key in keys.derive_all(PURPOSE))
        check_signed(str(path), label.key, label.mac, ours, keys)
    return label


def verified_contents(path: Path, *, proven: bool = False) -> Contents:
    """Returns the contents of a verified backup. `proven`: its signature is right, so no page of it is examined. Raises
    NotABackup, OSError."""
    with open_regular(path) as file:
        label = read_label(file, str(path))
    return contents(path, label, str(path), proven=proven)


def contents(path: Path, label: Label, name: str, *, proven: bool) -> Contents:
    """Does what `verified_contents` does, of a file with its trailer or without."""
    with reading(name):
        if not proven:
            require_sound(path, label.size)
        with lmdb.open(
            str(path), subdir=False, readonly=True, lock=False, max_dbs=64, lib_version=0, create=False
        ) as env:
            tables = {table: env.open_db(table_name(table), create=False) for table in _COUNTED}
            own = env.open_db(b"local", create=False)
            with env.begin() as txn:
                raw = txn.get(STATE, db=own)
                state = decode_state(raw or b"")
                found = contents_in(txn, tables, label)
    if (state.applied_index, state.applied_term) != (label.index, label.term):
        raise NotWhole(f"{name} is of entry {state.applied_index}, and says that it is of entry {label.index}")
    return found


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Raises NotABackup for whatever the content of a backup raises inside, and OSError for the disk. Whoever made the
    file chose each row of it; the checksum is of what they wrote."""
    try:
        yield
    except (NotABackup, OSError):
        raise
    except UnknownFormat as error:
        raise NotABackup(f"{name} {error}") from None
    except NewerLog as error:
        raise NotABackup(f"{name} was written by a later version: {error}") from None
    except Exception as error:
        if type(error) in _OF_THE_DISK:
            raise OSError(f"{name} cannot be used: {error}") from None
        why = ascii(str(error) or type(error).__name__)[1:-1]
        raise NotWhole(f"{name} holds no state of a cluster: {why[:200]}") from None


def require_level(found: Contents, name: str) -> None:
    """Raises NotABackup when a version made the backup that knows more than this one: what this one does not know of
    its rows would be lost with the first change of them."""
    try:
        check_level(found.meta.level)
    except NewerLog:
        raise NotABackup(
            f"{name} was made by version {found.label.version}, of a cluster of level {found.meta.level}, and this"
            f" version knows the levels up to {newest_level()}: use {found.label.version} or a later one"
        ) from None


def contents_in(txn: Any, tables: Mapping[Table, Any] | Sequence[Any], label: Label) -> Contents:
    """Returns the contents of tables, by a transaction and their handles. Raises lmdb.Error, msgspec.DecodeError."""
    meta = decode_meta(txn.get(META_KEY, db=tables[Table.META]))
    count = {table: txn.stat(tables[table])["entries"] for table in _COUNTED}
    return Contents(
        label=label,
        meta=meta,
        jobs={state.name: meta.jobs[state] for state in JobState if meta.jobs[state]},
        instances=count[Table.INSTANCES],
        dead_letters=count[Table.DEAD],
        members=[member.node for member in meta.members],
    )
