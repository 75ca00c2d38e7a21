"""The rows of the replicated tables: for each table how its keys and values are made and read. Their one home.

A value is a struct encoded as a msgpack array. Tables that are not here have keys alone, or another key as their value
(`tables` says which), but for CHANGES: its rows have a header of their own (`changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, TypeVarTuple

import msgspec

from raftsched.core.model import Instance, Job, PastRevision
from raftsched.core.rules.run_keys import RunKey
from raftsched.core.subjects.access import Access, Oidc, Record, Token, record_key
from raftsched.core.subjects.backups import BackupNote
from raftsched.core.subjects.calendar import Calendar
from raftsched.core.subjects.cluster import LedTerm, Meta, NodeRule, Origin, Session
from raftsched.core.subjects.keyed import KeyUse
from raftsched.core.subjects.minutes import Minute, OpenMinute, minute_key
from raftsched.core.subjects.namespace import Namespace
from raftsched.core.subjects.operations import Operation
from raftsched.core.subjects.queue import Queue
from raftsched.core.subjects.secret import Secret
from raftsched.core.subjects.webhook import Noted, Secrets, Webhook
from raftsched.core.subjects.workflow import Join, Workflow, join_key
from raftsched.core.subjects.zones import ZoneData
from raftsched.core.tables import ReadView, Table, View, from_u64, name_key, noted_key, revision_key, u64

T = TypeVar("T")
Names = TypeVarTuple("Names")

META_KEY = b"meta"

encode_row: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


class Row(Generic[T, *Names]):
    """The rows of one table. `key` makes a row's key from what names the row, `decode` reads a value."""

    __slots__ = ("decode", "key", "table")

    def __init__(self, table: Table, of: type[T], key: Callable[[*Names], bytes]) -> None:
        self.table = table
        self.key = key
        self.decode: Callable[[bytes], T] = msgspec.msgpack.Decoder(of).decode

    def get(self, view: ReadView, *name: *Names) -> T | None:
        """Returns the row of this name, None when it does not exist."""
        raw = view.get(self.table, self.key(*name))
        return None if raw is None else self.decode(raw)

    def put(self, view: View, row: T, *name: *Names) -> None:
        """Stores the row under this name."""
        view.put(self.table, self.key(*name), encode_row(row))

    def delete(self, view: View, *name: *Names) -> bool:
        """Deletes the row of this name. Returns whether it existed."""
        return view.delete(self.table, self.key(*name))

    def all(self, view: ReadView) -> Iterator[T]:
        """Yields every row, in the order of the keys."""
        return (self.decode(raw) for _, raw in view.scan(self.table))


def text_key(name: str) -> bytes:
    return name.encode()


def own_key(key: bytes) -> bytes:
    return key


META = Row(Table.META, Meta, own_key)
JOBS = Row(Table.JOBS, Job, u64)
REVISIONS = Row(Table.REVISIONS, Job, revision_key)
HISTORY = Row(Table.HISTORY, PastRevision, revision_key)
INSTANCES = Row(Table.INSTANCES, Instance, own_key)
SESSIONS = Row(Table.SESSIONS, Session, u64)
NODE_RULES = Row(Table.NODE_RULES, NodeRule, text_key)
ORIGINS = Row(Table.ORIGINS, Origin, u64)
KEYS = Row(Table.KEYS, KeyUse, own_key)
QUEUES = Row(Table.QUEUES, Queue, text_key)
OPERATIONS = Row(Table.OPERATIONS, Operation, u64)
NAMESPACES = Row(Table.NAMESPACES, Namespace, text_key)
CALENDARS = Row(Table.CALENDARS, Calendar, text_key)
SECRETS = Row(Table.SECRETS, Secret, name_key)
WEBHOOKS = Row(Table.WEBHOOKS, Webhook, text_key)
WEBHOOK_SECRETS = Row(Table.WEBHOOK_SECRETS, Secrets, text_key)
NOTED = Row(Table.NOTED, Noted, noted_key)
TOKENS = Row(Table.TOKENS, Token, own_key)
ACCESS = Row(Table.ACCESS, Access, own_key)
OIDC = Row(Table.ACCESS, Oidc, own_key)
AUDIT = Row(Table.AUDIT, Record, record_key)
OPEN_MINUTE = Row(Table.META, OpenMinute, own_key)
ZONES = Row(Table.META, ZoneData, own_key)
BACKUP = Row(Table.META, BackupNote, own_key)
MINUTES = Row(Table.MINUTES, Minute, minute_key)
TERMS = Row(Table.TERMS, LedTerm, u64)
RUN_KEYS = Row(Table.RUN_KEYS, RunKey, own_key)
WORKFLOWS = Row(Table.WORKFLOWS, Workflow, own_key)
JOINS = Row(Table.JOINS, Join, join_key)

# The same by name, for those who have the bytes already.
decode_job = JOBS.decode
decode_past_revision = HISTORY.decode
decode_instance = INSTANCES.decode
decode_session = SESSIONS.decode
decode_node_rule = NODE_RULES.decode
decode_key_use = KEYS.decode
decode_queue = QUEUES.decode
decode_operation = OPERATIONS.decode
decode_namespace = NAMESPACES.decode
decode_calendar = CALENDARS.decode
decode_secret = SECRETS.decode
decode_webhook = WEBHOOKS.decode
decode_secrets = WEBHOOK_SECRETS.decode
decode_token = TOKENS.decode
decode_record = AUDIT.decode
decode_run_key = RUN_KEYS.decode


def decode_meta(raw: bytes | None) -> Meta:
    return Meta() if raw is None else META.decode(raw)


def decode_access(raw: bytes | None) -> Access:
    return Access() if raw is None else ACCESS.decode(raw)


def decode_oidc(raw: bytes | None) -> Oidc:
    return Oidc(b"", 0) if raw is None else OIDC.decode(raw)


def read_meta(view: ReadView) -> Meta:
    """Returns the counters of the cluster."""
    return decode_meta(view.get(Table.META, META_KEY))


def newest_session(view: ReadView, node: str) -> tuple[int, Session | None]:
    """Returns the number of the node's newest session and its row; 0 and None when the node never had one."""
    raw = view.get(Table.NODES, node.encode())
    return (0, None) if raw is None else (from_u64(raw), SESSIONS.get(view, from_u64(raw)))


def job_of(view: ReadView, instance: Instance) -> Job | None:
    """Returns the job of the instance as it was when the instance was made."""
    return revision_of(view, JOBS.get(view, instance.job_id), instance)


def revision_of(view: ReadView, job: Job | None, instance: Instance) -> Job | None:
    """Returns the job as it was when the instance was made: `job` itself, or an earlier revision of it."""
    if job is not None and job.revision == instance.job_revision:
        return job
    return REVISIONS.get(view, instance.job_id, instance.job_revision)
