"""Prune: deletes what retention no longer keeps, by range, a bounded number of rows per command."""

from __future__ import annotations

from itertools import islice

from raftsched.core.apply.keys import prune_keys
from raftsched.core.apply.runs.finish import drop_history, drop_parts, drop_revisions
from raftsched.core.apply.runs.history import drop_instance
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Answer, Prune
from raftsched.core.model import FINAL, Instance, Job, JobState, scheduled_instance
from raftsched.core.rows import JOINS
from raftsched.core.subjects.origins import KEEP_MS, idle_origins
from raftsched.core.subjects.workflow import JOIN_KEEP_MS
from raftsched.core.tables import BY_JOB, PURGE, Table, after, from_by_job, from_u64, u64

_OVER = (JobState.EXPIRED, JobState.DELETED)
ROWS_MAX = 10_000  # of one command
_SPREAD = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: multiples lie far apart


def prune(tx: Tx, c: Prune) -> Answer:
    until = max(0, min(c.until_ms, tx.now))
    limit = max(0, min(c.limit, ROWS_MAX))
    rows: list[bytes] = []
    for key, _ in tx.view.scan(PURGE, b"", u64(until + 1)):
        if len(rows) >= limit:
            break
        rows.append(key)
    left = limit
    for key in rows:
        if left <= 0:
            break
        job = tx.job(from_u64(key[8:16]))
        instance_key = key[16:]
        if instance_key:
            instance = tx.instance(instance_key)
            if instance is not None and instance.telling is not None:
                continue  # jobs that follow it are still to be told of its end: it goes after that
            if instance is not None and instance.state in FINAL:
                left -= drop_parts(tx, instance, left)
                if _has_parts(instance):
                    tx.put_instance(instance)
                    break
                drop_instance(tx, job, instance)
                if job is not None:
                    tx.put_job(job)
            else:
                tx.view.delete(PURGE, key)
            left -= 1
        else:
            left -= _drop_job(tx, job, key, left)
    left -= prune_keys(tx, until, max(0, left))
    left -= _prune_joins(tx, max(0, left))
    for origin in idle_origins(tx.view, tx.now - KEEP_MS, tx.now * _SPREAD % 2**64):
        tx.view.delete(Table.ORIGINS, origin)
    return Accepted(number=limit - left)


def _has_parts(instance: Instance) -> bool:
    return instance.parts is not None and instance.parts.made > 0


def _drop_job(tx: Tx, job: Job | None, key: bytes, limit: int) -> int:
    """Deletes a finished one-shot or a deleted job with its instances, as far as the limit allows. The PURGE row stays
    until all of them are gone. Returns how many rows were deleted."""
    if job is None or job.active or job.state not in _OVER:
        tx.view.delete(PURGE, key)
        return 1
    prefix = u64(job.id)
    listed: list[bytes] = []
    for row, _ in tx.view.scan(BY_JOB, prefix, after(prefix)):
        listed.append(row)
        if len(listed) > limit:
            break
    dropped = 0
    for row in listed:
        instance = tx.instance(from_by_job(row))
        if instance is not None and instance.telling is not None:
            return _later(tx, job, dropped)
        dropped += 0 if instance is None else drop_parts(tx, instance, limit - dropped)
        if dropped >= limit:
            if instance is not None and instance.parts is not None:  # with fewer of them
                tx.put_instance(instance)
            return _later(tx, job, dropped)
        if instance is not None:
            drop_instance(tx, job, instance)
        else:
            tx.view.delete(BY_JOB, row)
        dropped += 1
    own = scheduled_instance(job)
    instance = None if own is None else tx.instance(own)
    if instance is not None:
        if instance.telling is not None:
            return _later(tx, job, dropped)
        dropped += drop_parts(tx, instance, limit - dropped)
        if _has_parts(instance):
            tx.put_instance(instance)
            return _later(tx, job, dropped)
        drop_instance(tx, None, instance)
    drop_revisions(tx, job)
    if job.name is not None and job.state is not JobState.DELETED:
        tx.view.delete(Table.NAMES, job.namespace.encode() + b"\0" + job.name.encode())
    drop_history(tx, job)
    tx.drop_job(job)
    tx.view.delete(PURGE, key)
    return dropped + 1


def _later(tx: Tx, job: Job, dropped: int) -> int:
    """Leaves the rest of a job to the next pruning. Returns how many rows were deleted."""
    tx.put_job(job)
    return dropped


def _prune_joins(tx: Tx, limit: int) -> int:
    """Deletes what jobs have waited for too long. Returns how many rows were deleted."""
    old = [
        key for key, raw in islice(tx.view.scan(Table.JOINS), limit) if JOINS.decode(raw).at_ms <= tx.now - JOIN_KEEP_MS
    ]
    for key in old:
        tx.view.delete(Table.JOINS, key)
    return len(old)
