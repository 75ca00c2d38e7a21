"""What the worker reads of the tables."""

from __future__ import annotations

import msgspec

from raftsched.core.cluster import Session
from raftsched.core.model import Instance, Job
from raftsched.core.tables import ReadView, Table, from_u64, u64

_decode_job = msgspec.msgpack.Decoder(Job).decode
_decode_session = msgspec.msgpack.Decoder(Session).decode
decode_instance = msgspec.msgpack.Decoder(Instance).decode


def newest_session(view: ReadView, node: str) -> tuple[int, Session | None]:
    """Its number, 0 when the node never had one."""
    raw = view.get(Table.NODES, node.encode())
    if raw is None:
        return 0, None
    row = view.get(Table.SESSIONS, raw)
    return from_u64(raw), _decode_session(row) if row is not None else None


def job_of(view: ReadView, instance: Instance) -> Job | None:
    """The revision that the instance was made from."""
    raw = view.get(Table.JOBS, u64(instance.job_id))
    job = _decode_job(raw) if raw is not None else None
    if job is not None and job.revision == instance.job_revision:
        return job
    kept = view.get(Table.REVISIONS, u64(instance.job_id) + u64(instance.job_revision))
    return _decode_job(kept) if kept is not None else None
