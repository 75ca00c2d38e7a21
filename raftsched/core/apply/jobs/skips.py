"""SKIPPED records: due times next to each other that did not run, for the same reason, as one row."""

from __future__ import annotations

from raftsched.core.actions import DueTimesSkipped
from raftsched.core.apply.indexes import listed_by_job
from raftsched.core.apply.runs.history import count, keep, keep_until, remove
from raftsched.core.apply.runs.notices import notify_webhooks
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.ids import instance_key
from raftsched.core.levels import SKIPS_ARE_JOINED
from raftsched.core.limits import FIRES_MAX
from raftsched.core.model import Instance, InstanceState, Job, StepKind
from raftsched.core.subjects.changes import InstanceEvent
from raftsched.core.tables import BY_JOB, after, by_job_key, from_by_job, u64

UNSTARTED = "expired_unstarted"  # it had not started when its time to do so was over (Policy.expires_ms)
START_DEADLINE = "start_deadline"  # no worker took it in time (Settings.start_deadline_ms)
JOINED = (UNSTARTED, START_DEADLINE)  # where each due time was a run of its own before it was left out
_SKIPPED, _FINAL, _RERUN = InstanceState.SKIPPED, StepKind.FINAL, StepKind.RERUN
RENEWALS = 16  # of the time that a growing record of skips is kept, in that time


def note_gap(tx: Tx, job: Job, reason: str, first_ms: int, last_ms: int, count_of_fires: int) -> None:
    """Records fires that were skipped, in one SKIPPED record for each gap: a further skip for the same reason extends
    the newest record, but one of an earlier time: that of another trigger with a longer jitter."""
    tx.minutes.skipped(job.namespace, count_of_fires)
    tx.actions.append(DueTimesSkipped(reason, count_of_fires))
    record = tx.instance(job.gap) if job.gap is not None else None
    extends = record is not None and record.reason == reason and record.state is InstanceState.SKIPPED
    if record is not None and extends and first_ms >= record.nominal_at_ms:
        record.gap_count = min(record.gap_count + count_of_fires, FIRES_MAX)
        record.gap_until_ms = max(last_ms, record.gap_until_ms or 0)
        _extended(tx, job, record)
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


def _extended(tx: Tx, job: Job, record: Instance) -> None:
    """Notes that a record stands for more due times, and stores it."""
    record.ended_at_ms = tx.now
    _keep_longer(tx, job, record)
    if len(record.steps) > 1 and record.steps[-2].kind is _FINAL:
        del record.steps[-1]  # the first skip and the latest are enough
    add_step(tx, record, _FINAL, record.reason)
    tx.events.instance(record, InstanceEvent.EXTENDED)
    tx.put_instance(record)


def join(tx: Tx, job: Job, instance: Instance) -> bool:
    """Makes one record of a run that was SKIPPED before it started and of the records right beside it in the order of
    the job's due times, for the same reason. Returns whether its own row is gone by that. The caller stores the job,
    and the instance unless its row is gone."""
    if not _may_join(tx, job, instance):
        return False
    newer = _beside(tx, job, instance, newer=True)
    if newer is not None:
        _take(tx, job, instance, newer)
    older = _beside(tx, job, instance, newer=False)
    if older is None:
        return False
    if tx.indexed[instance.key][0] is not instance.state:  # it is not stored any more as what it has become
        tx.events.instance(instance, InstanceEvent.STATE)
    _take(tx, job, older, instance)
    _extended(tx, job, older)
    return True


def _may_join(tx: Tx, job: Job, row: Instance) -> bool:
    """Returns whether the row stands for nothing but due times that did not start. One that had attempts, was asked
    for, or by whose end other runs were started, is more than that."""
    return (
        tx.meta.level >= SKIPS_ARE_JOINED
        and row.state is _SKIPPED
        and row.reason in JOINED
        and not (row.request or row.attempts or row.parts is not None)
        and row.root is None
        and row.telling is None
        and listed_by_job(job, row)
        and all(step.kind is not _RERUN for step in row.steps)
    )


def _beside(tx: Tx, job: Job, row: Instance, *, newer: bool) -> Instance | None:
    """Returns the record right before or behind the row in the order of the job's due times, if the two can be one:
    nothing that ran lies between them, and nothing is due there that has not been fired."""
    prefix, own = u64(job.id), by_job_key(row.key)
    low, high = (own + b"\0", after(prefix)) if newer else (prefix, own)
    found = next(tx.view.scan(BY_JOB, low, high, reverse=not newer), None)
    if found is None or found[1][0] != _SKIPPED:
        return None
    other = tx.instance(from_by_job(found[0]))
    if other is None or not _may_join(tx, job, other):
        return None
    if (other.reason, other.job_revision, _key(other)) != (row.reason, row.job_revision, _key(row)):
        return None
    low_ms, high_ms = (_until_ms(row), other.nominal_at_ms) if newer else (_until_ms(other), row.nominal_at_ms)
    if not job.dropped_ms <= low_ms < high_ms:
        return None
    due = (job.nominal_at_ms, *(state.nominal_at_ms for state in job.triggers))
    if any(at_ms is not None and low_ms < at_ms < high_ms for at_ms in due):
        return None
    owed = (state.unscheduled_since_ms for state in job.triggers if state.unscheduled_since_ms is not None)
    return None if any(since_ms < high_ms for since_ms in owed) else other


def _key(row: Instance) -> str | None:
    return None if row.permit is None else row.permit.key


def _until_ms(record: Instance) -> int:
    return record.gap_until_ms or record.nominal_at_ms


def _take(tx: Tx, job: Job, record: Instance, later: Instance) -> None:
    """Has a record stand for the due times of the one behind it, too, whose row is deleted."""
    record.gap_count = min((record.gap_count or 1) + (later.gap_count or 1), FIRES_MAX)
    record.gap_until_ms = _until_ms(later)
    record.error = later.error or record.error
    if later.trigger != record.trigger:
        record.trigger = ""
    was_newest = job.gap == later.key
    remove(tx, job, later)
    if was_newest:
        job.gap = record.key


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
