"""Makes new instances of a job, and adds them: stored, and held behind others or ready for a worker."""

from __future__ import annotations

from raftsched.core.apply.indexes import listed_by_job
from raftsched.core.apply.jobs.due import set_due
from raftsched.core.apply.jobs.several import clear, follow_first, is_delay, pairs
from raftsched.core.apply.runs.chain import Chain
from raftsched.core.apply.runs.conditions import become_ready
from raftsched.core.apply.runs.run_keys import permit_of
from raftsched.core.apply.runs.watches import watch
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.levels import DELAYS_FOLLOW_EACH_RUN
from raftsched.core.model import ASKED_FOR, Instance, InstanceState, Job, StepKind
from raftsched.core.rules.concurrency import can_start
from raftsched.core.tables import Table, by_job_key

_WAITING, _CREATED = InstanceState.WAITING, StepKind.CREATED


def new_instance(tx: Tx, job: Job, nominal_at_ms: int, request: int, since_ms: int | None = None) -> Instance:
    """Returns an instance of the job that waits. The caller sets what else it knows of it, and then adds it.
    `since_ms`: since when it counts as waiting, if not from now."""
    return Instance(
        job_id=job.id,
        nominal_at_ms=nominal_at_ms,
        request=request,
        state=_WAITING,
        job_revision=job.revision,
        priority=job.policy.priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=tx.now if since_ms is None else min(since_ms, tx.now),
    )


def add_instance(tx: Tx, job: Job, instance: Instance, why: str | None, chain: Chain | None = None) -> None:
    """Adds a new instance to its job, and lets it wait. The caller changes it no more. `why`: None, its time came; else
    a code: "missed" (it is made up for), or one of ASKED_FOR. `chain`: its place in a workflow."""
    if job.policy.concurrency is not None:
        instance.permit = permit_of(job, instance.params)
    if job.policy.expires_ms:
        since = tx.now if why in ASKED_FOR else instance.nominal_at_ms + instance.jitter_ms
        instance.expires_at_ms = since + job.policy.expires_ms
    add_step(tx, instance, _CREATED, why)
    if job.policy.notify and why not in ASKED_FOR:
        watch(job, instance)
    if chain is not None:
        chain.note(tx, instance)
    key = instance.key
    job.gap = None
    job.last_instance = key
    enqueue(tx, job, instance)
    if listed_by_job(job, instance):
        tx.view.put(Table.BY_JOB, by_job_key(key), bytes((instance.state,)))
    tx.put_new(instance, key)


def enqueue(tx: Tx, job: Job, instance: Instance) -> None:
    """Makes a WAITING instance active: held behind others of its job, or ready for a worker."""
    waits = not can_start(job)
    job.active += 1
    if job.triggers or is_delay(job.policy.trigger):
        _stop_delays(tx, job)
    if waits:
        instance.reason = "overlap"
        add_step(tx, instance, StepKind.HELD)
        instance.held = True
        instance.wake_at_ms = instance.expires_at_ms
        job.held += 1
    else:
        become_ready(tx, job, instance)


def _stop_delays(tx: Tx, job: Job) -> None:
    """Takes their times from triggers with a fixed delay, which count from the end of what is active now. One that is
    due already keeps its time, and is fired."""
    if tx.meta.level < DELAYS_FOLLOW_EACH_RUN:
        return
    if not job.triggers:
        if job.fire_at_ms is not None and job.fire_at_ms > tx.now:
            set_due(job, None)
        return
    for trigger, state in pairs(job):
        if is_delay(trigger) and state.fire_at_ms is not None and state.fire_at_ms > tx.now:
            clear(state)
    follow_first(tx, job)
