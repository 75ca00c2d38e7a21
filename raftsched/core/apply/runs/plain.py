"""The plain life of a run: its job asks for no more than to be run, once or at a fixed rate, and it succeeds at once.

That is what most runs are. A function here does in one go what the general ones (`jobs.firing`, `runs.attempts`,
`runs.finish`) come to for such a run, or says that the run is none, and changes nothing. It has no rules of its own: a
property test applies the same entries with it and without, and compares every row, answer and action.
"""

from __future__ import annotations

from raftsched.bounds import ERROR_MAX, PRIORITY_MAX, TIME_MAX_MS
from raftsched.core.actions import (
    AttemptAssigned,
    AttemptEnded,
    InstanceFired,
    InstanceReady,
    InstanceStarted,
    InstanceTimer,
    JobDue,
)
from raftsched.core.apply.indexes import UNLISTED, drop_due, put_due
from raftsched.core.apply.runs.conditions import is_awaited
from raftsched.core.apply.runs.history import keep_newest
from raftsched.core.apply.runs.notices import listens
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Assign, Ended, Fire
from raftsched.core.ids import pack_instance
from raftsched.core.levels import LAST_END_IS_KEPT
from raftsched.core.limits import RESULT_MAX
from raftsched.core.model import (
    Attempt,
    EveryMode,
    Instance,
    InstanceState,
    Job,
    JobState,
    Policy,
    Step,
    StepKind,
    TriggerKind,
    scheduled_ms,
)
from raftsched.core.rows import encode_row
from raftsched.core.rules.intervals import next_every
from raftsched.core.rules.selection import is_followed
from raftsched.core.subjects.changes import InstanceChange, InstanceEvent, JobChange, JobEvent
from raftsched.core.subjects.notices import quota_queue
from raftsched.core.tables import ASSIGNED, BY_JOB, PURGE, assigned_key, by_job_row, job_purge_key, purge_key, u64
from raftsched.core.transitions import instance_after, job_after

_STATE, _JOB_STATE = InstanceEvent.STATE, JobEvent.STATE
_WAITING = InstanceState.WAITING
_LAUNCHED = instance_after(_WAITING, "assign")
_RUNNING = instance_after(_LAUNCHED, "start")
_DONE = instance_after(_RUNNING, "succeed")
_SCHEDULED = JobState.SCHEDULED
_OVER = job_after(_SCHEDULED, "exhaust")
_CREATED, _ASSIGNED, _FINAL = StepKind.CREATED, StepKind.ASSIGNED, StepKind.FINAL
_EVERY, _FIXED_RATE = TriggerKind.EVERY, EveryMode.FIXED_RATE
_ONCE = (TriggerKind.AT, TriggerKind.IN)
_PLAIN_KINDS = (*_ONCE, _EVERY, TriggerKind.CRON, TriggerKind.RRULE)
_IS_WAITING_ROW, _IS_DONE_ROW = bytes((_WAITING,)), bytes((_DONE,))


def is_plain(policy: Policy) -> bool:
    """Returns whether the policy asks for nothing that its runs would have to be made, ended or told of otherwise."""
    trigger = policy.trigger
    return not (
        trigger.kind not in _PLAIN_KINDS
        or (trigger.kind is _EVERY and trigger.mode is not _FIXED_RATE)
        or policy.notify
        or policy.conditions
        or policy.concurrency is not None
        or policy.outcomes is not None
        or trigger.jitter_ms
        or trigger.calendar is not None
        or trigger.max_runs is not None
    )


def fire(tx: Tx, job: Job, c: Fire) -> bool:
    """Makes the run of a job that is due. Returns whether it did: the next time is another one then, and all is
    stored."""
    policy, nominal_at_ms, meta, now = job.policy, c.nominal_at_ms, tx.meta, tx.now
    if job.active or meta.paused or c.missed_count or c.missed or not is_plain(policy):
        return False
    if nominal_at_ms != job.fire_at_ms or not 0 <= nominal_at_ms <= TIME_MAX_MS or job.watch_at_ms is not None:
        return False
    if job.counted != _SCHEDULED or (meta.queues and _is_limited(tx, job)):
        return False
    trigger = policy.trigger
    recurs = trigger.kind not in _ONCE
    due_at_ms, expires_at_ms, upcoming = nominal_at_ms, None, None
    if policy.expires_ms:
        expires_at_ms = nominal_at_ms + policy.expires_ms
        if expires_at_ms <= now:
            return False
    wake_at_ms = expires_at_ms
    if recurs:
        late_ms = now - nominal_at_ms
        if trigger.kind is not _EVERY:
            upcoming = c.next_nominal_at_ms
            if c.zones != meta.zones or upcoming is None or not nominal_at_ms < upcoming <= TIME_MAX_MS:
                return False
        elif c.next_nominal_at_ms is None and late_ms < trigger.period_ms:
            upcoming = next_every(trigger, now if late_ms > 0 else nominal_at_ms, job.anchor_at_ms)
        if upcoming is None or late_ms > policy.misfire.grace_ms:
            return False
        deadline_ms = now + meta.settings.start_deadline_ms
        if wake_at_ms is None or deadline_ms < wake_at_ms:
            wake_at_ms = deadline_ms
    elif c.next_nominal_at_ms is not None:
        return False
    elif job.anchor_at_ms > nominal_at_ms:
        due_at_ms = job.anchor_at_ms
    job_id = job.id
    key = pack_instance(nominal_at_ms, job_id, 0)
    if (job.runs or job.others or job.revision > 1 or recurs) and tx.has_instance(key):
        return False
    score_ms = now + (PRIORITY_MAX - policy.priority) * meta.settings.ageing_ms
    instance = Instance(
        job_id=job_id,
        nominal_at_ms=nominal_at_ms,
        request=0,
        state=_WAITING,
        job_revision=job.revision,
        priority=policy.priority,
        created_at_ms=now,
        modified_at_ms=now,
        ready_at_ms=now,
        wake_at_ms=wake_at_ms,
        score_ms=score_ms,
        steps=[Step(_CREATED, tx.index, tx.term, 0)],
        overdue_ms=due_at_ms - nominal_at_ms,
        expires_at_ms=expires_at_ms,
    )
    job.runs += 1
    job.active = 1
    job.gap = None
    job.last_instance = key
    job.nominal_at_ms = job.fire_at_ms = upcoming
    job.never_fires = False
    actions = tx.actions
    if recurs:
        job.zones = c.zones
        tx.view.put(BY_JOB, by_job_row(job_id, nominal_at_ms, 0), _IS_WAITING_ROW)
    actions.append(InstanceReady(key, 0, score_ms))
    if wake_at_ms is not None:
        actions.append(InstanceTimer(key, wake_at_ms))
    tx.events.changes.append(
        InstanceChange(_STATE, _WAITING, job.namespace, nominal_at_ms, job_id, 0, 0, "", None, False)
    )
    tx.indexed[key] = UNLISTED
    tx.unwritten[key] = instance
    actions.append(InstanceFired(now - due_at_ms))
    drop_due(tx, nominal_at_ms, job_id)
    if upcoming is not None:
        put_due(tx, upcoming, job_id)
        actions.append(JobDue(job_id, job.revision, upcoming))
    tx.put_job_row(u64(job_id), encode_row(job))
    return True


def assign(tx: Tx, c: Assign, made: Instance) -> int | None:
    """Gives a run that was made in the same entry to a session. Returns the token of the attempt; None: it did not."""
    key, meta, session = c.instance, tx.meta, tx.session(c.session)
    if tx.indexed[key] is not UNLISTED or meta.paused or session is None or not session.open:
        return None
    node = session.node
    rule = tx.node_rule(node)
    if rule is not None and rule.drained:
        return None
    now, job_id = tx.now, made.job_id
    meta.last_token = token = meta.last_token + 1
    made.attempts.append(
        Attempt(number=1, node=node, session=session.id, token=token, assigned_at_ms=now, placement=c.placement)
    )
    made.state = _LAUNCHED
    made.wake_at_ms = None
    made.steps.append(Step(_ASSIGNED, tx.index, tx.term, 0, None, token))
    changes = tx.events.changes
    namespace = tx.events.namespaces[job_id]  # of the job, which was read in this entry
    changes.append(InstanceChange(_STATE, _LAUNCHED, namespace, made.nominal_at_ms, job_id, 0, 1, node, None, False))
    del tx.unwritten[key]
    tx.put_instance_row(key, encode_row(made))
    tx.view.put(ASSIGNED, assigned_key(session.id, token), key)
    tx.actions.append(AttemptAssigned(node, session.id, token, key, "", ""))
    return token


def succeed(tx: Tx, c: Ended, job: Job, key: bytes, instance: Instance, attempt: Attempt) -> bool:
    """Ends the first attempt, and with it the run, by the report of a success. Returns whether it did: all is stored
    then."""
    meta, policy = tx.meta, job.policy
    told = instance.state is _RUNNING  # of its start, before
    started_at_ms = attempt.started_at_ms if told and c.started_at_ms is None else c.started_at_ms
    if started_at_ms is None or len(instance.steps) != (3 if told else 2):
        return False
    if job.state is not _SCHEDULED or job.counted != _SCHEDULED or job.active != 1 or job.revision != 1:
        return False
    if attempt.number != 1 or attempt.queue or attempt.quota or instance.request:
        return False
    if instance.permit is not None or instance.root is not None or instance.watch_at_ms is not None:
        return False
    if instance.notice is not None or job.watch_at_ms is not None or not is_plain(policy):
        return False
    now, job_id, once = tx.now, job.id, policy.trigger.kind in _ONCE
    if once:
        if job.nominal_at_ms is not None or job.failed or instance.nominal_at_ms != scheduled_ms(job):
            return False
    elif job.nominal_at_ms is None:
        return False
    if (meta.webhooks or meta.followers or meta.awaited) and _is_listened_to(tx, job):
        return False
    view, actions, namespace = tx.view, tx.actions, job.namespace
    error, result = c.error, c.result
    attempt.started_at_ms, attempt.ended_at_ms, attempt.outcome = started_at_ms, c.ended_at_ms, c.outcome
    attempt.exit_code = c.exit_code
    attempt.error = error if error is None else error[:ERROR_MAX]
    attempt.result = result if result is None or len(result) <= RESULT_MAX else None
    attempt.output, attempt.output_node = c.output, c.output_node
    node, session, token = attempt.node, attempt.session, attempt.token
    view.delete(ASSIGNED, assigned_key(session, token))
    took_ms, need = c.ended_at_ms - started_at_ms, policy.required_capability
    if told:
        tx.minutes.ended(namespace, _DONE)
    else:
        late_ms = started_at_ms - instance.nominal_at_ms - instance.jitter_ms - instance.overdue_ms
        tx.minutes.succeeded(namespace, late_ms)
        actions.append(InstanceStarted(late_ms))
    actions.append(AttemptEnded(node, session, token, key, "", c.outcome, need, took_ms, "", namespace))
    instance.state = _DONE
    instance.error = attempt.error
    instance.reason = instance.wake_at_ms = None
    instance.ended_at_ms = instance.modified_at_ms = now
    instance.steps.append(Step(_FINAL, tx.index, tx.term, now - instance.created_at_ms, None, token))
    job.last_start_at_ms, job.last_end_at_ms, job.last_node = started_at_ms, c.ended_at_ms, node
    job.last_success_at_ms = now
    if meta.level >= LAST_END_IS_KEPT:
        job.last_state, job.last_duration_ms = _DONE, took_ms if took_ms > 0 else 0
    job.active = job.failures_in_a_row = 0
    job.succeeded += 1
    if once:
        job.state, job.modified_at_ms = _OVER, now
        job.never_fires = False
        job.purge_at_ms = now + meta.settings.once_succeeded_keep_ms
        tx.events.changes.append(JobChange(_JOB_STATE, _OVER, namespace, job_id, 1))
        counts = meta.jobs
        counts[_SCHEDULED] -= 1
        counts[_OVER] += 1
        job.counted = _OVER
        view.put(PURGE, job_purge_key(job.purge_at_ms, job_id), b"")
    else:
        view.put(BY_JOB, by_job_row(job_id, instance.nominal_at_ms, 0), _IS_DONE_ROW)
        instance.purge_at_ms = now + policy.retention.max_age_ms
        keep_newest(tx, job, instance)
        view.put(PURGE, purge_key(instance.purge_at_ms, job_id, key), b"")
    tx.events.changes.append(
        InstanceChange(_STATE, _DONE, namespace, instance.nominal_at_ms, job_id, 0, 1, node, None, False)
    )
    tx.put_job_row(u64(job_id), encode_row(job))
    tx.put_instance_row(key, encode_row(instance))
    return True


def _is_limited(tx: Tx, job: Job) -> bool:
    """Returns whether the queue of the job's runs, or that of its namespace, has limits."""
    if tx.meta.queues <= tx.meta.webhooks:  # each webhook has a queue, for deliveries alone
        return False
    return tx.queue(job.policy.queue) is not None or tx.queue(quota_queue(job.namespace)) is not None


def _is_listened_to(tx: Tx, job: Job) -> bool:
    """Returns whether somebody may have to be told that a run of the job started or succeeded: a webhook, a job that
    follows it, or a run that awaits its success."""
    if tx.meta.webhooks and listens(tx, job.namespace):
        return True
    if job.name is None:
        return False
    if tx.meta.followers and is_followed(tx.view, f"{job.namespace}/{job.name}"):
        return True
    return tx.meta.awaited > 0 and is_awaited(tx, job.namespace, job.name)
