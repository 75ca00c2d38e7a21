"""The audit: callers and what they asked for, gathered while an entry is applied, written to AUDIT at its end.

There are rings in the table, each bounded by number and by age, so that what many may do pushes out nothing that few
may: work that was handed in (jobs created, runs asked for), a thousand times as much as all else; what editors change
of jobs, and of secrets; all that operators and admins change. Equal records of one entry are one row with a count, so
that a burst of creates costs a row per entry and not one per job. What changed nothing is not noted: a loop that puts
what is there already would push out all else.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from raftsched.core.commands import (
    Accepted,
    Backfill,
    CancelOperation,
    Command,
    CreateJob,
    CreateJobs,
    CreateToken,
    CreateWorkerToken,
    DeleteJob,
    Discard,
    EditJob,
    Kill,
    KillWorkflow,
    PutSettings,
    Requeue,
    Rerun,
    RunNow,
    SeedTokens,
    SetJobState,
    SkipNext,
    StartOperation,
    StoredResponse,
)
from raftsched.core.ids import instance_text, job_text
from raftsched.core.levels import AUDIT_BY_SUBJECT
from raftsched.core.rows import decode_access, decode_record, encode_row
from raftsched.core.subjects.access import (
    ACCESS_KEY,
    CHANGE_MAX,
    CHANGES_RING,
    JOBS_RING,
    RINGS,
    SECRETS_RING,
    TEXT_MAX,
    WORK_RING,
    Access,
    Attributed,
    Record,
    link,
    record_key,
)
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.secret import DeleteSecret, PutSecret
from raftsched.core.tables import Table, View

DROP_MAX = 8  # rows of a ring dropped by one entry, beside as many as it adds

_OF_JOBS = (
    CreateJob,
    CreateJobs,
    EditJob,
    SetJobState,
    DeleteJob,
    SkipNext,
    RunNow,
    Backfill,
    Kill,
    KillWorkflow,
    Rerun,
    Requeue,
    Discard,
    StartOperation,
    CancelOperation,
)
# The rings of commands that editors may propose; all others are operators' and admins'.
RING_OF: dict[type[Command], int] = {
    **dict.fromkeys(_OF_JOBS, JOBS_RING),
    **dict.fromkeys((PutSecret, DeleteSecret), SECRETS_RING),
}


class _Time(msgspec.Struct, array_like=True):
    """The first field of a Record."""

    at_ms: int


_json = msgspec.json.Encoder(order="deterministic").encode
_time: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_Time)


class Audit:
    """The audit of the entry that is applied. The row of ACCESS is read at most once in a write batch, and written by
    `save`."""

    def __init__(self, view: View, meta: Meta) -> None:
        self._view = view
        self._meta = meta
        self._notes: tuple[list[Record], ...] = tuple([] for _ in RINGS)
        self._access: Access | None = None
        self._raw: bytes | None = None

    @property
    def access(self) -> Access:
        """The row of ACCESS. Changes to it are saved."""
        if self._access is None:
            self._raw = self._view.get(Table.ACCESS, ACCESS_KEY)
            self._access = decode_access(self._raw)
        return self._access

    def save(self) -> None:
        if self._access is None:
            return
        raw = encode_row(self._access)
        if raw != self._raw and (self._raw is not None or self._access != Access()):
            self._view.put(Table.ACCESS, ACCESS_KEY, raw)
        self._access = None

    def done(self, by: Attributed, command: Command, answer: Accepted) -> None:
        """Records a command that was done. A job that existed already was not made, and is not recorded."""
        if not by.operation or isinstance(command, (StoredResponse, SeedTokens)):
            return
        if isinstance(command, CreateJob) and not command.replace and not answer.created:
            return
        count = 1
        if isinstance(command, CreateJobs):
            count = answer.number or 0
            if not count:
                return
        by_subject = self._meta.level >= AUDIT_BY_SUBJECT
        if by_subject and answer.unchanged:
            return
        job = answer.job
        subject = ""
        if job is not None:
            subject = job_text(job.id)
        elif answer.instance is not None:
            subject = instance_text(answer.instance)
        elif answer.operation is not None:
            subject = job_text(answer.operation.id)
        elif isinstance(command, (CreateToken, CreateWorkerToken)) and answer.number is not None:
            subject = job_text(answer.number)
        change = by.change[:CHANGE_MAX] if not isinstance(command, PutSettings) else _changed(command)
        note = Record(
            self._meta.now_ms,
            by.actor,
            by.name[:TEXT_MAX],
            by.operation[:TEXT_MAX],
            by.resource[:TEXT_MAX],
            by.remote[:TEXT_MAX],
            (by.namespace if job is None else job.namespace)[:TEXT_MAX],
            subject,
            ("" if job is None else job.name or "")[:TEXT_MAX],
            count,
            change,
        )
        ring = self._notes[_ring_of(by, command) if by_subject else WORK_RING if by.work else CHANGES_RING]
        for place, other in enumerate(ring):
            if _alike(note, other):
                ring[place] = msgspec.structs.replace(other, count=other.count + count)
                return
        ring.append(note)

    def close(self, index: int) -> None:
        """Writes the records, and drops those that need not be kept any longer."""
        position = 0
        for ring, notes in enumerate(self._notes):
            if not notes:
                continue
            self.access.use(ring)
            heads = self.access.heads
            for note in notes:
                head = heads[ring] = link(heads[ring], ring, index, position, note)
                row = msgspec.structs.replace(note, hash=head)
                self._view.put(Table.AUDIT, record_key(ring, index, position), encode_row(row))
                position += 1
            self.access.notes[ring] += len(notes)
            self._drop(ring, len(notes) + DROP_MAX, index)
            notes.clear()

    def _drop(self, ring: int, rows: int, index: int) -> None:
        """Drops old records of a ring. Those of this entry stay: otherwise lowering the bounds would leave no trace."""
        settings = self._meta.settings
        counts = self.access.notes
        since_ms = self._meta.now_ms - settings.audit_keep_ms
        gone: list[bytes] = []
        for key, raw in islice(self._view.scan(Table.AUDIT, bytes((ring,)), record_key(ring, index, 0)), rows):
            if counts[ring] - len(gone) <= settings.audit_max and _time.decode(raw).at_ms >= since_ms:
                break
            gone.append(key)
            base = raw
        if gone:
            self.access.bases[ring] = decode_record(base).hash
        for key in gone:
            self._view.delete(Table.AUDIT, key)
        counts[ring] -= len(gone)


def _ring_of(by: Attributed, command: Command) -> int:
    return WORK_RING if by.work else RING_OF.get(type(command), CHANGES_RING)


def _alike(one: Record, other: Record) -> bool:
    return (
        one.operation == other.operation
        and one.actor == other.actor
        and one.resource == other.resource
        and one.namespace == other.namespace
        and one.name == other.name
        and one.remote == other.remote
        and one.change == other.change
    )


def _changed(command: PutSettings) -> bytes:
    """Returns the settings that a command changes, with their old and new values, as JSON in the units in which they
    are stored."""
    now, was = command.settings, command.was
    found: dict[str, dict[str, Any]] = {}
    for name in now.__struct_fields__:
        value = getattr(now, name)
        if was is None:
            found[name] = {"to": value}
        elif getattr(was, name) != value:
            found[name] = {"from": getattr(was, name), "to": value}
    raw = _json(found)
    return raw if len(raw) <= CHANGE_MAX else _json(sorted(found))[:CHANGE_MAX]
