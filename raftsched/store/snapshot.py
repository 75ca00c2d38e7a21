"""The file form of the replicated tables: rows in key order, table by table, ended by a row of table 0.

A row is table (1 byte), key length (2), value length (4), key, value. The file's size and SHA-256 travel beside it.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from raftsched.core.tables import ReadView, Table

_ROW = struct.Struct(">BHI")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class SnapshotMeta:
    index: int  # applied index and term of the copied state
    term: int
    size: int  # bytes of the file
    sha256: bytes


def write(target: Path, view: ReadView) -> tuple[int, bytes]:
    """Writes all tables and syncs the file. Returns its size and SHA-256."""
    digest = hashlib.sha256()
    size = 0
    buffer = bytearray()
    with target.open("wb") as file:
        for table in Table:
            for key, value in view.scan(table):
                buffer += _ROW.pack(table, len(key), len(value))
                buffer += key
                buffer += value
                if len(buffer) >= _CHUNK:
                    digest.update(buffer)
                    size += file.write(buffer)
                    buffer.clear()
        buffer += _ROW.pack(0, 0, 0)
        digest.update(buffer)
        size += file.write(buffer)
        file.flush()
        os.fsync(file.fileno())
    return size, digest.digest()


def verify(source: Path, meta: SnapshotMeta) -> None:
    """Raises ValueError unless the file has the size and the checksum of `meta`."""
    if source.stat().st_size != meta.size:
        raise ValueError(f"snapshot file has {source.stat().st_size} bytes instead of {meta.size}")
    digest = hashlib.sha256()
    with source.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.digest() != meta.sha256:
        raise ValueError("snapshot file is damaged: its checksum is another")


def rows(source: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """(table, key, value) in the order they were written. Raises ValueError when the end is missing."""
    with source.open("rb") as file:
        while True:
            head = file.read(_ROW.size)
            if len(head) < _ROW.size:
                raise ValueError("snapshot file ends too early")
            table, key_size, value_size = _ROW.unpack(head)
            if table == 0:
                if file.read(1):
                    raise ValueError("snapshot file goes on behind its end")
                return
            key = file.read(key_size)
            value = file.read(value_size)
            if len(key) != key_size or len(value) != value_size:
                raise ValueError("snapshot file ends too early")
            yield table, key, value
