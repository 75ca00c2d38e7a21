"""Runs that never started: they expired, or no worker took them before their start deadline."""

from __future__ import annotations

from raftsched.core.admission import blocked_reason
from raftsched.core.apply.conditions import span
from raftsched.core.apply.finish import UNSTARTED, finish, settle
from raftsched.core.apply.indexes import waits_in_line
from raftsched.core.apply.queues import UNPLACEABLE, quota_of
from raftsched.core.apply.run_keys import why_blocked
from raftsched.core.apply.tx import Tx
from raftsched.core.model import Instance, Job


def expire(tx: Tx, job: Job, instance: Instance) -> None:
    """Skips an instance that had not started when it expired. The caller stores job and instance."""
    text = f"It had not started within {span(tx.policy_of(job, instance).expires_ms)}"
    if instance.held:
        instance.error = f"{text}: it waited for another run of its job to end."
    elif instance.checking:
        instance.error = f"{text}: {instance.error}" if instance.error else f"{text}: its conditions were not met."
    else:
        instance.error = _why_not_started(tx, job, instance, text)
    instance.reason = UNSTARTED
    finish(tx, job, instance, "miss_start")
    settle(tx, job)


def miss_deadline(tx: Tx, job: Job, instance: Instance) -> None:
    """Skips an instance that no worker took before its start deadline; a part, whose node is gone, fails. The caller
    stores job and instance."""
    instance.error = _why_not_started(tx, job, instance, "No node could take it before its start deadline")
    instance.reason = "start_deadline"
    finish(tx, job, instance, "miss_start" if instance.parent is None else "strand")
    settle(tx, job)


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
