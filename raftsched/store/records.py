"""Encodes the rows of the log and of this node's own records. LMDB has no checksums, so each row carries a CRC-32 of
its own.

What the log and its state record say was promised to others: a node must know when its disk changed them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar
from zlib import crc32

import msgspec

FORMAT = 3  # of tables, snapshots and backups, and of a store that has log and tables in one environment
LOG_FORMAT = 4  # of a store that has the log apart
MARK_EVERY = 32  # log entries between two marks of the log's size

STATE = b"state"
OWN = b"own:"  # before the name of an own record

_INDEX = struct.Struct(">Q")
_HEAD = struct.Struct(">IQ")  # CRC-32 of what follows, term
_SUM = struct.Struct(">I")
_FORMAT_1 = b"\x98\x01"  # the first bytes of its state row (msgpack: an array of 8, the number 1)


class Damaged(Exception):
    """A damaged row; the text says briefly what is wrong with it."""


class UnknownFormat(Exception):
    def __init__(self, number: int, known: int = FORMAT) -> None:
        super().__init__(f"has format {number}; this version reads {known}")


class State(msgspec.Struct, array_like=True):
    """The state of tables, one row: which entry was applied last. Where the log is in the same environment, all that
    `LogState` has as well."""

    format: int = FORMAT
    term: int = 0
    voted_for: str | None = None
    commit_index: int = 0
    applied_index: int = 0
    applied_term: int = 0
    base_index: int = 0  # the entry before the first one in the log
    base_term: int = 0
    last_index: int = 0  # of the log, whose own rows do not show that its end is missing
    checksum: bytes = bytes(_SUM.size)  # last in the row, and over all that stands before it

    @classmethod
    def of_tables(cls, index: int, term: int) -> State:
        """Returns the record of tables in which this entry was applied last."""
        return cls(applied_index=index, applied_term=term, base_index=index, base_term=term, last_index=index)


class LogState(msgspec.Struct, array_like=True):
    """This node's durable Raft state, one row beside its log."""

    format: int = LOG_FORMAT
    term: int = 0
    voted_for: str | None = None
    commit_index: int = 0  # as it was known when something else was written: entries may be committed beyond it
    base_index: int = 0  # the entry before the first one in the log
    base_term: int = 0
    last_index: int = 0  # of the log, whose own rows do not show that its end is missing
    tables: int = 1  # which of the directories of tables goes with this log
    checksum: bytes = bytes(_SUM.size)  # last in the row, and over all that stands before it


_S = TypeVar("_S", State, LogState)

_decode_state = msgspec.msgpack.Decoder(State).decode
_decode_log_state = msgspec.msgpack.Decoder(LogState).decode


def encode_state(state: State | LogState) -> bytes:
    body = msgspec.msgpack.encode(state)[: -_SUM.size]
    return body + _SUM.pack(crc32(body))


def decode_state(raw: bytes) -> State:
    """Returns the state record of tables. Raises Damaged or UnknownFormat. Every format is an array with its number
    first and, from 2 on, the CRC last."""
    return _checked(raw, _decode_state, FORMAT)


def decode_log_state(raw: bytes) -> LogState:
    """Returns the state record of a log. Raises Damaged or UnknownFormat."""
    return _checked(raw, _decode_log_state, LOG_FORMAT)


def _checked(raw: bytes, decode: Callable[[bytes], _S], known: int) -> _S:
    if len(raw) < _SUM.size or _SUM.pack(crc32(raw[: -_SUM.size])) != raw[-_SUM.size :]:
        if raw[:2] == _FORMAT_1:
            raise UnknownFormat(1, known)
        raise Damaged("its checksum is another")
    try:
        state = decode(raw)
    except msgspec.DecodeError:
        if len(raw) < 2 or raw[1] == known:
            raise Damaged("it cannot be read") from None
        raise UnknownFormat(raw[1], known) from None
    if state.format != known:
        raise UnknownFormat(state.format, known)
    return state


def index_key(index: int) -> bytes:
    return _INDEX.pack(index)


def encode_entry(term: int, data: bytes) -> bytes:
    body = _INDEX.pack(term) + data
    return _SUM.pack(crc32(body)) + body


def entry_term(raw: bytes | memoryview) -> int:
    """Returns the term of a stored entry, once its checksum is right. Raises Damaged."""
    if len(raw) < _HEAD.size:
        raise Damaged(f"it has {len(raw)} bytes only")
    checksum, term = _HEAD.unpack_from(raw)
    if crc32(memoryview(raw)[_SUM.size :]) != checksum:
        raise Damaged("its checksum is another")
    return int(term)


def entry_data(raw: bytes) -> bytes:
    return raw[_HEAD.size :]


def encode_own(key: bytes, value: bytes) -> bytes:
    return _SUM.pack(crc32(key + value)) + value


def decode_own(key: bytes, raw: bytes) -> bytes:
    """Returns the value of an own record. Raises Damaged."""
    value = raw[_SUM.size :]
    if raw[: _SUM.size] != _SUM.pack(crc32(key + value)):
        raise Damaged("its checksum is another")
    return value


@dataclass
class Kept:
    """The result of a walk over the whole log."""

    first: int
    last: int
    bytes: int = 0  # of the entries' data
    marks: list[tuple[int, int]] = field(default_factory=list)  # (index, bytes of the kept entries before it)


class DamagedEntry(Damaged):
    def __init__(self, index: int, how: str) -> None:
        super().__init__(how)
        self.index = index


def check_log(
    rows: Iterable[tuple[memoryview, memoryview]], state: LogState, applied_index: int, applied_term: int
) -> Kept:
    """Checks that every entry is there, from the one behind the base to the last one written, each with its checksum,
    and that terms never go down (a log's terms only grow); and that the tables, in which `applied_index` was applied
    last, can go on with this log. Raises DamagedEntry."""
    kept = Kept(state.base_index + 1, state.base_index)
    term = state.base_term
    found_term = term if applied_index == state.base_index else None
    for key, raw in rows:
        index = kept.last + 1
        if key != _INDEX.pack(index):
            raise DamagedEntry(index, "it is missing, or its number is another")
        before = term
        try:
            term = entry_term(raw)
        except Damaged as error:
            raise DamagedEntry(index, str(error)) from None
        if term < before:
            raise DamagedEntry(index, f"its term is {term}, after an entry of term {before}")
        if index == applied_index:
            found_term = term
        if index % MARK_EVERY == 0:
            kept.marks.append((index, kept.bytes))
        kept.bytes += len(raw) - _HEAD.size
        kept.last = index
    if kept.last > state.last_index:
        raise DamagedEntry(kept.last, f"only entries up to {state.last_index} were written")
    if kept.last < state.last_index:
        raise DamagedEntry(kept.last + 1, f"it is missing, though entries up to {state.last_index} were written")
    if applied_index < state.base_index:
        raise DamagedEntry(applied_index + 1, f"it is missing, though only entries up to {applied_index} were applied")
    if found_term is None:
        raise DamagedEntry(kept.last + 1, f"it is missing, though entries up to {applied_index} were applied")
    if found_term != applied_term:
        raise DamagedEntry(applied_index, f"its term is {found_term}, but one of {applied_term} was applied")
    return kept
