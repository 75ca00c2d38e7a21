"""The plain creation of a job: it is scheduled at once, for times that apply computes, and nobody is to be told of it.

That is what most jobs are. `create` does in one go what `lifecycle.create` comes to for such a job, or says that the
job is none, and changes nothing. It has no rules of its own: a property test applies the same entries with it and
without, and compares every row, answer and action.
"""

from __future__ import annotations

from raftsched.core.actions import JobDue
from raftsched.core.apply.indexes import count_scheduled, put_due, tag_job
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import CreateJob
from raftsched.core.limits import policy_error
from raftsched.core.model import Job, JobState, Policy, Trigger, TriggerKind
from raftsched.core.rows import encode_row
from raftsched.core.rules.creation import name_error
from raftsched.core.rules.intervals import first_nominal
from raftsched.core.rules.references import may_refer
from raftsched.core.rules.selection import DEFAULT_NAMESPACE, may_be_tagged
from raftsched.core.subjects.changes import JobChange, JobEvent
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import NAMES, name_key, u64

_NEW, _SCHEDULED, _CREATED = JobState.NEW, JobState.SCHEDULED, JobEvent.CREATED
_KINDS = (TriggerKind.AT, TriggerKind.IN, TriggerKind.EVERY)


def is_plain(policy: Policy) -> bool:
    """Returns whether the policy asks for nothing that its job would have to be made otherwise for."""
    trigger = policy.trigger
    return not (
        trigger.kind not in _KINDS
        or trigger.calendar is not None
        or trigger.jitter_ms
        or policy.triggers
        or policy.notify
        or policy.conditions
    )


def create(tx: Tx, c: CreateJob) -> Job | None:
    """Makes the job of a command. None: it is not plain, or is to be refused."""
    policy, body, name, settings = c.policy, c.body, c.name, tx.meta.settings
    if c.suspended or not is_plain(policy) or policy.timeout_ms > settings.timeout_ceiling_ms:
        return None
    if len(body) > settings.body_max_bytes or may_refer(body) or policy_error(policy) is not None:
        return None
    namespace = tx.namespace(c.namespace)
    if namespace is None or namespace.max_jobs is not None or c.namespace == SYSTEM_NAMESPACE:
        return None
    if settings.namespaces_strict and not namespace.revision:
        return None
    if c.defaults is not None and c.defaults != namespace.revision:
        return None
    if name is not None and (
        name_error(c.namespace, name) is not None or tx.view.get(NAMES, name_key(c.namespace, name)) is not None
    ):
        return None
    job = blank(tx, c.namespace, policy, suspended=False)
    if not store(tx, job, name, policy, body):
        return None
    count_scheduled(tx, c.namespace, 1)
    return job


def blank(tx: Tx, namespace: str, policy: Policy, *, suspended: bool) -> Job:
    """Returns what jobs that are made now have in common: all but id, name, content and times."""
    now = tx.now
    return Job(
        id=0,
        namespace=namespace,
        name=None,
        revision=1,
        state=_NEW if suspended else _SCHEDULED,
        policy=policy,
        body=b"",
        created_at_ms=now,
        modified_at_ms=now,
        anchor_at_ms=anchor_ms(policy.trigger, now),
        by=tx.by.name,
    )


def anchor_ms(trigger: Trigger, now_ms: int) -> int:
    """Returns where the times of a job begin that is made or edited now."""
    return now_ms if trigger.starts_at_ms is None or trigger.once else trigger.starts_at_ms


def store(tx: Tx, job: Job, name: str | None, policy: Policy, body: bytes) -> bool:
    """Makes a job of a blank one and stores it. Returns whether it did: it has no time else. The policy is plain, and
    the name is free, nothing in the body refers to secrets; the caller counts the job."""
    upcoming = first_nominal(policy.trigger, tx.now, job.anchor_at_ms)
    if upcoming is None:
        return False
    job.id = job_id = tx.new_id()
    job.policy = policy
    job.body = body
    job.nominal_at_ms = job.fire_at_ms = upcoming
    job.counted = _SCHEDULED
    if name is not None:
        job.name = name
        tx.view.put(NAMES, name_key(job.namespace, name), u64(job_id))
    if job.namespace != DEFAULT_NAMESPACE or may_be_tagged(body):
        tag_job(tx, job)
    tx.events.changes.append(JobChange(_CREATED, _SCHEDULED, job.namespace, job_id, 1))
    put_due(tx, upcoming, job_id)
    tx.actions.append(JobDue(job_id, 1, upcoming))
    tx.put_job_row(u64(job_id), encode_row(job))
    return True
