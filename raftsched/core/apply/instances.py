"""Kill and rerun."""

from __future__ import annotations

from raftsched.core.apply.finish import drop_instance, finish
from raftsched.core.apply.firing import enqueue, overlap
from raftsched.core.apply.tx import Tx, listed_by_job
from raftsched.core.commands import Accepted, Answer, Kill, KillAsked, Rejected, Rerun
from raftsched.core.ids import instance_text
from raftsched.core.model import FINAL, Instance, InstanceState, Job, JobState
from raftsched.core.tables import Table, by_job_key

__all__ = ["drop_instance", "end_or_ask", "kill", "rerun"]


def end_or_ask(tx: Tx, job: Job, instance: Instance, reason: str) -> None:
    """An attempt ends by its worker's word only, so what runs is asked; what does not run is KILLED at once."""
    if instance.state in FINAL:
        return
    attempt = instance.live
    if attempt is None:
        instance.reason = reason
        finish(tx, job, instance, InstanceState.KILLED)
    else:
        instance.kill_asked = True
        tx.actions.append(KillAsked(attempt.node, attempt.session, attempt.token))
    tx.put_instance(instance)


def kill(tx: Tx, c: Kill) -> Answer:
    instance = tx.instance(c.instance)
    if instance is None:
        return Rejected("not-found", f"There is no instance {instance_text(c.instance)}.")
    if instance.state in FINAL:
        return Rejected("illegal-transition", f"The instance is {instance.state.name} already.")
    job = tx.job(instance.job_id)
    if job is None:
        return Rejected("not-found", "Its job is gone.")
    end_or_ask(tx, job, instance, "killed")
    tx.put_job(job)
    return Accepted(job=job, instance=c.instance, row=instance)


def rerun(tx: Tx, c: Rerun) -> Answer:
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or job.state is JobState.DELETED:
        return Rejected("not-found", f"There is no instance {instance_text(c.instance)}.")
    if instance.state not in FINAL:
        return Rejected("illegal-transition", f"The instance is {instance.state.name}, not yet at its end.")
    if overlap(tx, job) is not None:
        return Rejected(
            "illegal-transition",
            "A run of this job is active and its overlap policy allows no other; wait for it or kill it first.",
        )
    if instance.state is InstanceState.SUCCEEDED:
        job.succeeded -= 1
    elif instance.state in (InstanceState.FAILED, InstanceState.TIMED_OUT):
        job.failed -= 1
    if job.gap == instance.key:
        job.gap = None
    tx.set_job_purge(job, None)
    tx.set_instance_purge(instance, None)
    instance.state = InstanceState.WAITING
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
    enqueue(tx, job, instance)
    if listed_by_job(job, instance):
        tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))
    tx.put_instance(instance)
    tx.put_job(job)
    return Accepted(job=job, instance=c.instance, row=instance)
