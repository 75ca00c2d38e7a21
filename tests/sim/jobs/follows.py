"""Jobs that follow others: each end that starts one has started it, once, by the tables at the end of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import FINAL, Instance, Job, JobState
from raftsched.core.rows import WORKFLOWS, decode_instance, decode_job
from raftsched.core.subjects.workflow import run_key, waits_for_all, wanted
from raftsched.core.tables import ReadView, Table, from_u64, name_key, u64

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld

# what a violation says
NOT_STARTED = "did not start"
STARTED_TWICE = "has two runs in the workflow"


def check_followers(world: JobsWorld, view: ReadView) -> None:
    """Looks at jobs that were never edited: what they follow was the same all the time."""
    rows: dict[int, list[Instance]] = {}
    for _, raw in view.scan(Table.INSTANCES):
        row = decode_instance(raw)
        if row.parent is None:
            rows.setdefault(row.job_id, []).append(row)
    for _, raw in view.scan(Table.JOBS):
        job = decode_job(raw)
        after = job.policy.trigger.after
        if after is None or job.revision > 1 or job.state is JobState.DELETED:
            continue
        _once(world, job, rows.get(job.id, []))
        for target in () if waits_for_all(after) else after.jobs:
            named = view.get(Table.NAMES, name_key(*target.split("/", 1)))
            upstream = None if named is None else view.get(Table.JOBS, u64(from_u64(named)))
            for row in [] if upstream is None else rows.get(decode_job(upstream).id, []):
                if row.state in FINAL and wanted(after.on, row.state) and row.created_at_ms > job.created_at_ms:
                    _started(world, view, job, row)


def _once(world: JobsWorld, job: Job, rows: list[Instance]) -> None:
    roots = [row.root for row in rows if row.cause is not None]
    for root in set(roots):
        if root is not None and roots.count(root) > 1:
            world.checks.fail(f"job {job_text(job.id)} {STARTED_TWICE} {instance_text(root)}")


def _started(world: JobsWorld, view: ReadView, job: Job, row: Instance) -> None:
    """A SKIPPED record from before is no run that ended, unless it was itself to follow: gaps start nothing."""
    after = job.policy.trigger.after
    root = row.root or row.key
    workflow = WORKFLOWS.get(view, root)
    killed = workflow is not None and workflow.killed_at_ms is not None
    is_gap = row.gap_count and row.cause is None and not row.attempts
    if after is None or killed or is_gap or job.id == from_u64(root[8:16]):
        return
    if view.get(Table.INSTANCES, run_key(after, job.id, root)) is None:
        world.checks.fail(
            f"the end of {instance_text(row.key)} ({row.state.name}) {NOT_STARTED} job {job_text(job.id)}, "
            f"which follows it {after.on.name}"
        )
