"""A digest of what changed between two indices of the log: which kinds of things, and the ids where these are few.

It is for pages that show things and read them again when they changed. What it costs is bounded, however much changed:
the first events are looked at one by one, of the next rows only the kinds are, and what is left counts as a change of
everything. Calendars, namespaces, secrets and tokens have no events; each change of theirs is in the audit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from raftsched.api.auth.callers import Caller
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.durations import format_time
from raftsched.core.ids import instance_key, instance_text, job_text, parse_job
from raftsched.core.rows import decode_operation, decode_webhook
from raftsched.core.subjects.access import RINGS, WORK_RING, Role, record_key, split_record
from raftsched.core.subjects.changes import (
    ClusterChange,
    ClusterEvent,
    InstanceChange,
    JobChange,
    change_key,
    decode_row,
    row_body,
    split_change,
)
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView, Table, u64
from raftsched.surface.events import ChangesOut

IDS_MAX = 100  # of jobs, and of runs, in one digest
EVENTS_MAX = 400  # looked at one by one
ROWS_MAX = 150  # rows of events read after these
RECORDS_MAX = 200  # rows of each ring of the audit

# Whom a change may be told: those who see all of these namespaces; EVERYBODY; those who see all namespaces there are.
Of = tuple[str, ...] | None
EVERYBODY: Of = ()
SEES_ALL: Of = None

_BY_EVENTS = ("jobs", "runs", "cluster", "queues", "settings", "operations", "webhooks")
_BY_AUDIT = {
    "calendars": "calendars",
    "namespaces": "namespaces",
    "secrets": "secrets",
    "kept": "secrets",
    "tokens": "tokens",
    "oidc": "tokens",
}  # by the first part of the operation's id
KINDS = tuple(sorted({*_BY_EVENTS, *_BY_AUDIT.values(), "audit"}))
_NEEDED = {"audit": Role.OPERATOR, "tokens": Role.ADMIN}  # to read these; VIEWER for all others

_CLUSTER = {
    ClusterEvent.QUEUE_CHANGED: "queues",
    ClusterEvent.SETTINGS_CHANGED: "settings",
    ClusterEvent.OPERATION_STARTED: "operations",
    ClusterEvent.OPERATION_ENDED: "operations",
    ClusterEvent.WEBHOOK_CHANGED: "webhooks",
}  # all others: "cluster"


class _Head(msgspec.Struct, array_like=True, frozen=True):
    """The first fields of every event: of jobs and instances with their namespace."""

    tag: int
    event: int
    state_or_subject: int | str = 0
    namespace: str = ""


class _Noted(msgspec.Struct, array_like=True):
    """The first fields of a record of the audit."""

    at_ms: int
    actor: int
    name: str
    operation: str
    resource: str
    remote: str
    namespace: str = ""


_heads = msgspec.msgpack.Decoder(list[_Head]).decode
_noted = msgspec.msgpack.Decoder(_Noted).decode
_encode = msgspec.json.Encoder().encode
_JOB_TAG, _CLUSTER_TAG = 1, 3


@dataclass(slots=True)
class Digest:
    """`upto`: the index of the log up to which it tells. Ids are kept with their namespaces: each reader is told of
    theirs."""

    upto: int
    at_ms: int
    leader: str | None
    number: int = 0  # counts those of a feed
    more: bool = False
    jobs: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    kinds: set[tuple[str, Of]] = field(default_factory=set)
    _shown: dict[Any, bytes] = field(default_factory=dict)

    def shown(self, who: Caller) -> bytes:
        """Returns a ChangesOut as JSON; empty when there is nothing for this caller. Callers with the same rights share
        one."""
        rights = (who.role, who.namespaces, frozenset(who.grants.items()))
        found = self._shown.get(rights)
        if found is None:
            found = self._shown[rights] = self._of(who)
        return found

    def _of(self, who: Caller) -> bytes:
        kinds = sorted({kind for kind, of in self.kinds if _may_know(who, _NEEDED.get(kind, Role.VIEWER), of)})
        if not kinds:
            return b""
        sees = who.role_in
        jobs = [] if self.more else [one for one, of in self.jobs.items() if sees(of) is not None]
        runs = [] if self.more else [one for one, of in self.runs.items() if sees(of) is not None]
        return _encode(ChangesOut(str(self.upto), format_time(self.at_ms), self.more, jobs, runs, kinds, self.leader))

    # ------------------------------------------------------------ what is noted

    def note(self, view: ReadView, change: JobChange | InstanceChange | ClusterChange) -> None:
        if isinstance(change, ClusterChange):
            self._note_cluster(view, change)
            return
        self._note_namespace("jobs" if isinstance(change, JobChange) else "runs", change.namespace)
        if isinstance(change, JobChange):
            self.jobs[job_text(change.job_id)] = change.namespace
        else:
            key = instance_key(change.nominal_at_ms, change.job_id, change.request)
            self.runs[instance_text(key)] = change.namespace
        if len(self.jobs) > IDS_MAX or len(self.runs) > IDS_MAX:
            self.more = True

    def note_heads(self, view: ReadView, raw: bytes) -> None:
        """Notes the kinds of a row's events, and no ids."""
        self.more = True
        for head in set(_heads(row_body(raw))):
            if head.tag == _CLUSTER_TAG:
                self._note_cluster(view, ClusterChange(ClusterEvent(head.event), str(head.state_or_subject)))
            else:
                self._note_namespace("jobs" if head.tag == _JOB_TAG else "runs", head.namespace)

    def note_unknown(self) -> None:
        """Notes that anything may have changed."""
        self.more = True
        self.kinds |= {(kind, EVERYBODY) for kind in _BY_EVENTS}

    def note_unknown_audit(self) -> None:
        self.kinds |= {(kind, EVERYBODY) for kind in (*_BY_AUDIT.values(), "audit")}

    def note_record(self, raw: bytes, ring: int) -> None:
        record = _noted(raw)
        of = (record.namespace,) if record.namespace else SEES_ALL
        self.kinds.add(("audit", of))
        kind = _BY_AUDIT.get(record.operation.partition("_")[0]) if ring != WORK_RING else None
        if kind is not None:
            self.kinds.add((kind, EVERYBODY if kind == "calendars" else of))

    def _note_namespace(self, kind: str, namespace: str) -> None:
        self.kinds.add((kind, (namespace,)))
        if namespace == SYSTEM_NAMESPACE:  # a delivery
            self.kinds.add(("webhooks", SEES_ALL))

    def _note_cluster(self, view: ReadView, change: ClusterChange) -> None:
        kind = _CLUSTER.get(change.event, "cluster")
        of = EVERYBODY
        if kind == "operations":
            of = _of_operation(view, change.subject)
        elif kind == "webhooks":
            raw = view.get(Table.WEBHOOKS, change.subject.encode())
            namespace = None if raw is None else decode_webhook(raw).spec.namespace
            of = EVERYBODY if namespace is None else (namespace,)
        self.kinds.add((kind, of))


def _may_know(who: Caller, needed: Role, of: Of) -> bool:
    """Returns whether the caller may be told of something that only those may read who have this role."""
    if of == EVERYBODY:
        return who.highest >= needed
    if of is None:
        return who.within(needed) is None
    return all((who.role_in(namespace) or 0) >= needed for namespace in of)


def _of_operation(view: ReadView, subject: str) -> Of:
    number = parse_job(subject)
    raw = None if number is None else view.get(Table.OPERATIONS, u64(number))
    if raw is None:
        return SEES_ALL
    one = decode_operation(raw)
    if one.filter is not None and one.filter.namespace is not None:
        return (one.filter.namespace,)
    return one.namespaces or SEES_ALL


def read_digest(ctx: ApiContext, since: int) -> Digest:
    """Returns what changed after this index of the log, up to what is applied now."""
    found = Digest(max(since, ctx.applied()), ctx.now_ms(), ctx.cluster_position()[0])
    with ctx.read() as view:
        if meta(view).changes_gone >= change_key(since + 1, 0):  # also where events are turned off
            found.note_unknown()
        else:
            _read_events(view, since, found)
        for ring in range(len(RINGS)):
            _read_audit(view, ring, since, found)
    return found


def _read_events(view: ReadView, since: int, found: Digest) -> None:
    looked = rows = 0
    for key, raw in view.scan(Table.CHANGES, change_key(since + 1, 0)):
        if rows >= ROWS_MAX:
            found.note_unknown()
            return
        if looked < EVENTS_MAX and not found.more:
            _, changes = decode_row(raw)
            looked += len(changes)
            for change in changes:
                found.note(view, change)
        else:
            rows += 1
            found.note_heads(view, raw)
        found.upto = max(found.upto, split_change(key)[0])


def _read_audit(view: ReadView, ring: int, since: int, found: Digest) -> None:
    low, high = record_key(ring, since + 1, 0), bytes((ring + 1,))
    for seen, (key, raw) in enumerate(view.scan(Table.AUDIT, low, high)):
        if seen >= RECORDS_MAX:
            found.note_unknown_audit()
            return
        if split_record(key)[1] <= found.upto:  # what came since is told with its events
            found.note_record(raw, ring)
