"""What comes of looking at conditions: workers' reports, the next look, giving up, looking again from the start."""

from __future__ import annotations

from raftsched.core.apply.conditions import begin, bound_to_node, look, met, note, seen_by_machines, span, unmet
from raftsched.core.apply.finish import finish, settle
from raftsched.core.apply.indexes import reindex, waits_in_ready
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.cluster import NodeRule
from raftsched.core.commands import Accepted, Answer, Recheck, ReportConditions
from raftsched.core.eligibility import offer
from raftsched.core.model import Instance, Job, Policy
from raftsched.core.tables import KEY_MAX

GIVEN_UP = "conditions_timeout"


def report_conditions(tx: Tx, c: ReportConditions) -> Answer:
    """Refused when it is about an earlier wait of the instance, and when a node says "met" that cannot run it."""
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or not instance.checking or instance.checks_end_at_ms != c.until_ms:
        return STALE
    policy = tx.policy_of(job, instance)
    if not seen_by_machines(policy) or (c.met and not _can_run(tx, c.node, policy)):
        return STALE
    if not c.met:
        if not note(instance, c.detail):
            return Accepted()
    elif unmet(tx, policy) is not None:  # the success of a job was too long ago meanwhile
        look(tx, job, instance)
    else:
        met(tx, job, instance, c.node if bound_to_node(policy) else "")
    tx.put_instance(instance)
    return Accepted()


def wake_checking(tx: Tx, job: Job, instance: Instance, at_ms: int) -> None:
    """Its timer, for `at_ms`, came due and is out of the table. The caller stores both."""
    policy = tx.policy_of(job, instance)
    end_at_ms = instance.checks_end_at_ms
    if end_at_ms is None or at_ms < end_at_ms or (not seen_by_machines(policy) and unmet(tx, policy) is None):
        look(tx, job, instance)
        return
    text = f"Its conditions were not met within {span(policy.conditions_timeout_ms)}"
    instance.error = f"{text}: {instance.error}" if instance.error else f"{text}; no node has looked at them."
    instance.reason = GIVEN_UP
    finish(tx, job, instance, "give_up")
    settle(tx, job)


def recheck(tx: Tx, c: Recheck) -> Answer:
    """Refused while the node on which its paths were seen can run it."""
    instance = tx.instance(c.instance)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or not waits_in_ready(instance) or not instance.only_on:
        return STALE
    policy = tx.policy_of(job, instance)
    if _can_run(tx, instance.only_on, policy):
        return STALE
    instance.checking = True
    reindex(tx, instance)  # out of READY, also when it comes to the same place again
    begin(tx, job, instance, policy)
    tx.put_instance(instance)
    return Accepted()


def _can_run(tx: Tx, node: str, policy: Policy) -> bool:
    """Now or when it has a slot."""
    if not 0 < len(node.encode()) <= KEY_MAX:
        return False
    session = tx.session(tx.node_session(node))
    if session is None or not session.open:
        return False
    able = offer(session, tx.node_rule(node) or NodeRule())
    return able.can(policy) and not able.drained
