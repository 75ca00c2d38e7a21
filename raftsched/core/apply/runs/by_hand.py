"""Kills and reruns instances, requeues and discards dead letters, as somebody asked."""

from __future__ import annotations

from raftsched.core.apply.indexes import listed_by_job
from raftsched.core.apply.jobs.new_instances import enqueue
from raftsched.core.apply.jobs.overlap import end_or_ask, refused_by_overlap, replace_active, too_many_active
from raftsched.core.apply.keys import once
from raftsched.core.apply.refusals import no_instance
from raftsched.core.apply.runs.downstream import run_on_from
from raftsched.core.apply.runs.finish import set_dead, settle
from raftsched.core.apply.runs.history import count, keep_until
from raftsched.core.apply.runs.run_keys import permit_of, refused_by_key
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Answer, Discard, Kill, Rejected, Requeue, Rerun
from raftsched.core.ids import instance_text
from raftsched.core.model import FINAL, Instance, InstanceState, Job, JobState, StepKind
from raftsched.core.subjects.changes import InstanceEvent
from raftsched.core.tables import Table, by_job_key
from raftsched.core.transitions import instance_after


def kill(tx: Tx, c: Kill) -> Answer:
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None:
        return no_instance(c.instance)
    if instance.state in FINAL:
        return Rejected("illegal-transition", f"The instance is {instance.state.name} already.")
    asked_before = instance.kill_asked and instance.live is not None
    end_or_ask(tx, job, instance, "killed")
    settle(tx, job)
    tx.put_job(job)
    return Accepted(job=job, instance=c.instance, row=instance, unchanged=asked_before)


def rerun(tx: Tx, c: Rerun) -> Answer:
    return once(tx, c.key, c.digest, lambda: _rerun(tx, c))


def _rerun(tx: Tx, c: Rerun) -> Answer:
    found = _finished(tx, c.instance)
    if isinstance(found, Rejected):
        return found
    job, instance = found
    refused = too_many_active(tx, job) or refused_by_overlap(tx, job) or refused_by_key(job, instance.params)
    if refused is None and c.downstream:
        refused = run_on_from(tx, job, instance, c.namespaces)
    if refused is not None:
        return refused
    reopen(tx, job, instance)
    replace_active(tx, job, exclude=instance.key)
    return wait_again(tx, job, instance, None)


def requeue(tx: Tx, c: Requeue) -> Answer:
    """Queues a dead letter again. Unless runs of the job may overlap it waits behind what is active, whatever the
    policy: requeuing a hundred of one job does not mean one of them."""
    found = _dead_letter(tx, c.instance)
    if isinstance(found, Rejected):
        return found
    job, instance = found
    refused = too_many_active(tx, job) or refused_by_key(job, instance.params)
    if refused is not None:
        return refused
    reopen(tx, job, instance)
    return wait_again(tx, job, instance, "dead_letter")


def discard(tx: Tx, c: Discard) -> Answer:
    found = _dead_letter(tx, c.instance)
    if isinstance(found, Rejected):
        return found
    job, instance = found
    set_dead(instance, None)
    tx.events.instance(instance, InstanceEvent.DISCARDED)
    if listed_by_job(job, instance):
        instance.purge_at_ms = keep_until(tx, job, instance)
    elif job.purge_at_ms is not None and job.failed == 1:  # of a one-shot, and the only one
        failed_keep_ms = tx.meta.settings.once_failed_keep_ms
        job.purge_at_ms = min(job.purge_at_ms, (instance.ended_at_ms or tx.now) + failed_keep_ms)
    tx.put_instance(instance)
    tx.put_job(job)
    return Accepted(job=job, instance=c.instance, row=instance)


def _finished(tx: Tx, key: bytes) -> tuple[Job, Instance] | Rejected:
    instance = tx.instance(key)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or job.state is JobState.DELETED:
        return no_instance(key)
    if instance.state not in FINAL:
        return Rejected("illegal-transition", f"The instance is {instance.state.name}, not yet at its end.")
    if instance.parent is not None:
        whole = instance_text(instance.parent)
        detail = f"It is a part of {whole}; rerun that, and the parts that did not succeed run again."
        return Rejected("illegal-transition", detail)
    if instance.telling is not None:
        return Rejected("illegal-transition", "Jobs that follow it are just being started; try again in a moment.")
    return job, instance


def _dead_letter(tx: Tx, key: bytes) -> tuple[Job, Instance] | Rejected:
    found = _finished(tx, key)
    if isinstance(found, Rejected) or found[1].dead_letter:
        return found
    state = found[1].state.name
    return Rejected("illegal-transition", f"The instance is {state}, and no dead letter; use rerun to run it again.")


def reopen(tx: Tx, job: Job, instance: Instance) -> None:
    """Takes the instance out of the history, before others of the job are ended: their end looks for the oldest to
    drop."""
    count(job, instance, -1)
    if job.gap == instance.key:
        job.gap = None
    job.purge_at_ms = None
    instance.purge_at_ms = None
    set_dead(instance, None)
    if instance.state is InstanceState.SUCCEEDED:
        instance.kept = None  # it was through with its work, and begins anew
    instance.progress = None
    instance.state = instance_after(instance.state, "rerun")
    if listed_by_job(job, instance):
        tx.view.put(Table.BY_JOB, by_job_key(instance.key), bytes((instance.state,)))


def wait_again(tx: Tx, job: Job, instance: Instance, why: str | None) -> Answer:
    """Lets the instance wait again, with the present content of the job and all its retries. Its earlier attempts stay,
    and so do the fires that a SKIPPED record stands for."""
    instance.job_revision = job.revision
    instance.kill_asked = False
    instance.tried = 0
    instance.lost = 0
    instance.handed_back = 0
    instance.told = ()
    instance.snoozes = 0
    instance.reason = None
    instance.error = None
    instance.ended_at_ms = None
    instance.ready_at_ms = tx.now
    instance.expires_at_ms = tx.now + job.policy.expires_ms if job.policy.expires_ms else None
    instance.permit = permit_of(job, instance.params)
    add_step(tx, instance, StepKind.RERUN, why)
    job.last_instance = instance.key
    enqueue(tx, job, instance)
    tx.put_instance(instance)
    tx.put_job(job)
    return Accepted(job=job, instance=instance.key, row=instance)
