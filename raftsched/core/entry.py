"""What one Raft log entry holds: a time and batches of commands, each batch with the number its proposer gave it.

(origin, seq) makes proposing again harmless: apply skips a batch that was applied before. An origin is one incarnation
of one proposing process (a random 64-bit number), seq counts 1, 2, 3... within it.

A configuration entry carries the cluster's members as they are from it on. Consensus obeys it as soon as it is in a
node's log, before it is committed (Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 4.1), so it must be
told from the others without decoding them all: it alone has three fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from raftsched.core.actions import Action
from raftsched.core.cluster import Member
from raftsched.core.commands import Answer, Command


class Batch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    origin: int
    seq: int
    commands: list[Command]


class Entry(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int  # the leader's wall clock when it made the entry
    batches: list[Batch]
    members: tuple[Member, ...] | None = None  # of a configuration entry


class _RawBatch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    origin: int
    seq: int
    commands: list[msgspec.Raw]


class _RawEntry(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int
    batches: list[_RawBatch]


class _Configuration(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int
    batches: list[_RawBatch]
    members: tuple[Member, ...]


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
_Raw = msgspec.Raw
_THREE_FIELDS = 0x93  # how msgpack begins an array of three


def encode_entry(now_ms: int, batches: Sequence[tuple[int, int, Sequence[bytes]]]) -> bytes:
    """`batches`: (origin, seq, encoded commands). The commands' bytes are spliced in, not encoded again."""
    return _encoder.encode(_RawEntry(now_ms, [_RawBatch(o, s, [_Raw(c) for c in cs]) for o, s, cs in batches]))


def encode_configuration(now_ms: int, members: Sequence[Member]) -> bytes:
    """An entry that changes nothing but who the members are."""
    return _encoder.encode(_Configuration(now_ms, [], tuple(members)))


def members_of(data: bytes) -> tuple[Member, ...] | None:
    """Of a configuration entry; None for every other one."""
    if not data or data[0] != _THREE_FIELDS:
        return None
    members: tuple[Member, ...] = _configuration.decode(data).members
    return members


def decode_entry(data: bytes) -> Entry:
    """Raises msgspec.DecodeError on unknown commands: the node must stop rather than diverge."""
    entry: Entry = _decoder.decode(data)
    return entry
