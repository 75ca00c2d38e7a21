"""The replicated tables: their numbers, their keys, and the view through which apply reads and writes them.

A table is an ordered map from bytes to bytes. Numbers are never reused. Keys are at most 511 bytes (LMDB's limit).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Protocol

KEY_MAX = 511
# Rows of DUE_LATER are of days of this length, counted from 1970. Tests alone shorten it: it is part of the rows.
FAR_DAY_MS = 86_400_000
LANE_FREE = 0  # of queues without limits
LANE_NOBODY = 2**32 - 1  # what no node there is could take, busy or not: out of the way of the others


class Table(IntEnum):
    META = (
        1  # b"meta" -> Meta, b"minute" -> OpenMinute (subjects.minutes), b"zones" -> ZoneData, b"backup" -> BackupNote
    )
    JOBS = 2  # job id (8) -> Job
    NAMES = 3  # namespace \0 name -> job id (8)
    DUE = 4  # fire_at_ms (8) job id (8) -> b""
    UNSCHEDULED = 5  # job id (8) -> since when (8): a calendar trigger whose next time the leader owes
    INSTANCES = 6  # instance key (24) -> Instance
    BY_JOB = 7  # job id (8) nominal_at_ms (8) request (8) -> state (1): recurring and manual instances
    READY = 8  # lane (4) score_ms (8) instance key (24) -> b"": waits for a worker
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
    DEAD = 19  # ended_at_ms (8) instance key (24) -> b"": dead letters
    QUEUES = 20  # name -> Queue: those with limits
    NODE_RULES = 21  # node id -> NodeRule
    AWAITED = 22  # namespace \0 name \0 instance key (24) -> b"": waits for a success of that job
    OPERATIONS = 24  # operation (8) -> Operation
    OPERATIONS_RUNNING = 25  # operation (8) -> b"": those that are to go on
    TAGS = 26  # tag (8) job id (8) -> b"": namespace, owner, labels, calendar and rare states of jobs (rules.selection)
    HISTORY = 27  # job id (8) revision (8) -> PastRevision: contents that a job had before
    NAMESPACES = 28  # name -> Namespace: those that are declared, or hold something (core.subjects.namespace)
    SECRETS = 29  # namespace \0 name -> Secret (core.subjects.secret)
    CALENDARS = 40  # name -> Calendar
    MINUTES = 41  # at_ms (8) namespace -> Minute: what runs came to; without a namespace: all of them
    TERMS = 42  # term (8) -> LedTerm: the newest leaderships
    CHANGES = 30  # index (8) position (4) -> events of one entry (core.subjects.changes)
    TOKENS = 35  # sha256 of the secret (32) -> Token
    TOKEN_IDS = 36  # token (8) -> the same hash (32)
    AUDIT = 37  # ring (1) index (8) position (4) -> Record (core.subjects.access)
    ACCESS = 38  # b"access" -> Access, b"oidc" -> Oidc (core.subjects.access)
    RESUMES = 43  # at_ms (8) job id (8) -> b"": jobs that were paused until then
    WEBHOOKS = 31  # name -> Webhook
    WEBHOOK_SECRETS = 32  # name of a webhook -> Secrets
    RUN_KEYS = 50  # namespace \0 key -> RunKey (core.rules.run_keys): keys of runs that are in use
    KEY_LINES = 51  # namespace \0 key \0 score_ms (8) instance key (24) -> b"": waits for a permit of its key
    KEY_TIMERS = 52  # at_ms (8) namespace \0 key -> b"": when the line of a key is looked at again
    WATCHES = 56  # at_ms (8) job id (8) or instance key (24) -> b"": when webhooks are to be told that it is late
    NOTED = (
        57  # event (1) node id -> Noted (core.subjects.webhook): events of the cluster, so that they are told seldom
    )
    DUE_LATER = 58  # day (4) job id (8) -> fire_at_ms (8): in the place of a row of DUE, from Meta.due_boundary on
    WORKFLOWS = 45  # instance key of the root (24) -> Workflow; with the key of an instance of it (24) -> state (1)
    JOINS = (
        46  # scope (24) job id (8) -> Join: which of the runs have ended that a job waits for (core.subjects.workflow)
    )


# By themselves, for the way of every create and every run: Python 3.11 takes 70 ns to look a member up in its class.
JOBS, NAMES, DUE, INSTANCES, ASSIGNED = Table.JOBS, Table.NAMES, Table.DUE, Table.INSTANCES, Table.ASSIGNED
READY, TIMERS, PURGE, BY_JOB, DUE_LATER = Table.READY, Table.TIMERS, Table.PURGE, Table.BY_JOB, Table.DUE_LATER


class ReadView(Protocol):
    """Ordered tables as of one moment."""

    def get(self, table: Table, key: bytes) -> bytes | None: ...

    def scan(
        self, table: Table, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with low <= key < high in key order (or reverse). The table must not be written while iterating."""

    def count(self, table: Table) -> int:
        """Returns how many rows the table has, without looking at them."""


class View(ReadView, Protocol):
    """The tables as apply gets them: reads see its own writes."""

    def put(self, table: Table, key: bytes, value: bytes) -> None: ...

    def getter(self, table: Table) -> Callable[[bytes], bytes | None]:
        """Returns `get` for one table: for tables of which many rows are read."""

    def putter(self, table: Table) -> Callable[[bytes, bytes], object]:
        """Returns `put` for one table."""

    def first(self, table: Table, low: bytes = b"", high: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Returns the first row that `scan` would yield; None: there is none."""

    def delete(self, table: Table, key: bytes) -> bool:
        """Deletes the row of a key, and returns whether there was one."""


_U64 = struct.Struct(">Q")
_2U64 = struct.Struct(">QQ")
_3U64 = struct.Struct(">QQQ")
_U32 = struct.Struct(">L")
_U32_U64 = struct.Struct(">LQ")

u64: Callable[[int], bytes] = _U64.pack
due_key: Callable[[int, int], bytes] = _2U64.pack  # fire_at_ms, job id
assigned_key: Callable[[int, int], bytes] = _2U64.pack  # session, token


_DAY_MAX = 2**32 - 1  # beyond what a trigger can ask for


def due_day(at_ms: int) -> int:
    """Returns the day of DUE_LATER that a time belongs to."""
    return min(at_ms // FAR_DAY_MS, _DAY_MAX)


def day_key(day: int) -> bytes:
    """Returns the prefix of the DUE_LATER keys of a day; days follow one another."""
    return _U32.pack(max(0, min(day, _DAY_MAX)))


def day_begins(key: bytes, later: int = 0) -> int:
    """Returns when the day of a DUE_LATER key begins, or a later day by as many."""
    return (from_lane(key) + later) * FAR_DAY_MS


def due_later_key(fire_at_ms: int, job_id: int) -> bytes:
    """Returns the key in DUE_LATER: rows of a day are in the order of the jobs' creation."""
    return _U32_U64.pack(due_day(fire_at_ms), job_id)


def from_u64(raw: bytes) -> int:
    value: int = _U64.unpack(raw)[0]
    return value


def name_key(namespace: str, name: str) -> bytes:
    return namespace.encode() + b"\0" + name.encode()


def ready_key(lane: int, score_ms: int, instance: bytes) -> bytes:
    return _U32_U64.pack(lane, score_ms) + instance


def from_ready(key: bytes) -> bytes:
    """The instance key of a READY key."""
    return key[12:]


def lane_key(lane: int) -> bytes:
    """Returns the prefix of the READY keys of a lane; lanes follow one another in order of their numbers."""
    return _U32.pack(lane)


def from_lane(key: bytes) -> int:
    """The lane of a READY key."""
    lane: int = _U32.unpack_from(key)[0]
    return lane


def by_job_key(instance: bytes) -> bytes:
    return instance[8:16] + instance[:8] + instance[16:]


def from_by_job(key: bytes) -> bytes:
    """The instance key of a BY_JOB key."""
    return key[8:16] + key[:8] + key[16:]


def timer_key(at_ms: int, instance: bytes) -> bytes:
    return _U64.pack(at_ms) + instance


def watch_key(at_ms: int, about: bytes) -> bytes:
    """`about`: a job's id, the key of an instance, or "\xff" and a key of NOTED, which no id begins with."""
    return _U64.pack(at_ms) + about


def noted_key(event: int, node: str) -> bytes:
    return bytes((event,)) + node.encode()


def held_key(job_id: int, ready_at_ms: int, instance: bytes) -> bytes:
    return _2U64.pack(job_id, ready_at_ms) + instance


def dead_key(at_ms: int, instance: bytes) -> bytes:
    return _U64.pack(at_ms) + instance


def from_dead(key: bytes) -> bytes:
    """The instance key of a DEAD key."""
    return key[8:]


def awaited_key(name: bytes, instance: bytes) -> bytes:
    """`name` is the key of the job in NAMES."""
    return name + b"\0" + instance


def from_awaited(key: bytes) -> bytes:
    """The instance key of an AWAITED key."""
    return key[-24:]


def resume_key(at_ms: int, job_id: int) -> bytes:
    return _2U64.pack(at_ms, job_id)


def revision_key(job_id: int, revision: int) -> bytes:
    return _2U64.pack(job_id, revision)


job_purge_key: Callable[[int, int], bytes] = _2U64.pack  # of a job: purge_at_ms, job id
by_job_row: Callable[[int, int, int], bytes] = _3U64.pack  # by_job_key() for those who know job id, time and request


def purge_key(at_ms: int, job_id: int, instance: bytes = b"") -> bytes:
    return _2U64.pack(at_ms, job_id) + instance


def after(prefix: bytes) -> bytes | None:
    """The smallest key above every key with this prefix; None when there is none."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes((stripped[-1] + 1,))
