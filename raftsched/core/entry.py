"""What one Raft log entry holds: a time and batches of commands, each batch with the number its proposer gave it.

(origin, seq) makes proposing again harmless: apply skips a batch that was applied before. An origin is one incarnation
of one proposing process (a random 64-bit number), seq counts 1, 2, 3... within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from raftsched.core.commands import Action, Answer, Command


class Batch(msgspec.Struct, array_like=True, frozen=True):
    origin: int
    seq: int
    commands: list[Command]


class Entry(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int  # the leader's wall clock when it made the entry
    batches: list[Batch]


class _RawBatch(msgspec.Struct, array_like=True, frozen=True):
    origin: int
    seq: int
    commands: list[msgspec.Raw]


class _RawEntry(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int
    batches: list[_RawBatch]


class BatchResult(msgspec.Struct):
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
_Raw = msgspec.Raw


def encode_entry(now_ms: int, batches: Sequence[tuple[int, int, Sequence[bytes]]]) -> bytes:
    """`batches`: (origin, seq, encoded commands). The commands' bytes are spliced in, not encoded again."""
    return _encoder.encode(_RawEntry(now_ms, [_RawBatch(o, s, [_Raw(c) for c in cs]) for o, s, cs in batches]))


def decode_entry(data: bytes) -> Entry:
    """Raises msgspec.DecodeError on unknown commands: the node must stop rather than diverge."""
    entry: Entry = _decoder.decode(data)
    return entry
