"""Golden logs: entries of the replicated log, and what applying each of them did to the rows. See README.md."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from raftsched.core.tables import Table
from tests.support.memory_view import MemoryView

HERE = Path(__file__).parent

Changes = list[tuple[int, bytes, bytes | None]]


class GoldenEntry(msgspec.Struct, array_like=True):
    index: int
    term: int
    data: bytes
    answers: list[list[str] | None]  # by batch and command: the code of a refusal, "" when done; None: applied before
    changes: Changes  # (number of the table, key, value; None: deleted), sorted


class GoldenLog(msgspec.Struct, array_like=True):
    name: str
    entries: list[GoldenEntry]


class RecordingView(MemoryView):
    """Remembers the rows as they were before they were written first."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[tuple[Table, bytes], bytes | None] = {}

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        self._before.setdefault((table, key), self.get(table, key))
        super().put(table, key, value)

    def delete(self, table: Table, key: bytes) -> bool:
        self._before.setdefault((table, key), self.get(table, key))
        return super().delete(table, key)

    def take_changes(self) -> Changes:
        """Returns the rows that differ from what they were at the last call."""
        after = {(table, key): self.get(table, key) for table, key in self._before}
        changed = [(int(t), k, v) for (t, k), v in after.items() if v != self._before[t, k]]
        self._before.clear()
        return sorted(changed, key=lambda row: row[:2])


def read(path: Path) -> list[GoldenLog]:
    logs: list[GoldenLog] = msgspec.msgpack.decode(lzma.decompress(path.read_bytes()), type=list[GoldenLog])
    return logs


def write(path: Path, logs: list[GoldenLog]) -> None:
    path.write_bytes(lzma.compress(msgspec.msgpack.encode(logs), preset=9 | lzma.PRESET_EXTREME))


def files() -> list[Path]:
    return sorted(HERE.glob("[0-9]*.xz"))


def batches(data: bytes) -> list[list[bytes]]:
    """Returns the encoded commands of an entry by batch; none of what is no entry.

    Reads msgpack and no struct of the program: what an entry is made of never changes."""
    try:
        rows = msgspec.msgpack.decode(data, type=_Entry).batches
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return [[bytes(raw) for raw in commands] for _, _, commands in rows]


class _Entry(msgspec.Struct, array_like=True):
    now_ms: int
    batches: list[tuple[int, int, list[msgspec.Raw]]]


def with_inner(raw: bytes) -> Iterator[bytes]:
    """Yields an encoded command, and those that it holds: somebody's (tag 100) and under a key (tag 65)."""
    yield raw
    try:
        items: list[msgspec.Raw] = msgspec.msgpack.decode(raw, type=list[msgspec.Raw])
        tag = msgspec.msgpack.decode(items[0])
        if tag == 100:
            yield from with_inner(bytes(items[1]))
        elif tag == 65:
            yield from with_inner(msgspec.msgpack.decode(items[3], type=bytes))
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError):
        return


def raw_commands(data: bytes) -> Iterator[bytes]:
    """Yields the encoded commands of an entry with those that they hold."""
    for batch in batches(data):
        for raw in batch:
            yield from with_inner(raw)


def tags_of(raw: bytes) -> set[Any]:
    """Returns the numbers of a command and of those that it holds."""
    return {msgspec.msgpack.decode(one, type=list[Any])[0] for one in with_inner(raw)}
