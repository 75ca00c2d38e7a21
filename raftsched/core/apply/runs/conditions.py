"""Conditions: they have to hold, beside the time, before a run may start.

An instance with conditions is WAITING and `checking` once it may run: it has no row in READY, and its TIMERS row says
when to check again, or to give up. The success of another job is seen here, in the tables, and lets the instances that
await it go at once. What only a machine can see (paths, answers of servers) workers are asked for, at each check again,
so that a lost message or a lost leader costs one check.
"""

from __future__ import annotations

from itertools import islice

from raftsched.bounds import ERROR_MAX
from raftsched.core.actions import ConditionsWanted
from raftsched.core.apply.resources.queue_edits import rank
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.limits import AWAITED_NAME_MAX
from raftsched.core.model import Condition, ConditionKind, Instance, Job, Policy, StepKind
from raftsched.core.rules.creation import split_name
from raftsched.core.tables import Table, after, awaited_key, from_awaited, from_u64, name_key

CONDITIONS = "conditions"  # the reason of an instance that waits for them
AWAITED_MAX = 100  # instances that one success lets go at once; what awaits it beyond that looks by its timer


def become_ready(tx: Tx, job: Job, instance: Instance) -> None:
    """Lets an instance wait for its conditions, or for a worker. The caller stores it."""
    policy = tx.policy_of(job, instance)
    if policy.conditions:
        start_checking(tx, job, instance, policy)
    else:
        _queue(tx, job, instance)


def start_checking(tx: Tx, job: Job, instance: Instance, policy: Policy) -> None:
    """Checks the conditions of the instance from the start. The caller stores it."""
    instance.checking = True
    instance.checks_end_at_ms = tx.now + policy.conditions_timeout_ms
    if instance.expires_at_ms is not None:
        instance.checks_end_at_ms = min(instance.checks_end_at_ms, instance.expires_at_ms)
    instance.reason = CONDITIONS
    instance.error = None
    instance.only_on = ""
    add_step(tx, instance, StepKind.CONDITIONS)
    for key in sorted(_awaited(policy, instance)):
        prefix = key[: -len(instance.key)]
        if sum(1 for _ in islice(tx.view.scan(Table.AWAITED, prefix, after(prefix)), AWAITED_MAX)) < AWAITED_MAX:
            tx.view.put(Table.AWAITED, key, b"")
            tx.meta.awaited += 1
    check(tx, job, instance)


def check(tx: Tx, job: Job, instance: Instance, of: Job | None = None) -> None:
    """Checks what the tables show, and asks workers for the rest when all of that holds. `of`: another job that is not
    stored yet, as `job` may be. The caller stores the instance."""
    policy = tx.policy_of(job, instance)
    missing = first_unmet(tx, policy, job, of)
    if missing is None and not seen_by_machines(policy):
        pass_on(tx, job, instance, "")
        return
    assert instance.checks_end_at_ms is not None
    again_at_ms = instance.checks_end_at_ms
    if missing is None:
        tx.actions.append(ConditionsWanted(instance.key))
    else:
        instance.error = _words(missing)
        if tx.view.get(Table.AWAITED, _row(missing, instance)) is not None:
            instance.wake_at_ms = again_at_ms
            return
    instance.wake_at_ms = min(again_at_ms, tx.now + tx.meta.settings.condition_check_ms)


def first_unmet(tx: Tx, policy: Policy, *newer: Job | None) -> Condition | None:
    """Returns the first condition that does not hold according to the tables, None when all do. `newer`: jobs that are
    not stored yet."""
    for condition in policy.conditions:
        if condition.kind is ConditionKind.JOB:
            job = _target(tx, condition, newer)
            at_ms = None if job is None else job.last_success_at_ms
            if at_ms is None or tx.now - at_ms > condition.within_ms:
                return condition
    return None


def pass_on(tx: Tx, job: Job, instance: Instance, seen_on: str) -> None:
    """Lets the instance wait for a worker: that of the node which saw its paths. The caller stores it."""
    stop_checking(tx, job, instance)
    instance.reason = None
    instance.error = instance.attempts[-1].error if instance.attempts else None
    instance.only_on = seen_on
    instance.ready_at_ms = tx.now
    add_step(tx, instance, StepKind.CONDITIONS_MET, seen_on or None)
    _queue(tx, job, instance)


def stop_checking(tx: Tx, job: Job, instance: Instance) -> None:
    """Ends the checks of the instance. The caller stores it."""
    for key in sorted(_awaited(tx.policy_of(job, instance), instance)):
        if tx.view.delete(Table.AWAITED, key):
            tx.meta.awaited -= 1
    instance.checking = False
    instance.checks_end_at_ms = None
    instance.wake_at_ms = None


def note_missing(instance: Instance, detail: str | None) -> bool:
    """Notes what was found missing. Returns whether that is news."""
    words = (detail or "A condition is not met.")[:ERROR_MAX]
    if instance.error == words:
        return False
    instance.error = words
    return True


def seen_by_machines(policy: Policy) -> bool:
    """Returns whether a worker has to check some of the conditions."""
    return any(condition.kind is not ConditionKind.JOB for condition in policy.conditions)


def bound_to_node(policy: Policy) -> bool:
    """Returns whether the run has to start where its conditions were seen."""
    return any(condition.kind is ConditionKind.PATH for condition in policy.conditions)


def succeeded(tx: Tx, job: Job) -> None:
    """Checks the instances that await a success of this job. The caller stores the job."""
    if not tx.meta.awaited or job.name is None:
        return
    name = name_key(job.namespace, job.name)
    if len(name) > AWAITED_NAME_MAX:
        return
    prefix = name + b"\0"
    for row, _ in list(tx.view.scan(Table.AWAITED, prefix, after(prefix))):
        instance = tx.instance(from_awaited(row))
        owner = None if instance is None else job if instance.job_id == job.id else tx.job(instance.job_id)
        if instance is not None and owner is not None and not _is_asked_of_workers(tx, owner, instance):
            check(tx, owner, instance, job)
            tx.put_instance(instance)


def is_awaited(tx: Tx, namespace: str, name: str) -> bool:
    """Returns whether instances await a success of the job of this name."""
    key = name_key(namespace, name)
    if len(key) > AWAITED_NAME_MAX:
        return False
    prefix = key + b"\0"
    return tx.view.first(Table.AWAITED, prefix, after(prefix)) is not None


def _is_asked_of_workers(tx: Tx, job: Job, instance: Instance) -> bool:
    """Returns whether workers are asked already: a job that succeeds each second must not have them asked each
    second."""
    return instance.wake_at_ms != instance.checks_end_at_ms and seen_by_machines(tx.policy_of(job, instance))


def span(ms: int) -> str:
    """Returns the duration in the largest unit of which it is a whole number."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms >= size and not ms % size:
            return f"{ms // size}{unit}"
    return f"{ms}ms"


def _queue(tx: Tx, job: Job, instance: Instance) -> None:
    """Lets the instance wait for a worker. One that became due by itself and recurs waits no longer than the start
    deadline; one that was asked for, and a one-shot, wait as long as it takes."""
    rank(tx, job, instance)
    fresh = not instance.attempts and instance.parts is None
    if fresh and not instance.request and not job.policy.trigger_of(instance).once:
        deadline_ms = tx.now + tx.meta.settings.start_deadline_ms
        if instance.wake_at_ms is None or deadline_ms < instance.wake_at_ms:  # else it expires before
            instance.wake_at_ms = deadline_ms


def _target(tx: Tx, condition: Condition, newer: tuple[Job | None, ...]) -> Job | None:
    raw = tx.view.get(Table.NAMES, _name(condition))
    if raw is None:
        return None
    job_id = from_u64(raw)
    return next((job for job in newer if job is not None and job.id == job_id), None) or tx.job(job_id)


def _awaited(policy: Policy, instance: Instance) -> set[bytes]:
    return {_row(condition, instance) for condition in policy.conditions if condition.kind is ConditionKind.JOB}


def _row(condition: Condition, instance: Instance) -> bytes:
    return awaited_key(_name(condition), instance.key)


def _name(condition: Condition) -> bytes:
    return name_key(*split_name(condition.target))


def _words(condition: Condition) -> str:
    return f"The job {condition.target} has not succeeded within {span(condition.within_ms)}."
