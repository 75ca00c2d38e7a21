"""SKIPPED records: due times next to each other that did not run, for the same reason, as one row."""

from __future__ import annotations

from raftsched.core.apply.history import count, keep, keep_until
from raftsched.core.apply.notices import notify_webhooks
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.changes import InstanceEvent
from raftsched.core.ids import instance_key
from raftsched.core.limits import FIRES_MAX
from raftsched.core.model import Instance, InstanceState, Job, StepKind

RENEWALS = 16  # of the time that a growing record of skips is kept, in that time


def note_gap(tx: Tx, job: Job, reason: str, first_ms: int, last_ms: int, count_of_fires: int) -> None:
    """Records fires that were skipped, in one SKIPPED record for each gap: a further skip for the same reason extends
    the newest record, but one of an earlier time: that of another trigger with a longer jitter."""
    tx.minutes.skipped(job.namespace, count_of_fires)
    record = tx.instance(job.gap) if job.gap is not None else None
    extends = record is not None and record.reason == reason and record.state is InstanceState.SKIPPED
    if record is not None and extends and first_ms >= record.nominal_at_ms:
        record.gap_count = min(record.gap_count + count_of_fires, FIRES_MAX)
        record.gap_until_ms = max(last_ms, record.gap_until_ms or 0)
        record.ended_at_ms = tx.now
        _keep_longer(tx, job, record)
        del record.steps[1:]  # the first skip and the latest are enough
        add_step(tx, record, StepKind.FINAL, reason)
        tx.events.instance(record, InstanceEvent.EXTENDED)
        tx.put_instance(record)
        return
    record = skipped_record(tx, job, reason, first_ms, unused_request(tx, job, first_ms))
    record.gap_count, record.gap_until_ms = min(count_of_fires, FIRES_MAX), last_ms
    add_step(tx, record, StepKind.FINAL, reason)
    job.gap = record.key
    count(job, record, 1)
    if tx.meta.webhooks:
        notify_webhooks(tx, job, record)
    keep(tx, job, record)
    tx.put_instance(record)


def skipped_record(tx: Tx, job: Job, reason: str, nominal_at_ms: int, request: int) -> Instance:
    """Returns the record of one time at which the job was not run, to be counted and stored."""
    return Instance(
        job_id=job.id,
        nominal_at_ms=nominal_at_ms,
        request=request,
        state=InstanceState.SKIPPED,
        job_revision=job.revision,
        priority=job.policy.priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=tx.now,
        reason=reason,
        gap_count=1,
        gap_until_ms=nominal_at_ms,
        ended_at_ms=tx.now,
    )


def _keep_longer(tx: Tx, job: Job, record: Instance) -> None:
    """Counts the age of a record from its latest skip. It is moved now and then only: one that grows each second shall
    stay cheap."""
    until_ms = keep_until(tx, job, record)
    if record.purge_at_ms is not None and (until_ms - record.purge_at_ms) * RENEWALS >= job.policy.retention.max_age_ms:
        record.purge_at_ms = until_ms


def unused_request(tx: Tx, job: Job, nominal_at_ms: int) -> int:
    """Returns a request number for the time: 0, unless the trigger came back to a time that it had run or skipped
    before."""
    request = 0
    while tx.has_instance(instance_key(nominal_at_ms, job.id, request)):
        request += 1
    return request
