"""Changes of a job's schedule by hand: a run now, the next one skipped, runs for times that are past."""

from __future__ import annotations

from itertools import pairwise

from raftsched.core.apply.jobs.due import mark_unscheduled, set_due, take_due
from raftsched.core.apply.jobs.new_instances import add_instance, new_instance
from raftsched.core.apply.jobs.overlap import refused_by_overlap, replace_active, too_many_active
from raftsched.core.apply.jobs.several import follow_first, leave_out, waits_for_end
from raftsched.core.apply.jobs.skips import note_gap
from raftsched.core.apply.keys import once
from raftsched.core.apply.refusals import no_job, reject_system_job
from raftsched.core.apply.runs.finish import exhaust, settle
from raftsched.core.apply.runs.run_keys import refused_by_key
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Answer, Backfill, Rejected, RunNow, SkipNext
from raftsched.core.ids import BACKFILL, instance_key
from raftsched.core.limits import U64_MAX
from raftsched.core.model import Job, JobState
from raftsched.core.rules.backfill import times_without_run
from raftsched.core.rules.intervals import next_every


def run_now(tx: Tx, c: RunNow) -> Answer:
    return once(tx, c.key, c.digest, lambda: _run_now(tx, c))


def _run_now(tx: Tx, c: RunNow) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.state is JobState.DELETED:
        return no_job(c.job_id)
    refused = reject_system_job(job) or _request_error(tx, c)
    if refused is not None:
        return refused
    key = instance_key(tx.now, job.id, c.request)
    if tx.has_instance(key):
        return Accepted(job=job, instance=key, created=False)
    if job.state is JobState.EXPIRED:
        return Rejected("illegal-transition", "The job is EXPIRED; rerun an instance, or create a job anew.")
    refused = too_many_active(tx, job) or refused_by_overlap(tx, job) or refused_by_key(job, c.params)
    if refused is not None:
        return refused
    made = new_instance(tx, job, tx.now, c.request, replace_active(tx, job))
    made.params = c.params
    if c.priority is not None:
        made.priority = c.priority
    job.modified_at_ms = tx.now
    add_instance(tx, job, made, "manual")
    tx.put_job(job)
    return Accepted(job=job, instance=key, created=True)


def _request_error(tx: Tx, c: RunNow) -> Rejected | None:
    if not 1 <= c.request <= U64_MAX:
        return Rejected("invalid-parameter", "The number of a request is a positive one of 64 bits.")
    if c.priority is not None and not 0 <= c.priority <= 9:
        return Rejected("invalid-parameter", f"priority is {c.priority}; use 0 to 9.")
    limit = tx.meta.settings.params_max_bytes
    if c.params is not None and len(c.params) > limit:
        return Rejected("too-large", f"params take {len(c.params)} bytes; {limit} is the limit.")
    return None


# ---------------------------------------------------------------- skip next


def skip_next(tx: Tx, c: SkipNext) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.state is JobState.DELETED:
        return no_job(c.job_id)
    if job.skipped_until_ms is not None and c.nominal_at_ms <= job.skipped_until_ms and not _is_next(job, c):
        return Accepted(job=job, unchanged=True)
    trigger = job.policy.trigger
    if trigger.once:
        return Rejected("illegal-transition", "The job is due once; to leave that out, expire or delete it.")
    if job.state is not JobState.SCHEDULED:
        return Rejected("illegal-transition", f"The job is {job.state.name}; it has no next time.")
    if job.nominal_at_ms != c.nominal_at_ms:
        return Rejected("not-next", "That is not the next time of the job; read it again.")
    take_due(tx, job)
    job.skipped_until_ms = c.nominal_at_ms
    job.modified_at_ms = tx.now
    note_gap(tx, job, "skip_next", c.nominal_at_ms, c.nominal_at_ms, 1)
    if job.triggers:
        leave_out(tx, job, (c.nominal_at_ms,))
        follow_first(tx, job)
    elif trigger.needs_calendar:
        mark_unscheduled(tx, job, min(tx.now, c.nominal_at_ms))  # what came due after it is owed
    elif not waits_for_end(tx, job, trigger):
        upcoming = next_every(trigger, c.nominal_at_ms, job.anchor_at_ms)
        if upcoming is None:
            exhaust(tx, job)
        else:
            set_due(job, upcoming)
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job)


def _is_next(job: Job, c: SkipNext) -> bool:
    """Returns whether this is the next time though a later one was left out: one of several triggers may have a longer
    jitter."""
    return bool(job.triggers) and job.nominal_at_ms == c.nominal_at_ms


# ---------------------------------------------------------------- backfill


def backfill(tx: Tx, c: Backfill) -> Answer:
    return once(tx, c.key, c.digest, lambda: _backfill(tx, c))


def _backfill(tx: Tx, c: Backfill) -> Answer:
    job = tx.job(c.job_id)
    if job is None or job.state is JobState.DELETED:
        return no_job(c.job_id)
    refused = reject_system_job(job)
    if refused is not None:
        return refused
    if job.state is JobState.EXPIRED:
        return Rejected("illegal-transition", "The job is EXPIRED; rerun an instance, or create a job anew.")
    if job.revision != c.revision:
        return Rejected("stale-revision", "The job was changed meanwhile; its times may be others now.")
    limit = tx.meta.settings.backfill_max
    if len(c.times) > limit:
        return Rejected("too-large", f"{len(c.times)} times are asked for; {limit} is the limit.")
    if not all(a < b for a, b in pairwise(c.times)) or (c.times and c.times[0] < 0):
        return Rejected("invalid-parameter", "The times of a backfill ascend, from 1970 on.")
    tx.flush_new()
    times = times_without_run(tx.view, job, c.times, tx.now)
    active_max = tx.meta.settings.active_max
    if len(times) > active_max:  # however long they wait
        return Rejected("too-large", f"{len(times)} runs are asked for; {active_max} of a job may be active at a time.")
    room = active_max - job.active
    if len(times) > room:
        return Rejected(
            "too-many", f"{len(times)} runs are asked for; {max(0, room)} more of this job may be active at a time."
        )
    for nominal in times:
        add_instance(tx, job, new_instance(tx, job, nominal, BACKFILL), "backfill")
    if times:
        job.modified_at_ms = tx.now
        tx.put_job(job)
    return Accepted(job=job, created=True, number=len(times))
