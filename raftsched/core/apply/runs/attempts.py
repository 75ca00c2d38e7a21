"""Moves attempts on: assigned, started, ended, lost. An attempt ends by its worker's report or by its session's end,
never otherwise."""

from __future__ import annotations

from raftsched.bounds import DURATION_MAX_MS, ERROR_MAX
from raftsched.core.actions import AttemptAssigned, AttemptEnded, InstanceStarted
from raftsched.core.apply.indexes import indexed, reindex, waits_in_ready
from raftsched.core.apply.resources.queue_edits import (
    NO_QUEUES,
    acquire_queue_slot,
    clear_unplaceable,
    rank,
    release_queue_slot,
)
from raftsched.core.apply.runs import plain
from raftsched.core.apply.runs.checks import wake_checking
from raftsched.core.apply.runs.conditions import span
from raftsched.core.apply.runs.finish import finish, settle
from raftsched.core.apply.runs.notices import GONE, deactivate_if_gone, note_attempt
from raftsched.core.apply.runs.parts import advance
from raftsched.core.apply.runs.run_keys import count_start, give_back
from raftsched.core.apply.runs.unstarted import expire, miss_deadline
from raftsched.core.apply.runs.verdicts import judged, note_self_report
from raftsched.core.apply.runs.watches import note_end, note_start
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import (
    Accepted,
    Answer,
    Assign,
    Ended,
    EndedWithReport,
    LoseAttempt,
    Rejected,
    ReportProgress,
    SelfReport,
    Started,
    Wake,
)
from raftsched.core.levels import FIRST_START_COUNTS, NODES_DELIVER
from raftsched.core.limits import HANDED_BACK_MAX, RESULT_MAX, SNOOZE_MS, SNOOZES_MAX, U64_MAX
from raftsched.core.model import ASKED_FOR, Attempt, Delivery, Instance, InstanceState, Job, Outcome, StepKind, Verdict
from raftsched.core.rules.ascii import lower
from raftsched.core.rules.executors import is_worker
from raftsched.core.rules.intervals import retry_delay_ms
from raftsched.core.rules.lateness import NOT_DUE, first_start
from raftsched.core.rules.run_keys import PermitState
from raftsched.core.tables import ASSIGNED, assigned_key, u64
from raftsched.core.transitions import instance_after

NOT_BEGUN = "not_begun"
NO_RETRY = "no_retry"
SNOOZE_UNSAID_MS = 60_000  # where nobody says how long
_RUNNING, _ASSIGNED, _STARTED = InstanceState.RUNNING, StepKind.ASSIGNED, StepKind.STARTED
_HELD = PermitState.HELD
_SUCCEEDED, _LOST = Outcome.SUCCEEDED, Outcome.LOST
_BY_ITSELF = (_SUCCEEDED, Outcome.FAILED)
_NOT_REPORTED = (_LOST, Outcome.SNOOZED, Outcome.CANCELLED)  # apply makes these of what is reported


def assign(tx: Tx, c: Assign) -> Answer:
    made = tx.unwritten.get(c.instance)  # fired in the same entry: nothing of it is changed before all is checked
    if made is not None and (token := plain.assign(tx, c, made)) is not None:
        return Accepted(number=token)
    instance = tx.instance(c.instance) if made is None else made
    if instance is None or not waits_in_ready(instance) or instance.parts is not None:
        return STALE
    if instance.expires_at_ms is not None and instance.expires_at_ms <= tx.now:
        return STALE  # its timer is due, and says so
    if instance.permit is not None and instance.permit.state is not _HELD:
        return STALE  # it was put aside, and gave back the permit of its key
    session = tx.session(c.session)
    if session is None or not session.open or (instance.only_on and instance.only_on != session.node):
        return STALE
    if instance.notice is not None and is_worker(session.node) and tx.meta.level >= NODES_DELIVER:
        return Rejected("not-possible", "Events are delivered by nodes, not by remote workers.")
    job_raw = tx.get_job_row(u64(instance.job_id)) if made is None or tx.meta.queues else b""
    if job_raw is None:
        return STALE
    refused = _refused_now(tx, session.node)
    if refused is not None:
        return refused
    counted = acquire_queue_slot(tx, job_raw, instance) if tx.meta.queues else NO_QUEUES
    if isinstance(counted, Rejected):
        return counted
    queue, quota = counted
    if instance.permit is not None:
        count_start(tx, instance)
    if instance.reason is not None:
        clear_unplaceable(instance)
    instance.wake_at_ms = None
    tx.meta.last_token += 1
    token = tx.meta.last_token
    number = (instance.attempts[-1].number if instance.attempts else 0) + 1
    instance.attempts.append(
        Attempt(
            number=number,
            node=session.node,
            session=session.id,
            token=token,
            assigned_at_ms=tx.now,
            queue=queue,
            placement=c.placement,
            quota=quota,
        )
    )
    del instance.attempts[: -tx.meta.settings.attempts_kept]
    instance.state = instance_after(instance.state, "assign")
    instance.reason = None
    if instance.progress is not None:
        instance.progress = None  # that of the attempt before
    add_step(tx, instance, _ASSIGNED, None, token)
    tx.put_instance(instance, c.instance)
    tx.view.put(ASSIGNED, assigned_key(session.id, token), c.instance)
    tx.actions.append(AttemptAssigned(session.node, session.id, token, c.instance, queue, quota))
    return Accepted(number=token)


def _refused_now(tx: Tx, node: str) -> Rejected | None:
    """Refuses a start while the cluster is paused or the node is drained. The leader knows this and does not propose;
    what it had proposed before it knew is refused here."""
    if tx.meta.paused:
        return Rejected("cluster-paused")
    rule = tx.node_rule(node)
    return Rejected("drained") if rule is not None and rule.drained else None


def _live(tx: Tx, session: int, token: int) -> tuple[bytes, Instance, Attempt] | None:
    """Returns the live attempt of this token, with its instance and the key of that; None when there is none."""
    found = _stored(tx, session, token)
    if found is not None:
        tx.indexed[found[0]] = indexed(found[1])
    return found


def _stored(tx: Tx, session: int, token: int) -> tuple[bytes, Instance, Attempt] | None:
    """Returns the same as `_live`, but for those who note the instance in `indexed`, if they need it there."""
    if not (0 <= session <= U64_MAX and 0 <= token <= U64_MAX):
        return None
    key = tx.view.get(ASSIGNED, assigned_key(session, token))
    if key is None:
        return None
    instance = tx.stored_instance(key)
    attempt = None if instance is None else instance.live
    if instance is None or attempt is None or attempt.token != token:
        return None
    return key, instance, attempt


def started(tx: Tx, c: Started) -> Answer:
    found = _live(tx, c.session, c.token)
    if found is None:
        return STALE
    key, instance, attempt = found
    if instance.state is _RUNNING:
        return Accepted()
    attempt.started_at_ms = c.started_at_ms
    first, late_ms = _note_start(tx, instance, attempt)
    instance.state = instance_after(instance.state, "start")
    add_step(tx, instance, _STARTED, None, attempt.token)
    job = tx.job(instance.job_id)
    if job is not None and instance.parent is None:
        tx.minutes.started(job.namespace, first, late_ms)
    if job is not None and (job.policy.notify or tx.meta.webhooks):
        note_start(tx, job, instance, c.started_at_ms)
    tx.put_instance(instance, key)
    # A one-shot's row waits for the end: it lies where its creation put it, and would be a page written by itself.
    if job is not None and not job.policy.trigger.once:
        job.last_start_at_ms = c.started_at_ms
        job.last_node = attempt.node
        tx.put_job(job)
    return Accepted()


def _note_start(tx: Tx, instance: Instance, attempt: Attempt) -> tuple[bool, int]:
    """Returns whether a start is the first of its run, and how late that is, which it reports. A run that was asked for
    was not due; nor was one that waited for its conditions."""
    began_ms = attempt.started_at_ms
    if attempt.number > 1 and (tx.meta.level < FIRST_START_COUNTS or first_start(instance) is not attempt):
        return False, 0
    if began_ms is None or instance.steps[0].detail in ASKED_FOR:
        return True, 0
    if len(instance.steps) > 2 and any(s.kind in NOT_DUE for s in instance.steps):
        return True, 0  # of two steps one made it, and one assigned it
    late_ms = began_ms - instance.due_at_ms
    tx.actions.append(InstanceStarted(late_ms))
    return True, late_ms


def ended(tx: Tx, c: Ended) -> Answer:
    found = _stored(tx, c.session, c.token)
    if found is None or c.outcome in _NOT_REPORTED:
        return STALE
    key, instance, attempt = found
    job = tx.stored_job(instance.job_id)
    if job is not None:
        if c.outcome is _SUCCEEDED and plain.succeed(tx, c, job, key, instance, attempt):
            return Accepted()
        tx.note_job(job)
    tx.indexed[key] = indexed(instance)
    _ended(tx, c, job, key, instance, attempt, None, None, None)
    return Accepted()


def ended_with_report(tx: Tx, c: EndedWithReport) -> Answer:
    found = _live(tx, c.session, c.token)
    if found is None or c.outcome in _NOT_REPORTED:
        return STALE
    _ended(tx, c, tx.job(found[1].job_id), *found, c.verdict, c.delay_ms, c.said)
    return Accepted()


def report_progress(tx: Tx, c: ReportProgress) -> Answer:
    found = _live(tx, c.session, c.token)
    if found is None:
        return STALE
    key, instance, _ = found
    note_self_report(tx, instance, c.said)
    tx.put_instance(instance, key)
    return Accepted()


def _ended(
    tx: Tx,
    c: Ended,
    job: Job | None,
    key: bytes,
    instance: Instance,
    attempt: Attempt,
    verdict: Verdict | None,
    delay_ms: int | None,
    said: SelfReport | None,
) -> None:
    first_heard, first, late_ms = False, False, 0
    if c.started_at_ms is not None:
        first_heard = attempt.started_at_ms is None
        attempt.started_at_ms = c.started_at_ms
        if first_heard:
            first, late_ms = _note_start(tx, instance, attempt)
    attempt.ended_at_ms = c.ended_at_ms
    attempt.exit_code = c.exit_code
    attempt.error = c.error if c.error is None else c.error[:ERROR_MAX]
    attempt.result = c.result if c.result is None or len(c.result) <= RESULT_MAX else None
    attempt.output = c.output
    attempt.output_node = c.output_node
    if said is not None:
        note_self_report(tx, instance, said)
    if c.begun or c.outcome is not Outcome.KILLED or c.started_at_ms is not None:
        _close(tx, job, key, instance, attempt, c.outcome, verdict=verdict, delay_ms=delay_ms)
    else:
        _close(tx, job, key, instance, attempt, c.outcome, begun=False)
    if first_heard and job is not None and instance.parent is None:
        tx.minutes.started(job.namespace, first, late_ms)


def lose_one(tx: Tx, c: LoseAttempt) -> Answer:
    found = _live(tx, c.session, c.token)
    if found is None:
        return STALE
    key, instance, attempt = found
    first_heard = c.started_at_ms is not None and attempt.started_at_ms is None
    first, late_ms = attempt.number == 1, 0
    if c.started_at_ms is not None:
        attempt.started_at_ms = c.started_at_ms
    if first_heard and tx.meta.level >= FIRST_START_COUNTS:
        first, late_ms = _note_start(tx, instance, attempt)
    attempt.ended_at_ms = c.ended_at_ms
    attempt.error = c.error if c.error is None else c.error[:ERROR_MAX]
    attempt.output = c.output
    attempt.output_node = c.output_node
    job = tx.job(instance.job_id)
    _close(tx, job, key, instance, attempt, _LOST)
    if first_heard and job is not None and instance.parent is None:
        tx.minutes.started(job.namespace, first, late_ms)
    return Accepted()


def lose(tx: Tx, key: bytes, session: int) -> None:
    """Ends the live attempt of an instance as lost: its session is over."""
    instance = tx.instance(key)
    if instance is None or instance.live is None or instance.live.session != session:
        return
    attempt = instance.live
    attempt.ended_at_ms = tx.now
    _close(tx, tx.job(instance.job_id), key, instance, attempt, Outcome.LOST)


def hand_back(tx: Tx, key: bytes, session: int, ran: bool) -> None:
    """Ends the live attempt of an instance whose worker stopped, after the worker had ended what ran."""
    instance = tx.instance(key)
    if instance is None or instance.live is None or instance.live.session != session:
        return
    attempt = instance.live
    attempt.ended_at_ms = tx.now
    attempt.error = "Its node stopped."
    _close(tx, tx.job(instance.job_id), key, instance, attempt, Outcome.KILLED, ran=ran)


def _close(
    tx: Tx,
    job: Job | None,
    key: bytes,
    instance: Instance,
    attempt: Attempt,
    outcome: Outcome,
    *,
    ran: bool = True,
    begun: bool = True,
    verdict: Verdict | None = None,
    delay_ms: int | None = None,
) -> None:
    """Ends the attempt, with what follows from that. `verdict`, `delay_ms`: as in EndedWithReport."""
    tx.view.delete(ASSIGNED, assigned_key(attempt.session, attempt.token))
    if job is not None and (job.policy.notify or tx.meta.webhooks):
        _note_watched(tx, job, instance, attempt)
    if job is not None and outcome in _BY_ITSELF:
        outcome, verdict, delay_ms = judged(tx.policy_of(job, instance), attempt, outcome, verdict, delay_ms)
        if verdict is Verdict.SUCCEED:
            attempt.error = None  # of the code, which is none after all
    attempt.outcome = outcome
    began, ended = attempt.started_at_ms, attempt.ended_at_ms
    took = None if began is None or ended is None else ended - began
    need, namespace = ("", "") if job is None else (job.policy.required_capability, job.namespace)
    whose = attempt.node, attempt.session, attempt.token, key, attempt.queue
    tx.actions.append(AttemptEnded(*whose, outcome, need, took, attempt.quota, namespace))
    if attempt.queue:
        release_queue_slot(tx, attempt.queue)
    if attempt.quota:
        release_queue_slot(tx, attempt.quota)
    if instance.permit is not None:
        give_back(tx, instance)
    if job is None:
        return
    if attempt.started_at_ms is not None:
        job.last_start_at_ms = attempt.started_at_ms
    if begun and (attempt.started_at_ms is not None or tx.meta.level < FIRST_START_COUNTS):
        job.last_end_at_ms = attempt.ended_at_ms
        job.last_node = attempt.node
    instance.error = attempt.error
    if outcome is _SUCCEEDED:
        instance.reason = None
        finish(tx, job, instance, "succeed")
    elif instance.kill_asked:
        instance.reason = instance.reason or "killed"
        finish(tx, job, instance, "kill")
    elif outcome is Outcome.LOST:
        add_step(tx, instance, StepKind.LOST, token=attempt.token)
        _lost(tx, job, instance)
    elif not begun:  # its node has no more of something: no fault of the run's, however often it happens
        add_step(tx, instance, StepKind.ENDED, NOT_BEGUN, attempt.token)
        instance.state = instance_after(instance.state, "requeue")
        instance.reason = NOT_BEGUN
        rank(tx, job, instance)
    elif outcome is Outcome.KILLED:
        # Nobody had asked: its worker ended it for reasons of its own, and it is still owed.
        add_step(tx, instance, StepKind.ENDED, "handed_back", attempt.token)
        _handed_back(tx, job, instance, ran or attempt.started_at_ms is not None)
    elif outcome is Outcome.SNOOZED:
        _snooze(tx, job, instance, delay_ms)
    elif outcome is Outcome.CANCELLED:
        instance.reason = "cancelled"
        finish(tx, job, instance, "kill")
    else:
        _failed(tx, job, instance, outcome, verdict is Verdict.FAIL, min(delay_ms or 0, DURATION_MAX_MS))
    settle(tx, job)
    tx.put_job(job)
    tx.put_instance(instance, key)


def _note_watched(tx: Tx, job: Job, instance: Instance, attempt: Attempt) -> None:
    """Tells what is to be told of the attempt before it counts as ended."""
    if attempt.started_at_ms is None:
        return
    if instance.state is InstanceState.LAUNCHED:  # the start is heard of with the end
        note_start(tx, job, instance, attempt.started_at_ms)
    note_end(tx, job, instance, tx.now if attempt.ended_at_ms is None else attempt.ended_at_ms)


def _handed_back(tx: Tx, job: Job, instance: Instance, ran: bool) -> None:
    """Queues the instance again. Its worker stopped, which is no fault of the job, unless it happens again and again: a
    job that stops its nodes must not tour the cluster."""
    instance.handed_back += 1
    if ran:
        instance.expires_at_ms = None
    once = tx.policy_of(job, instance).delivery is Delivery.AT_MOST_ONCE
    if ran and once:
        instance.reason = "handed_back"
        instance.error = "Its node stopped while it ran, and the job is to run at most once."
        finish(tx, job, instance, "fail")
    elif instance.handed_back > HANDED_BACK_MAX:
        _lost(tx, job, instance)
    else:  # where it was in the queue
        instance.state = instance_after(instance.state, "requeue")
        instance.reason = "handed_back"
        rank(tx, job, instance)


def _lost(tx: Tx, job: Job, instance: Instance) -> None:
    instance.lost += 1
    instance.expires_at_ms = None  # it may have started
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
        if instance.attempts[-1].started_at_ms is not None or tx.meta.level < FIRST_START_COUNTS:
            instance.ready_at_ms = tx.now  # else it has waited all the time, and keeps its place in the queue
        rank(tx, job, instance)


def _snooze(tx: Tx, job: Job, instance: Instance, delay_ms: int | None) -> None:
    """Puts the instance off. No retry is used for that, but it ends when that comes to too many."""
    attempt = instance.attempts[-1]
    instance.snoozes += 1
    if instance.snoozes > SNOOZES_MAX:
        instance.reason = "snoozes_exhausted"
        instance.error = f"It was put off {SNOOZES_MAX:,} times, which is the limit."
        finish(tx, job, instance, "fail")
        return
    least, most = SNOOZE_MS
    wait_ms = SNOOZE_UNSAID_MS if delay_ms is None else max(least, min(delay_ms, most))
    instance.state = instance_after(instance.state, "retry")
    instance.reason = "snoozed"
    add_step(tx, instance, StepKind.ENDED, "snoozed", attempt.token)
    add_step(tx, instance, StepKind.SNOOZED, span(wait_ms))
    instance.wake_at_ms = tx.now + wait_ms
    instance.expires_at_ms = None


def _failed(
    tx: Tx, job: Job, instance: Instance, outcome: Outcome, for_good: bool = False, least_delay_ms: int = 0
) -> None:
    """Lets the instance run again after a delay, or ends it. `for_good`: no retry would help. `least_delay_ms`: sooner
    it does not run again."""
    retry = tx.policy_of(job, instance).retry
    instance.tried += 1
    if instance.notice is not None:
        note_attempt(tx, job, failed=True)
        if deactivate_if_gone(tx, job, instance.attempts[-1]):
            instance.reason = GONE
            finish(tx, job, instance, "fail")
            return
    if for_good:
        instance.reason = NO_RETRY
        finish(tx, job, instance, "fail")
        return
    if outcome in retry.on and instance.tried <= len(retry.delays_ms):
        instance.state = instance_after(instance.state, "retry")
        instance.reason = "retry"
        add_step(tx, instance, StepKind.ENDED, lower(outcome.name), instance.attempts[-1].token)
        add_step(tx, instance, StepKind.RETRY, f"level {instance.tried}")
        wait_ms = retry_delay_ms(retry, instance.key, instance.tried)
        instance.wake_at_ms = tx.now + (least_delay_ms if least_delay_ms > wait_ms else wait_ms)
        instance.expires_at_ms = None
        return
    instance.reason = "retries_exhausted" if instance.tried > 1 else None
    finish(tx, job, instance, "time_out" if outcome is Outcome.TIMED_OUT else "fail")


def wake(tx: Tx, c: Wake) -> Answer:
    instance = tx.instance(c.instance)
    job = None if instance is None or instance.wake_at_ms != c.at_ms else tx.job(instance.job_id)
    if instance is None or job is None:
        return STALE
    instance.wake_at_ms = None
    reindex(tx, instance)  # the timer is over, also when it is set to the same time below
    if instance.telling is not None:  # it is at its end
        tx.ended.append(c.instance)
    elif instance.state is InstanceState.RETRYING:
        instance.state = instance_after(instance.state, "wake")
        instance.ready_at_ms = tx.now
        add_step(tx, instance, StepKind.READY)
        rank(tx, job, instance)
    elif instance.parts is not None and instance.state is _RUNNING:
        advance(tx, job, instance)
        settle(tx, job)
        tx.put_job(job)
    elif instance.expires_at_ms is not None and instance.expires_at_ms <= c.at_ms:
        expire(tx, job, instance)
        return Accepted()
    elif instance.checking:
        wake_checking(tx, job, instance, c.at_ms)
        tx.put_job(job)
    elif instance.state is InstanceState.WAITING:
        miss_deadline(tx, job, instance)
        return Accepted()
    tx.put_instance(instance)
    return Accepted()
