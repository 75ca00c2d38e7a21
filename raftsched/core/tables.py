"""The replicated tables: their numbers, their keys, and the view through which apply reads and writes them.

A table is an ordered map from bytes to bytes. Numbers are never reused. Keys are at most 511 bytes (LMDB's limit).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Protocol

KEY_MAX = 511


class Table(IntEnum):
    META = 1  # b"meta" -> Meta
    JOBS = 2  # job id (8) -> Job
    NAMES = 3  # namespace \0 name -> job id (8)
    DUE = 4  # fire_at_ms (8) job id (8) -> b""
    UNSCHEDULED = 5  # job id (8) -> b"": a calendar trigger whose next time the leader owes
    INSTANCES = 6  # instance key (24) -> Instance
    BY_JOB = 7  # job id (8) nominal_at_ms (8) request (8) -> state (1): recurring and manual instances
    READY = 8  # 9 - priority (1) ready_at_ms (8) instance key (24) -> b"": waits for a worker
    ASSIGNED = 9  # session (8) token (8) -> instance key: live attempts
    TIMERS = 10  # at_ms (8) instance key (24) -> b"": retry due, start deadline
    PURGE = 11  # at_ms (8) job id (8) [instance key (24)] -> b"": retention
    SESSIONS = 12  # session (8) -> Session
    NODES = 13  # node id -> session (8): the newest session of a node
    ORIGINS = 14  # proposer (8) -> Origin: proposals already applied
    REVISIONS = 15  # job id (8) revision (8) -> Job: older revisions that live instances still run
    HELD = 16  # job id (8) ready_at_ms (8) instance key (24) -> b"": waits for a run of its own job to end
    KEYS = 17  # sha256 of the kind of request and its Idempotency-Key (32) -> KeyUse
    KEY_TIMES = 18  # at_ms (8) the same hash (32) -> b"": the order in which they are forgotten


class ReadView(Protocol):
    """Ordered tables as of one moment."""

    def get(self, table: Table, key: bytes) -> bytes | None: ...

    def scan(
        self, table: Table, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with low <= key < high in key order (or reverse). The table must not be written while iterating."""


class View(ReadView, Protocol):
    """What apply gets: reads see its own writes."""

    def put(self, table: Table, key: bytes, value: bytes) -> None: ...

    def delete(self, table: Table, key: bytes) -> bool:
        """True when the row existed."""


_U64 = struct.Struct(">Q")
_2U64 = struct.Struct(">QQ")


def u64(value: int) -> bytes:
    return _U64.pack(value)


def from_u64(raw: bytes) -> int:
    value: int = _U64.unpack(raw)[0]
    return value


def due_key(fire_at_ms: int, job_id: int) -> bytes:
    return _2U64.pack(fire_at_ms, job_id)


def name_key(namespace: str, name: str) -> bytes:
    return namespace.encode() + b"\0" + name.encode()


def ready_key(priority: int, ready_at_ms: int, instance: bytes) -> bytes:
    return bytes((9 - priority,)) + _U64.pack(ready_at_ms) + instance


def by_job_key(instance: bytes) -> bytes:
    return instance[8:16] + instance[:8] + instance[16:]


def from_by_job(key: bytes) -> bytes:
    """The instance key of a BY_JOB key."""
    return key[8:16] + key[:8] + key[16:]


def timer_key(at_ms: int, instance: bytes) -> bytes:
    return _U64.pack(at_ms) + instance


def held_key(job_id: int, ready_at_ms: int, instance: bytes) -> bytes:
    return _2U64.pack(job_id, ready_at_ms) + instance


def assigned_key(session: int, token: int) -> bytes:
    return _2U64.pack(session, token)


def purge_key(at_ms: int, job_id: int, instance: bytes = b"") -> bytes:
    return _2U64.pack(at_ms, job_id) + instance


def after(prefix: bytes) -> bytes | None:
    """The smallest key above every key with this prefix; None when there is none."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes((stripped[-1] + 1,))
