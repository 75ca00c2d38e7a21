"""Assign, started, ended, lost. An attempt ends by its worker's report or by its session's end, never otherwise."""

from __future__ import annotations

from raftsched.core.apply.finish import finish, settle
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import (
    Accepted,
    Answer,
    Assign,
    AttemptAssigned,
    AttemptEnded,
    Ended,
    Rejected,
    Started,
    Wake,
)
from raftsched.core.limits import ERROR_MAX, RESULT_MAX, U64_MAX
from raftsched.core.model import Attempt, Delivery, Instance, InstanceState, Job, Outcome
from raftsched.core.tables import Table, assigned_key, u64
from raftsched.core.transitions import instance_after, instance_next

STALE = Rejected("stale")


def assign(tx: Tx, c: Assign) -> Answer:
    instance = tx.instance(c.instance)
    if instance is None or instance.held or instance_next(instance.state, "assign") is None:
        return STALE
    session = tx.session(c.session)
    if session is None or not session.open:
        return STALE
    if tx.view.get(Table.JOBS, u64(instance.job_id)) is None:
        return STALE
    tx.clear_ready(instance)
    tx.set_wake(instance, None)
    tx.meta.last_token += 1
    token = tx.meta.last_token
    number = (instance.attempts[-1].number if instance.attempts else 0) + 1
    instance.attempts.append(
        Attempt(number=number, node=session.node, session=session.id, token=token, assigned_at_ms=tx.now)
    )
    del instance.attempts[: -tx.meta.settings.attempts_kept]
    instance.state = instance_after(instance.state, "assign")
    instance.reason = None
    tx.put_instance(instance)
    tx.view.put(Table.ASSIGNED, assigned_key(session.id, token), c.instance)
    tx.actions.append(AttemptAssigned(session.node, session.id, token, c.instance))
    return Accepted(number=token)


def _live(tx: Tx, session: int, token: int) -> tuple[Instance, Attempt] | None:
    if not (0 <= session <= U64_MAX and 0 <= token <= U64_MAX):
        return None
    key = tx.view.get(Table.ASSIGNED, assigned_key(session, token))
    if key is None:
        return None
    instance = tx.instance(key)
    if instance is None or instance.live is None or instance.live.token != token:
        return None
    return instance, instance.live


def started(tx: Tx, c: Started) -> Answer:
    found = _live(tx, c.session, c.token)
    if found is None:
        return STALE
    instance, attempt = found
    if instance.state is InstanceState.RUNNING:
        return Accepted()
    attempt.started_at_ms = c.started_at_ms
    instance.state = instance_after(instance.state, "start")
    tx.put_instance(instance)
    job = tx.job(instance.job_id)
    if job is not None:
        job.last_start_at_ms = c.started_at_ms
        job.last_node = attempt.node
        tx.put_job(job)
    return Accepted()


def ended(tx: Tx, c: Ended) -> Answer:
    found = _live(tx, c.session, c.token)
    if found is None or c.outcome is Outcome.LOST:
        return STALE
    instance, attempt = found
    attempt.started_at_ms = c.started_at_ms if c.started_at_ms is not None else attempt.started_at_ms
    attempt.ended_at_ms = c.ended_at_ms
    attempt.exit_code = c.exit_code
    attempt.error = c.error if c.error is None else c.error[:ERROR_MAX]
    attempt.result = c.result if c.result is None or len(c.result) <= RESULT_MAX else None
    attempt.output = c.output
    _close(tx, instance, attempt, c.outcome)
    return Accepted()


def lose(tx: Tx, key: bytes, session: int) -> None:
    """The session of the instance's live attempt is over."""
    instance = tx.instance(key)
    if instance is None or instance.live is None or instance.live.session != session:
        return
    attempt = instance.live
    attempt.ended_at_ms = tx.now
    _close(tx, instance, attempt, Outcome.LOST)


def _close(tx: Tx, instance: Instance, attempt: Attempt, outcome: Outcome) -> None:
    attempt.outcome = outcome
    tx.view.delete(Table.ASSIGNED, assigned_key(attempt.session, attempt.token))
    tx.actions.append(AttemptEnded(attempt.node, attempt.session, attempt.token, instance.key))
    job = tx.job(instance.job_id)
    if job is None:
        return
    if attempt.started_at_ms is not None:
        job.last_start_at_ms = attempt.started_at_ms
    job.last_end_at_ms = attempt.ended_at_ms
    job.last_node = attempt.node
    instance.error = attempt.error
    if outcome is Outcome.SUCCEEDED:
        instance.reason = None
        finish(tx, job, instance, "succeed")
    elif instance.kill_asked:
        instance.reason = instance.reason or "killed"
        finish(tx, job, instance, "kill")
    elif outcome in (Outcome.LOST, Outcome.KILLED):
        # Killed, and nobody had asked: its worker ended it for reasons of its own, and the run is still owed.
        _lost(tx, job, instance)
    else:
        _failed(tx, job, instance, outcome)
    settle(tx, job)
    tx.put_job(job)
    tx.put_instance(instance)


def _lost(tx: Tx, job: Job, instance: Instance) -> None:
    instance.lost += 1
    policy = tx.policy_of(job, instance)
    if policy.delivery is Delivery.AT_MOST_ONCE:
        instance.reason = "lost"
        instance.error = "Its worker was lost, and the job is to run at most once."
        finish(tx, job, instance, "fail")
    elif instance.lost > policy.max_lost:
        instance.reason = "max_lost"
        instance.error = f"Its worker was lost {instance.lost} times."
        finish(tx, job, instance, "fail")
    else:
        instance.state = instance_after(instance.state, "requeue")
        instance.reason = "worker_lost"
        instance.ready_at_ms = tx.now
        tx.set_ready(instance)


def _failed(tx: Tx, job: Job, instance: Instance, outcome: Outcome) -> None:
    retry = tx.policy_of(job, instance).retry
    instance.tried += 1
    if outcome in retry.on and instance.tried <= len(retry.delays_ms):
        instance.state = instance_after(instance.state, "retry")
        instance.reason = "retry"
        tx.set_wake(instance, tx.now + retry.delays_ms[instance.tried - 1])
        return
    instance.reason = "retries_exhausted" if instance.tried > 1 else None
    finish(tx, job, instance, "time_out" if outcome is Outcome.TIMED_OUT else "fail")


def wake(tx: Tx, c: Wake) -> Answer:
    instance = tx.instance(c.instance)
    if instance is None or instance.wake_at_ms != c.at_ms:
        return STALE
    job = tx.job(instance.job_id)
    if job is None:
        return STALE
    tx.set_wake(instance, None)
    if instance.state is InstanceState.RETRYING:
        instance.state = instance_after(instance.state, "wake")
        instance.ready_at_ms = tx.now
        tx.set_ready(instance)
    elif instance.state is InstanceState.WAITING:
        instance.reason = "start_deadline"
        instance.error = "No node could take it before its start deadline."
        finish(tx, job, instance, "miss_start")
        settle(tx, job)
        tx.put_job(job)
    tx.put_instance(instance)
    return Accepted()
