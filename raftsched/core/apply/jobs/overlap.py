"""Limits how many runs of a job are active at a time: refuses one more, or ends others to make room."""

from __future__ import annotations

from raftsched.core.actions import KillAsked
from raftsched.core.apply.indexes import waits_in_line, waits_in_ready
from raftsched.core.apply.runs.finish import finish
from raftsched.core.apply.runs.parts import ask_to_end
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Rejected
from raftsched.core.model import FINAL, Instance, InstanceState, Job, Overlap, StepKind, scheduled_instance
from raftsched.core.rules.concurrency import can_start, concurrency_limit
from raftsched.core.subjects.changes import InstanceEvent
from raftsched.core.tables import Table, after, from_by_job, u64

_REPLACE = Overlap.REPLACE


def too_many_active(tx: Tx, job: Job) -> Rejected | None:
    """Refuses one more active instance when the job has as many as any job may have."""
    limit = tx.meta.settings.active_max
    if job.active < limit:
        return None
    return Rejected("too-many", f"{job.active} runs of this job are active; {limit} is the limit.")


def refused_by_overlap(tx: Tx, job: Job, may_wait: int = 0) -> Rejected | None:
    """Refuses one more active instance when the overlap policy forbids it. One between attempts counts as active.
    `may_wait`: how many runs may wait behind the others at least: those that make up for missed times."""
    policy = job.policy.overlap
    if can_start(job) or policy in (Overlap.ALLOW, Overlap.REPLACE):
        return None
    limit = 0
    if policy is not Overlap.FORBID:
        limit = 1 if policy is Overlap.QUEUE_ONE else tx.meta.settings.queue_all_max
    if job.held < max(limit, may_wait):
        return None
    going = "A run is" if job.active == 1 else f"{job.active} runs are"
    return Rejected(
        "illegal-transition",
        f"{going} active and the job's overlap policy allows no other; wait for an end or kill one first.",
    )


def replace_active(tx: Tx, job: Job, exclude: bytes | None = None) -> int | None:
    """Ends the oldest, under the policy "replace", to make room for one more (`exclude`, when it exists already).
    Returns since when the first of those waited for a worker, None when none did. The run that replaces it counts as
    waiting as long: where workers are scarce no run of the job would ever start otherwise."""
    if job.policy.overlap is not _REPLACE:
        return None
    limit = concurrency_limit(job.policy)
    if limit is None or job.active < limit:
        return None
    return kill_active(tx, job, "replaced", exclude, keep_newest=limit - 1)


def kill_active(tx: Tx, job: Job, reason: str, exclude: bytes | None = None, keep_newest: int = 0) -> int | None:
    """Ends instances that have not started, and asks those that run to end: oldest first, all but the `keep_newest`
    newest. Returns since when the first of them waited for a worker, None when none did."""
    keys = active_instances(tx, job, exclude)
    since_ms = None
    for key in keys[: len(keys) - keep_newest]:
        instance = tx.instance(key)
        if instance is not None:
            if (waits_in_ready(instance) or waits_in_line(instance)) and (
                since_ms is None or instance.ready_at_ms < since_ms
            ):
                since_ms = instance.ready_at_ms
            end_or_ask(tx, job, instance, reason)
    return since_ms


def end_or_ask(tx: Tx, job: Job, instance: Instance, reason: str) -> None:
    """Kills an instance. An attempt ends by its worker's report only, so one that runs is asked to end; one that does
    not run is KILLED at once. The caller stores the job and settles it."""
    if instance.state in FINAL:
        return
    attempt = instance.live
    if attempt is None and instance.parts is not None and instance.state is InstanceState.RUNNING:
        ask_to_end(tx, instance, reason)
    elif attempt is None:
        instance.reason = reason
        finish(tx, job, instance, "kill")
    else:
        if not instance.kill_asked:
            instance.kill_asked = True
            instance.reason = reason
            add_step(tx, instance, StepKind.KILL_ASKED, reason, attempt.token)
            tx.events.instance(instance, InstanceEvent.KILL_ASKED)
        tx.actions.append(KillAsked(attempt.node, attempt.session, attempt.token))
    tx.put_instance(instance)


def active_instances(tx: Tx, job: Job, exclude: bytes | None = None) -> list[bytes]:
    """Returns the keys of the job's instances that are not final, but for one, oldest first. They are searched from the
    newest on, as many as are counted: the history may be much longer."""
    keys: list[bytes] = []
    own = scheduled_instance(job)
    if own is not None and own != exclude:
        instance = tx.instance(own)
        if instance is not None and instance.state not in FINAL:
            keys.append(own)
    prefix = u64(job.id)
    if len(keys) < job.active:
        for row, state in tx.view.scan(Table.BY_JOB, prefix, after(prefix), reverse=True):
            key = from_by_job(row)
            if state[0] not in FINAL and key != exclude:
                keys.append(key)
                if len(keys) >= job.active:
                    break
    keys.sort()
    return keys
