"""The replicated tables as LMDB has them within one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from raftsched.core.tables import Table


def _nothing(txn: Any) -> int:
    return 0


class StoreView:
    """Read access within one transaction (core.tables.ReadView)."""

    def __init__(self, txn: Any, databases: list[Any], applied: Callable[[Any], int] = _nothing) -> None:
        """`applied` reads the applied index in a transaction."""
        self._txn = txn
        self._databases = databases
        self._get = txn.get
        self._applied = applied

    @property
    def applied_index(self) -> int:
        """Applied index of the state that is seen here. Raises CorruptLog."""
        return self._applied(self._txn)

    def get(self, table: Table, key: bytes) -> bytes | None:
        value: bytes | None = self._get(key, None, self._databases[table])
        return value

    def scan(
        self, table: Table, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._txn.cursor(self._databases[table]) as cursor:
            if reverse:
                yield from _backward(cursor, low, high)
            else:
                yield from _forward(cursor, low, high)

    def count(self, table: Table) -> int:
        entries: int = self._txn.stat(self._databases[table])["entries"]
        return entries


def _forward(cursor: Any, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    found = cursor.set_range(low) if low else cursor.first()
    while found:
        key, value = cursor.item()
        if high is not None and key >= high:
            return
        yield key, value
        found = cursor.next()


def _backward(cursor: Any, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    if high is None:
        found = cursor.last()
    else:
        found = cursor.prev() if cursor.set_range(high) else cursor.last()
    while found:
        key, value = cursor.item()
        if key < low:
            return
        yield key, value
        found = cursor.prev()


class WriteView(StoreView):
    """Read and write access within a write batch's transaction (core.tables.View)."""

    def __init__(self, txn: Any, databases: list[Any]) -> None:
        super().__init__(txn, databases)
        # A cursor each, as long as the transaction lasts: most rows lie beside the one before.
        self._cursors: list[Any] = [None] * len(databases)
        self._delete = txn.delete

    def _cursor(self, table: Table) -> Any:
        cursor = self._cursors[table]
        if cursor is None:
            cursor = self._cursors[table] = self._txn.cursor(self._databases[table])
        return cursor

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        (self._cursors[table] or self._cursor(table)).put(key, value)

    def getter(self, table: Table) -> Callable[[bytes], bytes | None]:
        get: Callable[[bytes], bytes | None] = self._cursor(table).get
        return get

    def putter(self, table: Table) -> Callable[[bytes, bytes], object]:
        put: Callable[[bytes, bytes], object] = self._cursor(table).put
        return put

    def first(self, table: Table, low: bytes = b"", high: bytes | None = None) -> tuple[bytes, bytes] | None:
        cursor = self._cursors[table] or self._cursor(table)
        if not (cursor.set_range(low) if low else cursor.first()):
            return None
        row: tuple[bytes, bytes] = cursor.item()
        return None if high is not None and row[0] >= high else row

    def delete(self, table: Table, key: bytes) -> bool:
        deleted: bool = self._delete(key, b"", self._databases[table])
        return deleted
