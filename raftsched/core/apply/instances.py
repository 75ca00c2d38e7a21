"""Kill and rerun."""

from __future__ import annotations

from raftsched.core.apply.finish import count, settle
from raftsched.core.apply.firing import crowded, end_or_ask, enqueue, overlapping, replace_active
from raftsched.core.apply.tx import Tx, listed_by_job, no_instance
from raftsched.core.commands import Accepted, Answer, Kill, Rejected, Rerun
from raftsched.core.model import FINAL, JobState
from raftsched.core.tables import Table, by_job_key
from raftsched.core.transitions import instance_after


def kill(tx: Tx, c: Kill) -> Answer:
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None:
        return no_instance(c.instance)
    if instance.state in FINAL:
        return Rejected("illegal-transition", f"The instance is {instance.state.name} already.")
    end_or_ask(tx, job, instance, "killed")
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job, instance=c.instance, row=instance)


def rerun(tx: Tx, c: Rerun) -> Answer:
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or job.state is JobState.DELETED:
        return no_instance(c.instance)
    if instance.state not in FINAL:
        return Rejected("illegal-transition", f"The instance is {instance.state.name}, not yet at its end.")
    refused = crowded(tx, job) or overlapping(tx, job)
    if refused is not None:
        return refused
    # Taken out of what is kept before others are ended: their end looks for the oldest to drop.
    count(job, instance.state, -1)
    if job.gap == instance.key:
        job.gap = None
    tx.set_job_purge(job, None)
    tx.set_instance_purge(instance, None)
    instance.state = instance_after(instance.state, "rerun")
    if listed_by_job(job, instance):
        tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
    replace_active(tx, job, but=instance.key)
    instance.job_revision = job.revision
    instance.kill_asked = False
    instance.dead_letter = False
    instance.tried = 0
    instance.lost = 0
    instance.reason = None
    instance.error = None
    instance.ended_at_ms = None
    instance.gap_count = 0
    instance.gap_until_ms = None
    instance.ready_at_ms = tx.now
    job.last_instance = instance.key
    enqueue(tx, job, instance)
    tx.put_instance(instance)
    tx.put_job(job)
    return Accepted(job=job, instance=c.instance, row=instance)
