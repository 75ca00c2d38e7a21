"""Keeps the history of a job: its instances in their final state. How many are counted, how long they are kept, which
go."""

from __future__ import annotations

from itertools import islice

from raftsched.core.apply.indexes import listed_by_job
from raftsched.core.apply.tx import Tx
from raftsched.core.ids import BACKFILL
from raftsched.core.levels import SKIPS_ARE_JOINED
from raftsched.core.model import ASKED_FOR, Instance, InstanceState, Job
from raftsched.core.tables import BY_JOB, INSTANCES, PURGE, after, by_job_key, from_by_job, purge_key, u64

_SUCCEEDED = InstanceState.SUCCEEDED
GOOD = (InstanceState.SUCCEEDED,)
BAD = (InstanceState.FAILED, InstanceState.TIMED_OUT)
OTHER = (InstanceState.KILLED, InstanceState.SKIPPED)
LOOK_MAX = 5_000  # rows that one end looks at for the oldest of them
DROP_MAX = 8  # instances that one end drops at most
_BACKFILLED = u64(BACKFILL)


def count(job: Job, instance: Instance, change: int) -> None:
    """Counts one instance more or less that is kept in its final state. Backfilled ones are not counted and go by age:
    they are old already when they end, and would be the first that retention drops, or push out all the others."""
    state = instance.state
    if instance.request == BACKFILL:
        return
    if state is _SUCCEEDED:
        job.succeeded += change
    elif state in BAD:
        job.failed += change
    else:
        job.others += change


def keep(tx: Tx, job: Job, instance: Instance) -> None:
    """Applies retention after an instance became final: by age through PURGE, by count here. The caller stores job and
    instance."""
    if listed_by_job(job, instance):
        keep_for_age(tx, job, instance)
        keep_newest(tx, job, instance)


def keep_for_age(tx: Tx, job: Job, instance: Instance) -> None:
    """Applies retention by age. The caller stores the instance, which BY_JOB lists."""
    tx.view.put(BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
    instance.purge_at_ms = keep_until(tx, job, instance)


def keep_newest(tx: Tx, job: Job, instance: Instance) -> None:
    """Applies retention by count. The caller stores job and instance, which has become final."""
    retention = job.policy.retention
    if job.succeeded > retention.succeeded:
        _drop_oldest(tx, job, GOOD, instance, job.succeeded - retention.succeeded)
    if job.failed > retention.failed:
        _drop_oldest(tx, job, BAD, instance, job.failed - retention.failed)
    if job.others > retention.failed:
        _drop_oldest(tx, job, OTHER, instance, job.others - retention.failed)


def keep_until(tx: Tx, job: Job, instance: Instance) -> int:
    """Returns when a final instance has been kept long enough. A dead letter has a time of its own: somebody is to look
    at it."""
    age_ms = job.policy.retention.max_age_ms
    if instance.dead_letter:
        age_ms = max(age_ms, tx.meta.settings.dead_letter_keep_ms)
    return (tx.now if instance.ended_at_ms is None else instance.ended_at_ms) + age_ms


def _drop_oldest(tx: Tx, job: Job, states: tuple[InstanceState, ...], current: Instance, surplus: int) -> None:
    """Drops a few of the oldest instances: a lowered retention is reached over the next ends. Only the oldest rows are
    searched; where the history of another outcome is longer than that, age has to do."""
    if surplus == 1 and drop_first(tx, job, states):
        return
    own = current.key
    for old in _oldest(tx, job, states, min(surplus, DROP_MAX)):
        if old == own:
            current.purge_at_ms = tx.now  # the caller stores it; the next pruning takes it
            continue
        row = tx.instance(old)
        if row is not None and (row.telling is not None or (row.parts is not None and row.parts.made)):
            row.purge_at_ms = tx.now  # its parts, or the jobs that follow it, may be many: the next pruning takes it
            tx.put_instance(row)
        elif row is not None:
            drop_instance(tx, job, row)


def drop_first(tx: Tx, job: Job, states: tuple[InstanceState, ...]) -> bool:
    """Drops the instance that is listed first of the job in one go, as `drop_instance` does. Returns whether it did:
    nearly always it is the one to go, and has no index rows but that of its age."""
    prefix = u64(job.id)
    listed = tx.view.first(BY_JOB, prefix)
    if listed is None or listed[1][0] not in states:
        return False
    place = listed[0]
    if place[:8] != prefix or place[16:] == _BACKFILLED:
        return False
    key = from_by_job(place)
    old = tx.stored_instance(key)
    if old is None or key == job.gap:
        return False
    purge_at_ms = old.purge_at_ms
    if purge_at_ms is None or old.telling is not None or old.parts is not None or old.root is not None:
        return False
    if old.wake_at_ms is not None or old.dead_at_ms is not None or old.watch_at_ms is not None:
        return False
    tx.view.delete(BY_JOB, place)
    tx.view.delete(PURGE, purge_key(purge_at_ms, job.id, key))
    tx.view.delete(INSTANCES, key)
    count(job, old, -1)
    _note_dropped(tx, job, old)
    return True


def _oldest(tx: Tx, job: Job, states: tuple[InstanceState, ...], limit: int) -> list[bytes]:
    """Returns the keys of the oldest instances in these states, as far as they are looked for."""
    prefix = u64(job.id)
    found: list[bytes] = []
    for key, state in islice(tx.view.scan(BY_JOB, prefix, after(prefix)), LOOK_MAX):
        if state[0] in states and key[16:] != _BACKFILLED:
            found.append(from_by_job(key))
            if len(found) >= limit:
                break
    return found


def drop_instance(tx: Tx, job: Job | None, instance: Instance) -> None:
    """Forgets a final instance, whose parts are gone. No SKIPPED record is to reach beyond the time of such a one: it
    may have run."""
    remove(tx, job, instance)
    if job is not None:
        _note_dropped(tx, job, instance)


def _note_dropped(tx: Tx, job: Job, instance: Instance) -> None:
    if tx.meta.level >= SKIPS_ARE_JOINED and instance.steps[0].detail not in ASKED_FOR:
        last_ms = instance.gap_until_ms or instance.nominal_at_ms
        job.dropped_ms = max(job.dropped_ms, last_ms)


def remove(tx: Tx, job: Job | None, instance: Instance) -> None:
    """Deletes a final instance and its index rows."""
    key = instance.key
    tx.view.delete(BY_JOB, by_job_key(key))
    tx.drop_instance(instance)
    if job is not None:
        if job.gap == key:
            job.gap = None
        count(job, instance, -1)
