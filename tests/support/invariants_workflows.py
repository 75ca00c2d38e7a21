"""What holds between jobs that follow others, their runs and their workflows."""

from __future__ import annotations

from raftsched.core.ids import split_instance
from raftsched.core.model import FINAL, Instance, Job, JobState
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import JOINS, decode_meta
from raftsched.core.subjects.workflow import run_key
from raftsched.core.tables import ReadView, Table


def workflow_violations(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    """Adds what does not hold to `found`: a workflow lists its runs and is there as long as one of them, a job has one
    run in it at most, and an end is told to all who follow."""
    listed = {key: value for key, value in view.scan(Table.WORKFLOWS) if len(key) == 48}
    heads = {key for key, _ in view.scan(Table.WORKFLOWS) if len(key) == 24}
    wanted = {row.root + key: row for key, row in rows.items() if row.root is not None and row.parent is None}
    for key in listed.keys() ^ wanted.keys():
        found.append(f"WORKFLOWS row {key.hex()} is {'unowned' if key in listed else 'missing'}")
    for key in listed.keys() & wanted.keys():
        row = wanted[key]
        over = row.state in FINAL and row.telling is None
        if listed[key][0] != (row.state if over else I.WAITING):
            found.append(f"WORKFLOWS says {listed[key][0]} of an instance that is {row.state.name}")
    for key in heads ^ {key[:24] for key in wanted}:
        found.append(f"the workflow {key.hex()} is {'empty' if key in heads else 'not there'}")
    for key, row in rows.items():
        if row.telling is not None and (row.state not in FINAL or row.wake_at_ms is None):
            found.append(f"instance {key.hex()} ({row.state.name}) is to tell of its end, and does not")
        job = jobs.get(row.job_id)
        after = None if job is None else job.policy.trigger.after
        if row.cause is None or row.parent is not None or after is None or row.root is None:
            continue
        if row.job_revision == (0 if job is None else job.revision) and key != run_key(after, row.job_id, row.root):
            found.append(f"instance {key.hex()} is not the one that a workflow has of its job")
        if row.root in rows and rows[row.root].root != row.root:
            found.append(f"instance {key.hex()} names a root that is none")
    for key, raw in view.scan(Table.JOINS):
        join, job = JOINS.decode(raw), jobs.get(int.from_bytes(key[24:], "big"))
        after = None if job is None else job.policy.trigger.after
        if job is None or job.state is JobState.DELETED or after is None:
            continue
        if split_instance(key[:24])[0] != split_instance(join.root)[0]:
            found.append(f"a join at {key.hex()} has a root of another time")
    follow = sum(job.policy.trigger.after is not None and job.state is not JobState.DELETED for job in jobs.values())
    if decode_meta(view.get(Table.META, b"meta")).followers != follow:
        found.append(f"meta does not count {follow} jobs that follow others")
