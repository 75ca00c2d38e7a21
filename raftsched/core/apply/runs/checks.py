"""Checks of conditions: reports of workers, the next check, giving up, checking again from the start."""

from __future__ import annotations

from raftsched.core.apply.indexes import reindex, waits_in_ready
from raftsched.core.apply.resources.queue_edits import offer_of
from raftsched.core.apply.runs.conditions import (
    bound_to_node,
    check,
    first_unmet,
    note_missing,
    pass_on,
    seen_by_machines,
    span,
    start_checking,
)
from raftsched.core.apply.runs.finish import finish, settle
from raftsched.core.apply.runs.run_keys import give_back
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, Recheck, ReportConditions
from raftsched.core.model import Instance, Job, Policy
from raftsched.core.tables import KEY_MAX

GIVEN_UP = "conditions_timeout"


def report_conditions(tx: Tx, c: ReportConditions) -> Answer:
    """Takes a worker's report. It is refused when it is about an earlier wait of the instance, and when a node reports
    that it saw a path and cannot run the instance. A server is seen as well by a node that could not run it."""
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or not instance.checking or instance.checks_end_at_ms != c.until_ms:
        return STALE
    policy = tx.policy_of(job, instance)
    bound = c.met and bound_to_node(policy)
    if not seen_by_machines(policy) or (bound and not _can_run(tx, c.node, policy, job.namespace)):
        return STALE
    if not c.met:
        if not note_missing(instance, c.detail):
            return Accepted()
    elif first_unmet(tx, policy) is not None:  # the success of a job was too long ago meanwhile
        check(tx, job, instance)
    else:
        pass_on(tx, job, instance, c.node if bound_to_node(policy) else "")
    tx.put_instance(instance)
    return Accepted()


def wake_checking(tx: Tx, job: Job, instance: Instance, at_ms: int) -> None:
    """Checks again, or gives up: the timer for `at_ms` came due, and is out of the table. The caller stores job and
    instance."""
    policy = tx.policy_of(job, instance)
    end_at_ms = instance.checks_end_at_ms
    if end_at_ms is None or at_ms < end_at_ms or (not seen_by_machines(policy) and first_unmet(tx, policy) is None):
        check(tx, job, instance)
        return
    text = f"Its conditions were not met within {span(policy.conditions_timeout_ms)}"
    instance.error = f"{text}: {instance.error}" if instance.error else f"{text}; no node has looked at them."
    instance.reason = GIVEN_UP
    finish(tx, job, instance, "give_up")
    settle(tx, job)


def recheck(tx: Tx, c: Recheck) -> Answer:
    """Checks the conditions of a waiting instance again. Refused while the node on which its paths were seen can run
    it."""
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or not waits_in_ready(instance) or not instance.only_on:
        return STALE
    policy = tx.policy_of(job, instance)
    if instance.parent is not None or _can_run(tx, instance.only_on, policy, job.namespace):
        return STALE
    if instance.permit is not None:
        give_back(tx, instance)
    instance.checking = True
    reindex(tx, instance)  # out of READY, also when it comes to the same place again
    start_checking(tx, job, instance, policy)
    tx.put_instance(instance)
    return Accepted()


def _can_run(tx: Tx, node: str, policy: Policy, namespace: str) -> bool:
    """Returns whether the node can run it, now or when it has a slot."""
    if not 0 < len(node.encode()) <= KEY_MAX:
        return False
    session = tx.session(tx.node_session(node))
    if session is None or not session.open:
        return False
    able = offer_of(tx, session)
    return able.can(policy, namespace) and not able.drained
