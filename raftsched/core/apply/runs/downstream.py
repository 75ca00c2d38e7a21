"""Runs a workflow again, from one of its instances on."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from raftsched.core.apply.runs.ends import enter, workflow_of
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Rejected
from raftsched.core.ids import instance_text, job_text, split_instance
from raftsched.core.model import FINAL, After, Instance, Job, JobState
from raftsched.core.rows import JOINS, WORKFLOWS
from raftsched.core.rules.selection import followers
from raftsched.core.subjects.workflow import Join, run_key, scope_of, waits_for_all
from raftsched.core.tables import Table, from_u64, name_key

DOWNSTREAM_MAX = 1_000  # jobs that are run again behind one
DOWNSTREAM_EDGES_MAX = 50_000  # between jobs, that are looked at for it: all nodes wait for the entry


def follower(tx: Tx, job_id: int, target: str) -> tuple[Job, After] | None:
    """Returns a job that follows this one, None when it does not."""
    job = tx.job(job_id)
    after = None if job is None else job.policy.trigger.after
    if job is None or after is None or job.state is JobState.DELETED or target not in after.jobs:
        return None
    return job, after


def run_on_from(tx: Tx, job: Job, instance: Instance, allowed: tuple[str, ...] | None) -> Rejected | None:
    """Has everything behind a final instance run again, each job when those that it waits for have come to their new
    ends. Refused while one of them is active, and where that is more than the caller may do. `allowed`: the namespaces
    in which they may have jobs run; None: all. The caller lets the instance itself run, and stores it."""
    root = instance.root or instance.key
    found = _reachable(tx, job, instance.key, root)
    if isinstance(found, Rejected):
        return found
    workflows = sorted({root, *(one.root for one in found)})
    refused = None if allowed is None else _forbidden(tx, workflows, found, allowed)
    if refused is not None:
        return refused
    for one in found:
        row = one.row
        if row is not None and (row.state not in FINAL or row.telling is not None):
            detail = f"{instance_text(row.key)} of {one.name}, which follows it, is {row.state.name}"
            return Rejected("illegal-transition", f"{detail}; kill it, or wait for its end.")
    enter(tx, instance)
    for each in workflows:
        workflow = workflow_of(tx, each)
        workflow.reruns += 1
        workflow.killed_at_ms = None
        WORKFLOWS.put(tx.view, workflow, each)
    instance.rerun_id = tx.new_id()
    instance.followed = 0
    names = {f"{job.namespace}/{job.name}", *(one.name for one in found)}
    for one in found:
        if waits_for_all(one.after):
            _wait_anew(tx, one, names, instance.rerun_id)
    return None


class _Behind(NamedTuple):
    """A job that follows in a workflow, and its run there, if it had one."""

    job: Job
    after: After
    root: bytes  # of the ends that it waits for
    row: Instance | None

    @property
    def name(self) -> str:
        return f"{self.job.namespace}/{self.job.name or job_text(self.job.id)}"


def _reachable(tx: Tx, job: Job, own: bytes, root: bytes) -> list[_Behind] | Rejected:
    """Returns what follows the job's run `own`, directly or by way of others. What waited for several may have come to
    the workflow of another root, and what is behind it has, too."""
    targets = deque(() if job.name is None else ((f"{job.namespace}/{job.name}", root),))
    found: dict[bytes, _Behind] = {}
    known: set[tuple[int, bytes]] = set()  # jobs in the workflows of roots that need not be looked at again
    edges = 0
    while targets:
        target, root = targets.popleft()
        known.add((split_instance(root)[1], root))
        for job_id in followers(tx.view, target):
            edges += 1
            if edges > DOWNSTREAM_EDGES_MAX:
                return _too_many(DOWNSTREAM_EDGES_MAX, "lines between jobs lead on from it")
            if (job_id, root) in known:
                continue
            one = follower(tx, job_id, target)
            if one is None:
                continue
            known.add((job_id, root))
            key = run_key(one[1], job_id, root)
            if key == own or key in found:
                continue
            if len(found) >= DOWNSTREAM_MAX:
                return _too_many(DOWNSTREAM_MAX, "jobs follow it")
            edges += len(one[1].jobs)
            behind = found[key] = _Behind(*one, root, tx.instance(key))
            if behind.job.name is not None:
                targets.append((behind.name, root if behind.row is None else behind.row.root or root))
    return list(found.values())


def _forbidden(tx: Tx, workflows: list[bytes], found: list[_Behind], allowed: tuple[str, ...]) -> Rejected | None:
    """Refuses to have runs of other namespaces run again, and to undo a kill that was for others to ask. What has not
    run may be started by an end, whoever asked for that run. Those of other namespaces are not named: the caller may
    not be allowed to know of them."""
    if any(one.row is not None and one.job.namespace not in allowed for one in found):
        detail = "Runs behind it are in namespaces in which you may not have jobs run; rerun your own one by one."
        return Rejected("forbidden", detail)
    for root in workflows:
        workflow = WORKFLOWS.get(tx.view, root)
        first = tx.job(split_instance(root)[1])
        killed = workflow is not None and workflow.killed_at_ms is not None
        if killed and first is not None and first.namespace not in allowed:
            detail = "The workflow was killed, and is of a namespace in which you may not set it going again."
            return Rejected("forbidden", f"{detail} Rerun without downstream.")
    return None


def _too_many(most: int, what: str) -> Rejected:
    return Rejected("too-many", f"More than {most:,} {what}; rerun instances that are further on.")


def _wait_anew(tx: Tx, one: _Behind, again: set[str], rerun_id: int) -> None:
    """Has a job wait for those that run again. What it does not wait for anew has come already, if it had run."""
    scope = scope_of(one.root)
    join = JOINS.get(tx.view, scope, one.job.id)
    if join is None:
        if one.row is None:
            return
        came = {split_instance(key)[1]: key for key in one.row.joined}
        join = Join(at_ms=tx.now, root=one.row.root or one.root)
        for target in one.after.jobs:
            upstream = tx.view.get(Table.NAMES, name_key(*target.split("/", 1)))  # the job's row would take longer
            if upstream is not None and from_u64(upstream) in came:
                join.came[target] = came[from_u64(upstream)]
    for target in again & join.came.keys():
        del join.came[target]
    join.at_ms, join.rerun_id = tx.now, rerun_id
    JOINS.put(tx.view, join, scope, one.job.id)
