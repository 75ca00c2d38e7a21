"""Running a workflow again, from one of its instances on."""

from __future__ import annotations

from collections import deque

from raftsched.core.apply.ends import enter, workflow_of
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Rejected
from raftsched.core.ids import instance_text, split_instance
from raftsched.core.model import FINAL, After, Instance, Job, JobState
from raftsched.core.rows import JOINS, WORKFLOWS
from raftsched.core.selection import followers
from raftsched.core.workflows import Join, run_key, scope_of, waits_for_all

DOWNSTREAM_MAX = 1_000  # jobs that are run again behind one


def follower(tx: Tx, job_id: int, target: str) -> tuple[Job, After] | None:
    """Returns a job that follows this one, None when it does not."""
    job = tx.job(job_id)
    after = None if job is None else job.policy.trigger.after
    if job is None or after is None or job.state is JobState.DELETED or target not in after.jobs:
        return None
    return job, after


def run_on_from(tx: Tx, job: Job, instance: Instance) -> Rejected | None:
    """Has everything behind a final instance run again, each job when those that it waits for have come to their new
    ends. Refused while one of them is active. The caller lets the instance itself run, and stores it."""
    root = instance.root or instance.key
    found = _reachable(tx, job, split_instance(root)[1])
    if isinstance(found, Rejected):
        return found
    names = {f"{job.namespace}/{job.name}", *(f"{one.namespace}/{one.name}" for one, _ in found)}
    for one, after in found:
        key = run_key(after, one.id, root)
        row = tx.instance(key)
        if row is not None and (row.state not in FINAL or row.telling is not None):
            detail = f"{instance_text(key)} of {one.namespace}/{one.name}, which follows it, is {row.state.name}"
            return Rejected("illegal-transition", f"{detail}; kill it, or wait for its end.")
    enter(tx, instance)
    workflow = workflow_of(tx, root)
    workflow.generation += 1
    workflow.killed_at_ms = None
    WORKFLOWS.put(tx.view, workflow, root)
    instance.generation = workflow.generation
    instance.followed = 0
    for one, after in found:
        if waits_for_all(after):
            _wait_anew(tx, one, after, root, names, workflow.generation)
    return None


def _reachable(tx: Tx, job: Job, root_job: int) -> list[tuple[Job, After]] | Rejected:
    """Returns the jobs that follow the job, directly or by way of others."""
    targets = deque(() if job.name is None else (f"{job.namespace}/{job.name}",))
    found: dict[int, tuple[Job, After]] = {}
    while targets:
        target = targets.popleft()
        for job_id in list(followers(tx.view, target)):
            one = None if job_id in found or job_id in (job.id, root_job) else follower(tx, job_id, target)
            if one is None:
                continue
            if len(found) >= DOWNSTREAM_MAX:
                detail = f"More than {DOWNSTREAM_MAX:,} jobs follow it; rerun instances that are further on."
                return Rejected("too-many", detail)
            found[job_id] = one
            if one[0].name is not None:
                targets.append(f"{one[0].namespace}/{one[0].name}")
    return list(found.values())


def _wait_anew(tx: Tx, job: Job, after: After, root: bytes, again: set[str], generation: int) -> None:
    """Has a job wait for those that run again. What it does not wait for anew has come already, if it had run."""
    scope = scope_of(root)
    join = JOINS.get(tx.view, scope, job.id)
    if join is None:
        before = tx.instance(run_key(after, job.id, root))
        if before is None:
            return
        came = {split_instance(key)[1]: key for key in before.joined}
        join = Join(at_ms=tx.now, root=before.root or root)
        for target in after.jobs:
            upstream = tx.named(*target.split("/", 1))
            if upstream is not None and upstream.id in came:
                join.came[target] = came[upstream.id]
    for target in again & join.came.keys():
        del join.came[target]
    join.at_ms, join.generation = tx.now, generation
    JOINS.put(tx.view, join, scope, job.id)
