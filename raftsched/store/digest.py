"""Computes the digest of all rows of a state: equal for equal states, whichever nodes made them.

A node writes rows with all fields that its version knows, whatever the level of the cluster. While versions are mixed
one node writes a later field at its default and another one leaves it out, and both say the same: a reader without the
field takes its default. Rows that were written then may stay so for good. So what counts is what this version reads in
a row, and not its bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from raftsched.core import rows
from raftsched.core.rows import Row, encode_row
from raftsched.core.subjects.access import OIDC_KEY
from raftsched.core.subjects.backups import BACKUP_KEY
from raftsched.core.subjects.changes import decode_row as decode_changes
from raftsched.core.subjects.changes import encode_row as encode_changes
from raftsched.core.subjects.minutes import OPEN_KEY
from raftsched.core.subjects.zones import ZONES_KEY
from raftsched.core.tables import Table
from raftsched.store.environment import Environment

_LENGTH = 4
_SEVERAL: dict[tuple[Table, bytes], Row[Any, Any]] = {  # beside other rows of their tables
    (Table.META, OPEN_KEY): rows.OPEN_MINUTE,
    (Table.META, ZONES_KEY): rows.ZONES,
    (Table.META, BACKUP_KEY): rows.BACKUP,
    (Table.ACCESS, OIDC_KEY): rows.OIDC,
}
_ROWS: dict[Table, Row[Any, Any]] = {
    row.table: row for row in vars(rows).values() if isinstance(row, Row) and row not in _SEVERAL.values()
}
_NO_STRUCT = 1  # bytes of the rows of WORKFLOWS that are a state


def as_read(table: Table, key: bytes, raw: bytes) -> bytes:
    """Returns the row as this version would write it. What cannot be read stays as it is."""
    try:
        if table is Table.CHANGES:
            return encode_changes(*decode_changes(raw))
        row: Row[Any, Any] | None = _SEVERAL.get((table, key)) or _ROWS.get(table)
        if row is None or (table is Table.WORKFLOWS and len(raw) == _NO_STRUCT):
            return raw
        return encode_row(row.decode(raw))
    except (msgspec.DecodeError, struct.error):
        return raw


def digest(directory: Path, *, map_bytes: int) -> str:
    """Returns the SHA-256 of all rows of all tables, as this version reads them."""
    env = Environment(directory, map_bytes=map_bytes, sync=False, shared=False)
    found = hashlib.sha256()
    try:
        with env.lmdb.begin() as txn:
            for table in Table:
                found.update(table.to_bytes(2, "big"))
                with txn.cursor(env.tables[table]) as cursor:
                    _add(found.update, table, cursor)
    finally:
        env.close()
    return found.hexdigest()


def _add(update: Callable[[bytes], object], table: Table, cursor: Any) -> None:
    for key, raw in cursor:
        value = as_read(table, key, raw)
        update(len(key).to_bytes(_LENGTH, "big") + len(value).to_bytes(_LENGTH, "big"))
        update(key)
        update(value)
