"""Runs that never started: they expired, or no worker took them before their start deadline."""

from __future__ import annotations

from raftsched.core.actions import DueTimesSkipped
from raftsched.core.apply.indexes import listed_by_job, waits_in_line
from raftsched.core.apply.jobs.skips import JOINED, START_DEADLINE, UNSTARTED, join
from raftsched.core.apply.resources.queue_edits import UNPLACEABLE, quota_of
from raftsched.core.apply.runs.conditions import span
from raftsched.core.apply.runs.finish import end, finish, go_on, settle
from raftsched.core.apply.runs.history import keep, keep_for_age, keep_newest
from raftsched.core.apply.runs.run_keys import why_blocked
from raftsched.core.apply.tx import Tx
from raftsched.core.levels import SKIPS_ARE_JOINED
from raftsched.core.model import ASKED_FOR, Instance, InstanceState, Job
from raftsched.core.rules.admission import blocked_reason


def expire(tx: Tx, job: Job, instance: Instance) -> None:
    """Skips an instance that had not started when it expired, and stores it and its job."""
    text = f"It had not started within {span(tx.policy_of(job, instance).expires_ms)}"
    if instance.held:
        instance.error = f"{text}: it waited for another run of its job to end."
    elif instance.checking:
        instance.error = f"{text}: {instance.error}" if instance.error else f"{text}: its conditions were not met."
    else:
        instance.error = _why_not_started(tx, job, instance, text)
    _skip(tx, job, instance, UNSTARTED)


def miss_deadline(tx: Tx, job: Job, instance: Instance) -> None:
    """Skips an instance that no worker took before its start deadline, and stores it and its job. A part, whose node is
    gone, fails."""
    instance.error = _why_not_started(tx, job, instance, "No node could take it before its start deadline")
    if instance.parent is None:
        _skip(tx, job, instance, START_DEADLINE)
        return
    instance.reason = START_DEADLINE
    finish(tx, job, instance, "strand")
    settle(tx, job)
    tx.put_job(job)
    tx.put_instance(instance)


def _skip(tx: Tx, job: Job, instance: Instance, reason: str) -> None:
    """Ends an instance that did not start. The runs of a recurring job make one row for neighbours: else those of one
    that is due each second would push each other out of its history within minutes."""
    instance.reason = reason
    end(tx, job, instance, "miss_start")
    if instance.steps[0].detail not in ASKED_FOR:
        tx.actions.append(DueTimesSkipped(reason, 1))
    joined = False
    if instance.telling is None or tx.meta.level < SKIPS_ARE_JOINED or not listed_by_job(job, instance):
        joined = join(tx, job, instance)
        if not joined:
            keep(tx, job, instance)
    else:
        keep_for_age(tx, job, instance)  # `place_skipped` does the rest: its end may start others
    go_on(tx, job, instance)
    settle(tx, job)
    tx.put_job(job)
    if not joined:
        tx.put_instance(instance)


def place_skipped(tx: Tx, instance: Instance) -> None:
    """Gives an instance that did not start its place in history, once the jobs that follow were told of its end."""
    job = tx.job(instance.job_id) if instance.reason in JOINED and tx.meta.level >= SKIPS_ARE_JOINED else None
    if job is None or instance.state is not InstanceState.SKIPPED or not listed_by_job(job, instance):
        return
    joined = join(tx, job, instance)
    if not joined:
        keep_newest(tx, job, instance)
    tx.put_job(job)
    if not joined:
        tx.put_instance(instance)


def _why_not_started(tx: Tx, job: Job, instance: Instance, text: str) -> str:
    """Returns the text with what was in the way of an instance that waits for a worker."""
    if instance.parent is not None and tx.node_session(instance.only_on) == 0:
        return f"{text}: it is for {instance.only_on}, which is gone."
    if waits_in_line(instance):
        return f"{text}: {why_blocked(tx, job, instance)}."
    if instance.reason == UNPLACEABLE:
        return f"{text}: {instance.error}"
    if tx.meta.paused:
        return f"{text}: the cluster was paused."
    held_up = {"paused": "was paused", "full": "was full", "rate": "had started as many as its rate allows"}
    queue, quota = tx.queue(tx.policy_of(job, instance).queue), quota_of(tx, job.namespace)
    why = None if queue is None else blocked_reason(queue, tx.now)
    if queue is not None and why is not None:
        return f"{text}: its queue {queue.name} {held_up[why]}."
    why = None if quota is None else blocked_reason(quota, tx.now)
    return f"{text}." if why is None else f"{text}: its namespace {job.namespace} {held_up[why]}."
