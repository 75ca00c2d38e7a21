"""Events: the changes of an entry, gathered while it is applied, written to CHANGES at its end.

An event is made where a row of a job or an instance is stored in another state than it was read in, so that no command
has to think of it. The table is bounded by number and by age; each entry drops at most a bounded number of rows.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from raftsched.core import actions as a
from raftsched.core.ids import job_text
from raftsched.core.model import Instance, Job
from raftsched.core.subjects.changes import (
    PER_ROW,
    POSITION_MAX,
    Change,
    ClusterChange,
    ClusterEvent,
    InstanceChange,
    InstanceEvent,
    JobChange,
    JobEvent,
    change_key,
    encode_row,
    row_head,
    split_change,
)
from raftsched.core.subjects.cluster import Meta
from raftsched.core.tables import Table, View, u64

_JOB_CREATED, _JOB_STATE = JobEvent.CREATED, JobEvent.STATE
DROP_MAX = 64  # rows dropped by one entry, beside as many as it adds


class _Head(msgspec.Struct, array_like=True):
    """The first fields of Job: cheaper than all of it."""

    id: int
    namespace: str


_head: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_Head)


class Events:
    """The events of the entry that is applied."""

    def __init__(self, view: View, meta: Meta) -> None:
        self._view = view
        self._meta = meta
        self.changes: list[Change] = []
        self.namespaces: dict[int, str] = {}  # of the jobs read in this entry, by id

    # ------------------------------------------------------------ what was stored

    def job_stored(self, job: Job) -> None:
        """Adds an event: the job is stored in another state than `job.counted`."""
        event = _JOB_STATE if job.counted else _JOB_CREATED
        self.changes.append(JobChange(event, job.state, job.namespace, job.id, job.revision))

    def job_edited(self, job: Job) -> None:
        self.changes.append(JobChange(JobEvent.EDITED, job.state, job.namespace, job.id, job.revision))

    def job_moved(self, job: Job) -> None:
        self.changes.append(JobChange(JobEvent.MOVED, job.state, job.namespace, job.id, job.revision))

    def instance(self, instance: Instance, event: InstanceEvent) -> None:
        """Adds an event; none of a part, for which its parent stands."""
        if instance.parent is not None:
            return
        job_id, attempt, node = instance.job_id, 0, ""
        if instance.attempts:
            newest = instance.attempts[-1]
            attempt, node = newest.number, newest.node
        self.changes.append(
            InstanceChange(
                event,
                instance.state,
                self.namespaces.get(job_id) or self._namespace(job_id),
                instance.nominal_at_ms,
                job_id,
                instance.request,
                attempt,
                node,
                instance.reason,
                instance.dead_letter,
            )
        )

    def operation_ended(self, operation: int) -> None:
        self.changes.append(ClusterChange(ClusterEvent.OPERATION_ENDED, job_text(operation)))

    def cluster(self, change: ClusterChange) -> None:
        self.changes.append(change)

    def _namespace(self, job_id: int) -> str:
        raw = self._view.get(Table.JOBS, u64(job_id))
        namespace = "" if raw is None else _head.decode(raw).namespace
        self.namespaces[job_id] = namespace
        return namespace

    # ------------------------------------------------------------ the end of the entry

    def close(self, index: int, actions: list[a.Action]) -> None:
        """Writes the events, and drops those that need not be kept any longer."""
        changes, self.changes = self.changes, []
        self.namespaces.clear()
        for action in actions:
            about = _ABOUT.get(type(action))
            if about is not None:
                changes.append(about(action))
        if not changes:
            return
        meta = self._meta
        if not meta.settings.events_max:
            meta.changes_gone = change_key(index, POSITION_MAX)
            self._drop(DROP_MAX)
            return
        for first in range(0, len(changes), PER_ROW):
            row = encode_row(meta.now_ms, changes[first : first + PER_ROW])
            self._view.put(Table.CHANGES, change_key(index, first), row)
        meta.changes += len(changes)
        self._drop(DROP_MAX + len(changes) // PER_ROW)

    def _drop(self, rows: int) -> None:
        meta = self._meta
        surplus = meta.changes - meta.settings.events_max
        since_ms = meta.now_ms - meta.settings.events_keep_ms
        first = self._view.first(Table.CHANGES)
        if first is None or (surplus <= 0 and row_head(first[1])[0] >= since_ms):
            return  # nearly always
        gone: list[tuple[bytes, int]] = []
        for key, raw in islice(self._view.scan(Table.CHANGES), rows):
            at_ms, count = row_head(raw)
            if surplus <= 0 and at_ms >= since_ms:
                break
            gone.append((key, count))
            surplus -= count
        for key, count in gone:
            self._view.delete(Table.CHANGES, key)
            meta.changes -= count
            index, position = split_change(key)
            meta.changes_gone = max(meta.changes_gone, change_key(index, position + count - 1))


def _session(action: a.SessionChanged) -> Change:
    return ClusterChange(ClusterEvent.SESSION_OPENED if action.open else ClusterEvent.SESSION_ENDED, action.node)


def _paused(action: a.ClusterPaused) -> Change:
    return ClusterChange(ClusterEvent.CLUSTER_PAUSED if action.paused else ClusterEvent.CLUSTER_RESUMED)


_ABOUT: dict[type, Any] = {
    a.LeadershipOpened: lambda action: ClusterChange(ClusterEvent.LEADER_CHANGED, action.leader),
    a.MembersChanged: lambda action: ClusterChange(ClusterEvent.MEMBERS_CHANGED),
    a.SessionChanged: _session,
    a.NodeRuleChanged: lambda action: ClusterChange(ClusterEvent.NODE_CHANGED, action.node),
    a.QueueChanged: lambda action: ClusterChange(ClusterEvent.QUEUE_CHANGED, action.name),
    a.SettingsChanged: lambda action: ClusterChange(ClusterEvent.SETTINGS_CHANGED),
    a.ClusterPaused: _paused,
    a.OperationStarted: lambda action: ClusterChange(ClusterEvent.OPERATION_STARTED, job_text(action.operation)),
}
