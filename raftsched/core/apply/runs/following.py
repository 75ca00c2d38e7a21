"""Starts the jobs that follow others, in the entry in which a run of those ends. Workflows: killing one.

Jobs that follow are told when all commands of an entry are done. An entry tells FOLLOWERS_AT_ONCE of them; an instance
whose end more are to be told of has a timer for now, so that the leader wakes it, whoever leads.

Each job that follows has one run in a workflow at most, whatever its graph is like: its key is made of the root's. So
even a graph with a circle in it, which the search at writing did not find, comes to an end.
"""

from __future__ import annotations

from itertools import islice

from raftsched.core.apply.jobs.new_instances import add_instance, new_instance
from raftsched.core.apply.jobs.overlap import end_or_ask, refused_by_overlap, replace_active, too_many_active
from raftsched.core.apply.jobs.skips import skipped_record
from raftsched.core.apply.refusals import no_instance
from raftsched.core.apply.runs.by_hand import reopen, wait_again
from raftsched.core.apply.runs.chain import Chain, Results, results
from raftsched.core.apply.runs.downstream import follower
from raftsched.core.apply.runs.ends import enter, tell_at_the_end, workflow_of
from raftsched.core.apply.runs.finish import settle
from raftsched.core.apply.runs.history import count, keep
from raftsched.core.apply.runs.notices import notify_webhooks
from raftsched.core.apply.runs.unstarted import place_skipped
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.ids import instance_text, split_instance
from raftsched.core.limits import KEY_SIZE
from raftsched.core.model import FINAL, FOLLOWED, After, Instance, Job, JobState, StepKind
from raftsched.core.rows import JOINS, WORKFLOWS
from raftsched.core.rules.selection import followers
from raftsched.core.subjects.workflow import (
    KILL_STEP,
    Join,
    KillWorkflow,
    bit,
    ends_of,
    members,
    run_key,
    scope_of,
    waits_for_all,
    wanted,
)

FOLLOWERS_AT_ONCE = 100  # jobs that one entry tells of ends; others are told in later ones
LOOK_MAX = 2_000  # runs of a workflow that one command looks at


def tell_followers(tx: Tx) -> None:
    """Tells the jobs that follow of the ends of this entry, and of those ends that this leads to."""
    room = FOLLOWERS_AT_ONCE
    while tx.ended:
        instance = tx.instance(tx.ended.popleft())
        if instance is None or instance.telling is None or instance.state not in FINAL:
            continue
        if room > 0:
            room -= _tell(tx, instance, room)
        else:
            instance.wake_at_ms = tx.now
        tx.put_instance(instance)
        if instance.telling is None:
            tx.list_in_workflow(instance)
            place_skipped(tx, instance)


def _tell(tx: Tx, instance: Instance, room: int) -> int:
    """Tells jobs that follow the instance of its end. Returns how many were looked at. The caller stores it."""
    job = tx.job(instance.job_id)
    if job is None or job.name is None or job.state is JobState.DELETED:
        instance.telling = None
        return 0
    assert instance.telling is not None
    target = f"{job.namespace}/{job.name}"
    ids = list(islice(followers(tx.view, target, instance.telling), room + 1))
    for job_id in ids[:room]:
        found = follower(tx, job_id, target)
        root = instance.root or instance.key
        if found is not None and job_id != split_instance(root)[1]:
            _tell_one(tx, *found, target, instance)
        instance.telling = job_id
    if len(ids) > room:
        instance.wake_at_ms = tx.now
        return room
    instance.telling = None
    instance.followed |= ends_of(instance.state)
    return len(ids)


def _tell_one(tx: Tx, job: Job, after: After, target: str, instance: Instance) -> None:
    come = wanted(after.on, instance.state)
    told_before = bool(instance.followed & bit(after.on))
    if waits_for_all(after):
        _join(tx, job, after, target, instance, come=come, told_before=told_before)
    elif come and not told_before:
        came = {target: instance.key}
        _begin(tx, job, after, enter(tx, instance), instance.key, came, instance.rerun_id)


def _join(tx: Tx, job: Job, after: After, target: str, instance: Instance, *, come: bool, told_before: bool) -> None:
    """Notes that one of several ends has come, or that it was none of those after all. Starts the job with the last."""
    scope = scope_of(instance.root or instance.key)
    join = JOINS.get(tx.view, scope, job.id)
    if not come:
        if join is not None and join.came.pop(target, None) is not None:
            JOINS.put(tx.view, join, scope, job.id)
        return
    if join is None and told_before:
        return
    root = enter(tx, instance)
    if join is None:
        join = Join(at_ms=tx.now, root=root)
    join.came[target] = instance.key
    join.at_ms = tx.now
    join.rerun_id = max(join.rerun_id, instance.rerun_id)
    if all(one in join.came for one in after.jobs):
        JOINS.delete(tx.view, scope, job.id)
        came = {one: join.came[one] for one in after.jobs}
        _begin(tx, job, after, join.root, instance.key, came, join.rerun_id)
    else:
        JOINS.put(tx.view, join, scope, job.id)


def _begin(tx: Tx, job: Job, after: After, root: bytes, cause: bytes, came: dict[str, bytes], rerun_id: int) -> None:
    """Starts a job in a workflow, once; again only where the workflow is run again."""
    workflow = WORKFLOWS.get(tx.view, root)
    if workflow is not None and workflow.killed_at_ms is not None:
        return
    key = run_key(after, job.id, root)
    there = tx.instance(key)
    if there is not None and (there.rerun_id >= rerun_id or there.state not in FINAL or there.telling is not None):
        return
    handed = results(tx, job, came) if after.passes else Results()
    joined = tuple(came.values()) if len(came) > 1 else ()
    chain = Chain(root, cause, joined, rerun_id, *handed)
    if there is not None:
        if too_many_active(tx, job) is None:
            _run_again(tx, job, there, chain._replace(root=there.root or root))
        return
    workflow_of(tx, root)
    nominal_at_ms, _, request = split_instance(key)
    reason = _why_not(tx, job)
    if reason is None:
        made = new_instance(tx, job, nominal_at_ms, request, replace_active(tx, job))
        job.runs += 1
        add_instance(tx, job, made, FOLLOWED, chain)
    else:
        _skip(tx, job, nominal_at_ms, request, reason, chain)
    settle(tx, job)
    tx.put_job(job)


def _why_not(tx: Tx, job: Job) -> str | None:
    """Returns why the job cannot be started now; None: it can."""
    limit = job.policy.trigger.max_runs
    if job.state is JobState.EXPIRED or (limit is not None and job.runs >= limit):
        return "expired"
    if job.state is not JobState.SCHEDULED:
        return "suspended"
    return None if (too_many_active(tx, job) or refused_by_overlap(tx, job)) is None else "overlap"


def _skip(tx: Tx, job: Job, nominal_at_ms: int, request: int, reason: str, chain: Chain) -> None:
    """Records that the job was not started. That is an end, too: what follows whichever end goes on from it."""
    record = skipped_record(tx, job, reason, nominal_at_ms, request)
    add_step(tx, record, StepKind.CREATED, FOLLOWED)
    chain.note(tx, record)
    add_step(tx, record, StepKind.FINAL, reason)
    tx.minutes.skipped(job.namespace, 1)
    count(job, record, 1)
    if tx.meta.webhooks:
        notify_webhooks(tx, job, record)
    tell_at_the_end(tx, job, record)
    keep(tx, job, record)
    tx.put_instance(record)


def _run_again(tx: Tx, job: Job, instance: Instance, chain: Chain) -> None:
    """Lets a run that was started in this workflow before wait again, behind what is active of its job."""
    reopen(tx, job, instance)
    chain.note(tx, instance)
    instance.followed = 0
    wait_again(tx, job, instance, FOLLOWED)


def kill_workflow(tx: Tx, c: KillWorkflow) -> Answer:
    """Has nothing more of the workflow start, and kills runs of it that the caller may kill: KILL_STEP at most, and
    LOOK_MAX are looked at."""
    if len(c.root) != KEY_SIZE or len(c.after) not in (0, KEY_SIZE):
        return no_instance(c.root)
    first = tx.instance(c.root)
    if first is None and WORKFLOWS.get(tx.view, c.root) is None:
        return no_instance(c.root)
    if first is not None and first.parent is not None:
        return Rejected("illegal-transition", f"It is a part of {instance_text(first.parent)}; name that.")
    if first is not None and first.root not in (None, c.root):
        assert first.root is not None
        return Rejected("illegal-transition", f"It is of the workflow {instance_text(first.root)}; name that.")
    workflow = workflow_of(tx, c.root)
    if workflow.killed_at_ms is None:
        workflow.killed_at_ms = tx.now
        WORKFLOWS.put(tx.view, workflow, c.root)
    tx.flush_new()
    last, killed, looked = b"", 0, 0
    for key, state in list(islice(members(tx.view, c.root, c.after), LOOK_MAX)):
        looked += 1
        last = key
        if state not in FINAL and _kill(tx, key, c.namespaces):
            killed += 1
            if killed >= KILL_STEP:
                break
    more = looked == LOOK_MAX or killed >= KILL_STEP
    return Accepted(instance=c.root, number=killed, note=last if more else b"")


def _kill(tx: Tx, key: bytes, allowed: tuple[str, ...] | None) -> bool:
    instance = tx.instance(key)
    job = None if instance is None else tx.job(instance.job_id)
    if instance is None or job is None or instance.state in FINAL:
        return False
    if allowed is not None and job.namespace not in allowed:
        return False
    end_or_ask(tx, job, instance, "killed")
    settle(tx, job)
    tx.put_job(job)
    return True
