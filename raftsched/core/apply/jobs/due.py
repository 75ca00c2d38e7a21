"""Sets when a job is due next, or notes that only the leader can compute it."""

from __future__ import annotations

from raftsched.core.actions import JobUnscheduled
from raftsched.core.apply.indexes import reindex_job
from raftsched.core.apply.tx import Tx
from raftsched.core.model import Job
from raftsched.core.rules.intervals import jitter_ms
from raftsched.core.tables import Table, u64


def set_due(job: Job, nominal_at_ms: int | None, gap_ms: int | None = None) -> None:
    """Sets the next nominal time of the job and the time at which it fires. None: it has no next time. `gap_ms`: from
    there to the time after it, as far as it is known."""
    job.nominal_at_ms = job.fire_at_ms = nominal_at_ms
    job.never_fires = False
    if nominal_at_ms is not None:
        trigger = job.policy.trigger
        if trigger.jitter_ms:
            job.fire_at_ms = nominal_at_ms + jitter_ms(trigger, job.id, nominal_at_ms, gap_ms)


def take_due(tx: Tx, job: Job) -> None:
    """Takes the job out of DUE before it is stored: its next time is one for the leader also when it is the same."""
    set_due(job, None)
    reindex_job(tx, job)


def is_unscheduled(tx: Tx, job: Job) -> bool:
    """Returns whether the job waits for the leader to compute its next time."""
    return tx.view.get(Table.UNSCHEDULED, u64(job.id)) is not None


def mark_unscheduled(tx: Tx, job: Job, since_ms: int | None = None) -> None:
    """Asks the leader for the next time of a job with a calendar trigger. It counts from now, or from `since_ms`, and
    not from when a leader computes it: what is due in between is not missed."""
    if not is_unscheduled(tx, job):
        tx.view.put(Table.UNSCHEDULED, u64(job.id), u64(tx.now if since_ms is None else since_ms))
    tx.actions.append(JobUnscheduled(job.id))


def clear_unscheduled(tx: Tx, job: Job) -> None:
    """The job waits for the leader no longer."""
    tx.view.delete(Table.UNSCHEDULED, u64(job.id))
