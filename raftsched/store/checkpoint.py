"""The checkpoint of a tables environment: the state that is found when the store is opened.

The environment is written without LMDB's own syncs, so that nobody waits for its pages. A loss of power may then leave
any part of what was written since the last sync, meta pages included. So this file remembers LMDB's two meta pages as
they were when everything that they refer to was on the disk, and opening the environment puts them back. Two things
make that safe: LMDB never changes a page in place, and a reader that is kept open at the checkpoint keeps it from using
again any page that the checkpoint refers to (lmdb.h, "Caveats": a long-lived reader stops the reuse of pages).

The file has two slots, written in turn: one that is cut off leaves the other.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from zlib import crc32

import msgspec

from raftsched.system.regular_files import read_regular

CHECKPOINT = "checkpoint"  # the file, beside the environment's own
META_BYTES = 512  # of each meta page: LMDB uses 152 (mdb.c, MDB_page and MDB_meta)
SLOT_BYTES = 4096
_HEAD = struct.Struct("<II")  # CRC-32 and length of what follows
_LEAST_PAGE = 512
_PAGE_BYTES = struct.Struct("<16xII8x8xI")  # magic, version, page size within the first database record
_MAGIC = 0xBEEFC0DE


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """A state of the tables that is whole on the disk, or will be once `write` has returned."""

    number: int  # rises with each that is written
    applied_index: int
    applied_term: int
    page_bytes: int
    metas: tuple[bytes, bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Checkpoint).decode


def take(data: int, number: int, applied_index: int, applied_term: int) -> Checkpoint:
    """Returns the checkpoint of what was committed last. `data`: a descriptor of LMDB's file, to which nobody writes
    meanwhile."""
    first = os.pread(data, META_BYTES, 0)
    magic, _, page_bytes = _PAGE_BYTES.unpack_from(first)
    if magic != _MAGIC or page_bytes < _LEAST_PAGE:
        raise ValueError("LMDB's file does not begin with a meta page")
    return Checkpoint(number, applied_index, applied_term, page_bytes, (first, os.pread(data, META_BYTES, page_bytes)))


def write(directory: Path, checkpoint: Checkpoint, *, sync: bool = True) -> None:
    """Makes it the one that is found. Everything that it refers to must be on the disk. Raises OSError."""
    body = _encode(checkpoint)
    raw = _HEAD.pack(crc32(body), len(body)) + body
    if len(raw) > SLOT_BYTES:
        raise ValueError(f"a checkpoint of {len(raw)} bytes")
    path = directory / CHECKPOINT
    new = not path.exists()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if new:
            os.pwrite(fd, bytes(2 * SLOT_BYTES), 0)  # so that later ones change no length
        os.pwrite(fd, raw, checkpoint.number % 2 * SLOT_BYTES)
        if sync:
            os.fdatasync(fd)
    finally:
        os.close(fd)


def find(directory: Path) -> Checkpoint | None:
    """Returns the newest one that was written whole; None: there is none. Raises OSError."""
    try:
        raw = read_regular(directory / CHECKPOINT)
    except FileNotFoundError:
        return None
    found = [slot for at in (0, SLOT_BYTES) if (slot := _slot(raw[at : at + SLOT_BYTES])) is not None]
    return max(found, key=lambda checkpoint: checkpoint.number, default=None)


def _slot(raw: bytes) -> Checkpoint | None:
    if len(raw) < _HEAD.size:
        return None
    checksum, length = _HEAD.unpack_from(raw)
    body = raw[_HEAD.size : _HEAD.size + length]
    if not length or len(body) != length or crc32(body) != checksum:
        return None
    try:
        return _decode(body)
    except msgspec.DecodeError:
        return None


def make_durable(directory: Path, found: Checkpoint) -> None:
    """Brings what `find` has found to the disk: the process that wrote it may have ended before its sync, or at one
    that failed, and others rely on it from now on. Raises OSError.

    After a sync that failed Linux has the page clean, with bytes that are not on the disk, and a further sync has
    nothing to do (Rebello et al., "Can Applications Recover from fsync Failures?", 2020). So the slot is written again;
    as the bytes are the same, one that is torn is whole."""
    at = found.number % 2 * SLOT_BYTES
    fd = os.open(directory / CHECKPOINT, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(fd, os.pread(fd, SLOT_BYTES, at), at)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def put_back(data: Path, checkpoint: Checkpoint) -> None:
    """Makes LMDB's file, which nobody has open, the state of the checkpoint. Needs no sync: it is done again at each
    opening until a newer checkpoint is there. Raises OSError."""
    fd = os.open(data, os.O_RDWR | os.O_CLOEXEC)
    try:
        for at, meta in zip((0, checkpoint.page_bytes), checkpoint.metas, strict=True):
            if os.pread(fd, len(meta), at) != meta:
                os.pwrite(fd, meta, at)
    finally:
        os.close(fd)
