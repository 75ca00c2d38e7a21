"""Runs of several parts: split, made and run again in bounded steps, asked to end.

The instance that fired is the parent. It waits as any other; when its turn comes the leader splits it. Its parts are
instances of their own, beside it by their keys: the same job and nominal time, and numbers of requests that follow one
another. No index of the job lists them: history, retention, overlap and events are about the parent.

A parent that is not through with a step has a timer for now, so that the leader wakes it, whoever leads.
"""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.bounds import SHARDS_MAX
from raftsched.core.actions import InstanceStarted, KillAsked
from raftsched.core.apply.indexes import waits_in_ready
from raftsched.core.apply.resources.queue_edits import clear_unplaceable, rank
from raftsched.core.apply.runs.finish import end_parent, end_part, settle
from raftsched.core.apply.runs.run_keys import count_start
from raftsched.core.apply.runs.watches import note_start
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, Rejected, Split
from raftsched.core.ids import instance_key
from raftsched.core.limits import TARGETS_MAX
from raftsched.core.model import (
    ASKED_FOR,
    FINAL,
    PART,
    Instance,
    InstanceState,
    Job,
    Parts,
    PartsTask,
    StepKind,
)
from raftsched.core.rules.executors import executor_error
from raftsched.core.rules.lateness import NOT_DUE
from raftsched.core.rules.run_keys import PermitState
from raftsched.core.subjects.changes import InstanceEvent
from raftsched.core.tables import INSTANCES
from raftsched.core.transitions import instance_after

STEP = 50  # parts that one command makes, runs again or ends: one batch may hold many commands


def split(tx: Tx, c: Split) -> Answer:
    """Makes the first parts of a run whose turn has come, or lets those run again that did not succeed."""
    parent = tx.instance(c.instance)
    job = None if parent is None else tx.job(parent.job_id)
    if parent is None or job is None or not waits_in_ready(parent) or parent.parent is not None:
        return STALE
    if parent.expires_at_ms is not None and parent.expires_at_ms <= tx.now:
        return STALE  # its timer is due, and says so
    if parent.permit is not None and parent.permit.state is not PermitState.HELD:
        return STALE  # as of one that is assigned
    if tx.meta.paused:
        return Rejected("cluster-paused")
    parts = parent.parts
    if parts is None:
        policy = tx.policy_of(job, parent)
        targets = c.targets if policy.on_all else ()
        total = len(targets) if policy.on_all else policy.shards
        if not 1 <= total <= (TARGETS_MAX if policy.on_all else SHARDS_MAX):
            return STALE
        if (len(set(targets)) < total and targets) or any(executor_error(target) for target in targets):
            return STALE
        parts = parent.parts = Parts(_first_request(tx, parent, total), total, targets=targets)
        _note_start(tx, job, parent)
    else:
        parts.anew = parts.succeeded == parts.total
    if parent.permit is not None:
        count_start(tx, parent)
    clear_unplaceable(parent)
    parts.task, parts.next, parts.error = PartsTask.MAKE, 0, None
    parent.wake_at_ms = None
    parent.reason = None
    parent.error = None
    parent.state = instance_after(parent.state, "split")
    add_step(tx, parent, StepKind.SPLIT, f"{parts.total}")
    if job.policy.notify or tx.meta.webhooks:
        note_start(tx, job, parent, tx.now)
    advance(tx, job, parent)
    settle(tx, job)
    tx.put_instance(parent)
    tx.put_job(job)
    return Accepted()


def advance(tx: Tx, job: Job, parent: Instance) -> None:
    """Does the next step of a parent that runs, and sets its timer when there is more. The caller stores both."""
    parts = parent.parts
    assert parts is not None
    parent.wake_at_ms = None
    if parts.task is PartsTask.MAKE:
        done = _make(tx, job, parent, parts)
    elif parts.task is PartsTask.KILL:
        done = _kill(tx, parent, parts)
    else:
        return
    if done:
        parts.task, parts.next, parts.anew = PartsTask.NONE, 0, False
    else:
        parent.wake_at_ms = tx.now
    end_parent(tx, job, parent)


def ask_to_end(tx: Tx, parent: Instance, reason: str) -> None:
    """Has the parts of a parent that runs ended, in steps. The caller stores it."""
    parts = parent.parts
    assert parts is not None
    if parent.kill_asked:
        return
    parent.kill_asked = True
    parent.reason = reason
    parts.task, parts.next, parts.anew = PartsTask.KILL, 0, False
    parent.wake_at_ms = tx.now
    add_step(tx, parent, StepKind.KILL_ASKED, reason)
    tx.events.instance(parent, InstanceEvent.KILL_ASKED)


def _first_request(tx: Tx, parent: Instance, total: int) -> int:
    """Returns the first of so many numbers that no instance has."""
    while True:
        first = tx.new_id()
        tx.meta.last_id += total
        low = instance_key(parent.nominal_at_ms, parent.job_id, first)
        tx.flush_new()
        if next(tx.view.scan(INSTANCES, low, instance_key(parent.nominal_at_ms, parent.job_id, first + total)), None):
            continue  # somebody chose it for a manual run
        return first


def _note_start(tx: Tx, job: Job, parent: Instance) -> None:
    late_ms = 0
    if parent.steps[0].detail not in ASKED_FOR and not any(s.kind in NOT_DUE for s in parent.steps):
        late_ms = tx.now - parent.due_at_ms
        tx.actions.append(InstanceStarted(late_ms))
    tx.minutes.started(job.namespace, True, late_ms)


def _chosen(tx: Tx, parent: Instance, parts: Parts) -> Iterator[Instance]:
    """Returns the parts of this step, of those that are made."""
    until = min(parts.made, parts.next + STEP)
    while parts.next < until:
        part = tx.instance(parts.key(parent, parts.next))
        parts.next += 1
        if part is not None:
            yield part


def _make(tx: Tx, job: Job, parent: Instance, parts: Parts) -> bool:
    """Lets parts run again, then makes those that are not there. Returns whether that is all."""
    room = STEP
    if parts.next < parts.made:
        before = parts.next
        for part in _chosen(tx, parent, parts):
            if part.state in FINAL and (parts.anew or part.state is not InstanceState.SUCCEEDED):
                _run_again(tx, job, parent, parts, part)
        room -= parts.next - before
    while room > 0 and parts.next >= parts.made and parts.made < parts.total:
        _add(tx, job, parent, parts)
        room -= 1
    if parts.next < parts.made or parts.made < parts.total:
        return False
    parts.targets = ()
    return True


def _add(tx: Tx, job: Job, parent: Instance, parts: Parts) -> None:
    index = parts.made
    part = Instance(
        job_id=job.id,
        nominal_at_ms=parent.nominal_at_ms,
        request=parts.first + index,
        state=InstanceState.WAITING,
        job_revision=parent.job_revision,
        priority=parent.priority,
        created_at_ms=tx.now,
        modified_at_ms=tx.now,
        ready_at_ms=parent.ready_at_ms,
        params=parent.params,
        parent=parent.key,
        shard_index=index,
        shard_count=0 if parts.targets else parts.total,
        only_on=parts.targets[index] if parts.targets else "",
        trigger=parent.trigger,
        cause=parent.cause,
        root=parent.root,
        passed=parent.passed,
    )
    parts.made += 1
    parts.next = parts.made
    add_step(tx, part, StepKind.CREATED, PART)
    rank(tx, job, part)
    tx.put_instance(part)


def _run_again(tx: Tx, job: Job, parent: Instance, parts: Parts, part: Instance) -> None:
    parts.count(part.state, -1)
    if part.state is InstanceState.SUCCEEDED:
        part.kept = None
    part.progress = None
    part.state = instance_after(part.state, "rerun")
    part.job_revision = parent.job_revision
    part.kill_asked = False
    part.tried = part.lost = part.handed_back = part.snoozes = 0
    part.reason = part.error = None
    part.ended_at_ms = None
    part.ready_at_ms = parent.ready_at_ms
    add_step(tx, part, StepKind.RERUN)
    rank(tx, job, part)
    tx.put_instance(part)


def _kill(tx: Tx, parent: Instance, parts: Parts) -> bool:
    """Ends parts that have not started, and asks those that run to end. Returns whether these were all."""
    reason = parent.reason or "killed"
    for part in _chosen(tx, parent, parts):
        if part.state in FINAL:
            continue
        attempt = part.live
        if attempt is None:
            part.reason = reason
            end_part(tx, parent, part, "kill")
        else:
            if not part.kill_asked:
                part.kill_asked = True
                part.reason = reason
                add_step(tx, part, StepKind.KILL_ASKED, reason, attempt.token)
            tx.actions.append(KillAsked(attempt.node, attempt.session, attempt.token))
        tx.put_instance(part)
    return parts.next >= parts.made
