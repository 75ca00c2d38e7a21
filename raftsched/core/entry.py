"""Encodes one entry of the Raft log: a time and batches of commands, each batch with the number its proposer gave it.

(origin, seq) makes proposing again harmless: apply skips a batch that was applied before. An origin is one incarnation
of one proposing process (a random 64-bit number), seq counts 1, 2, 3... within it.

A configuration entry carries the cluster's members as they are from it on. Consensus obeys it as soon as it is in a
node's log, before it is committed (Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 4.1), so it must be
told from the others without decoding them all: it alone has three fields.

Whatever an entry holds, every node does the same with it. Its level says which set of commands its leader drew on. A
node that knows this set can tell that what does not decode is no command of it, and refuses that, as all others do. A
node to which the set is unknown stops: only a newer version can tell what the entry does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from raftsched.core.actions import Action
from raftsched.core.commands import UNDECODABLE, Answer, AnyCommand, Unknown, decode
from raftsched.core.levels import FIRST_LEVEL, any_later, level_of, newest_level
from raftsched.core.subjects.cluster import Member


class Batch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    origin: int
    seq: int
    commands: list[AnyCommand]  # and `Unknown`, which is never encoded


class Entry(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int  # the leader's wall clock when it made the entry
    batches: list[Batch]
    members: tuple[Member, ...] | None = None  # of a configuration entry
    level: int = FIRST_LEVEL  # no command in it is of a later set (levels.py)


class NewerLog(Exception):
    """The log, or the state that follows from it, is of a level that this version does not know: it is too old."""

    def __init__(self, level: int) -> None:
        super().__init__(
            f"This node is too old for this cluster, which is of level {level}: this version knows the levels up to "
            f"{newest_level()}. Start a newer one; the data directory stays as it is."
        )


class _RawBatch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    origin: int
    seq: int
    commands: list[msgspec.Raw]


class _RawEntry(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int
    batches: list[_RawBatch]


class _RawEntryOfLevel(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int
    batches: list[_RawBatch]
    members: tuple[Member, ...] | None = None
    level: int = FIRST_LEVEL


class _Configuration(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int
    batches: list[_RawBatch]
    members: tuple[Member, ...]


class _Time(msgspec.Struct, array_like=True, frozen=True):
    """The first field of an entry."""

    now_ms: int


class BatchResult(msgspec.Struct, gc=False):
    origin: int
    seq: int
    answers: list[Answer] | None  # None: applied before, skipped


class EntryResult(msgspec.Struct):
    index: int
    term: int
    batches: list[BatchResult]
    actions: list[Action]


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Entry)
_configuration: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_Configuration)
_time: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_Time)
_pieces: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_RawEntryOfLevel)
_Raw = msgspec.Raw
_THREE_FIELDS = 0x93  # how msgpack begins an array of three


def encode_entry(now_ms: int, batches: Sequence[tuple[int, int, Sequence[bytes]]]) -> bytes:
    """`batches`: (origin, seq, encoded commands). The commands' bytes are spliced in, not encoded again."""
    rows = [_RawBatch(o, s, [_Raw(c) for c in cs]) for o, s, cs in batches]
    level = level_of(c for _, _, cs in batches for c in cs)
    if level == FIRST_LEVEL:
        return _encoder.encode(_RawEntry(now_ms, rows))
    return _encoder.encode(_RawEntryOfLevel(now_ms, rows, None, level))


def check_level(level: int) -> None:
    """Raises NewerLog when this version does not know the level of a cluster."""
    if level > newest_level():
        raise NewerLog(level)


def encode_configuration(now_ms: int, members: Sequence[Member]) -> bytes:
    """An entry that changes nothing but who the members are."""
    return _encoder.encode(_Configuration(now_ms, [], tuple(members)))


def members_of(data: bytes) -> tuple[Member, ...] | None:
    """Returns the members of a configuration entry; None for every other entry, and for bytes that are no entry."""
    if not data or data[0] != _THREE_FIELDS:
        return None
    try:
        members: tuple[Member, ...] = _configuration.decode(data).members
    except UNDECODABLE:
        return None
    return members


def time_of(data: bytes) -> int | None:
    """Returns the time of an entry, without looking at the rest of it; None: the bytes are no entry."""
    try:
        now_ms: int = _time.decode(data).now_ms
    except UNDECODABLE:
        return None
    return now_ms


def decode_entry(data: bytes) -> Entry | None:
    """Returns the entry, with an `Unknown` for each command that does not decode; None: the bytes are no entry, and do
    nothing.

    Raises NewerLog when it may hold commands that only a newer version knows."""
    try:
        entry: Entry = _decoder.decode(data)
    except UNDECODABLE:
        return _piecewise(data)
    if entry.level < newest_level() and not any(any_later(batch.commands) for batch in entry.batches):
        return entry
    return entry if entry.level == newest_level() else _piecewise(data)


def _piecewise(data: bytes) -> Entry | None:
    """Each command for itself."""
    try:
        entry: _RawEntryOfLevel = _pieces.decode(data)
    except UNDECODABLE:
        return None
    if entry.level > newest_level():
        raise NewerLog(entry.level)
    batches = [Batch(b.origin, b.seq, [_known(bytes(raw), entry.level) for raw in b.commands]) for b in entry.batches]
    return Entry(entry.now_ms, batches, entry.members, entry.level)


def _known(raw: bytes, level: int) -> Any:
    try:
        command = decode(raw)
    except UNDECODABLE:
        return Unknown()
    return command if level_of((raw,)) <= level else Unknown()
