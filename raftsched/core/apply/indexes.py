"""Index rows: each follows from fields of the job or the instance that it is about, and from nothing else.

This module alone writes READY, HELD, TIMERS, DEAD, PURGE, WATCHES, DUE and DUE_LATER. `Tx` notes what the index rows
follow from when it reads a row, and compares when it stores the row: a command changes fields, and cannot forget an
index. A command calls `reindex` itself where the index rows are needed before it stores the row.

READY, of an instance, follows from its state (WAITING, neither held nor checking, nor in the line of its key, which
`apply.runs.run_keys` writes), `lane` and `score_ms`; HELD from `held` and `ready_at_ms`; TIMERS from `wake_at_ms`, DEAD
from `dead_at_ms`, PURGE from `purge_at_ms`, WATCHES from `watch_at_ms`. DUE or DUE_LATER, of a job, follows from
`fire_at_ms`, PURGE from `purge_at_ms` and WATCHES from `watch_at_ms`; the counts of jobs and TAGS from its state and
content.
"""

from __future__ import annotations

from typing import Protocol

from raftsched.core.actions import (
    Action,
    DeadLettered,
    InstanceReady,
    InstanceTimer,
    JobDue,
    JobNear,
    JobPaused,
    WatchSet,
)
from raftsched.core.model import Instance, InstanceState, Job, JobState, scheduled_ms
from raftsched.core.rules.run_keys import PermitState
from raftsched.core.rules.selection import TAGGED_STATES, split_tags, state_tag, tags_of
from raftsched.core.subjects.cluster import Meta
from raftsched.core.subjects.namespace import Namespace
from raftsched.core.tables import (
    DUE,
    DUE_LATER,
    LANE_NOBODY,
    PURGE,
    READY,
    TIMERS,
    Table,
    View,
    dead_key,
    due_key,
    due_later_key,
    from_u64,
    held_key,
    purge_key,
    ready_key,
    resume_key,
    timer_key,
    u64,
    watch_key,
)

_IN_LINE = PermitState.IN_LINE
_WAITING, _LAUNCHED, _RUNNING = InstanceState.WAITING, InstanceState.LAUNCHED, InstanceState.RUNNING
_SCHEDULED, _DELETED = JobState.SCHEDULED, JobState.DELETED
# By the number of a state; 0: not stored yet. Looking a member up in a set takes three times as long.
_IN_NAMESPACE = [False, *(state is not _DELETED for state in JobState)]
_IS_TAGGED = [False, *(state in TAGGED_STATES for state in JobState)]

# lane and score in READY, time in HELD, TIMERS, DEAD, PURGE, WATCHES; None: no row
Keys = tuple[int | None, int, int | None, int | None, int | None, int | None, int | None]
# What an instance was when it was read or stored last: its state, and the keys of its index rows
Indexed = tuple[InstanceState | None, Keys]
# The same of a job: fire_at_ms in DUE or DUE_LATER, purge_at_ms in PURGE, resume_at_ms in RESUMES, watch_at_ms in
# WATCHES
IndexedJob = tuple[int | None, int | None, int | None, int | None]

NO_ROWS: Keys = (None, 0, None, None, None, None, None)
NEW: Indexed = (None, NO_ROWS)
UNLISTED: Indexed = (_WAITING, NO_ROWS)  # it waits in READY, and has no rows yet: told by identity
NEW_JOB: IndexedJob = (None, None, None, None)
_IS_LAUNCHED: Indexed = (_LAUNCHED, NO_ROWS)
_IS_RUNNING: Indexed = (_RUNNING, NO_ROWS)


def waits_in_ready(instance: Instance) -> bool:
    """Returns whether the instance waits for a worker: it has a row in READY."""
    if instance.state is not _WAITING or instance.held or instance.checking:
        return False
    return instance.permit is None or instance.permit.state is not _IN_LINE


def waits_in_line(instance: Instance) -> bool:
    """Returns whether the instance waits for a permit of its key: it has a row in KEY_LINES."""
    return instance.permit is not None and instance.permit.state is _IN_LINE


class Rows(Protocol):
    """The part of the transaction (`tx.Tx`) that index rows are written by, and that is noted of them."""

    view: View
    meta: Meta
    actions: list[Action]
    indexed: dict[bytes, Indexed]
    indexed_jobs: dict[int, IndexedJob]
    ready_rows: dict[bytes, None]
    timer_rows: dict[bytes, None]
    changed_namespaces: set[str]

    def namespace(self, name: str) -> Namespace | None: ...
    def put_namespace(self, namespace: Namespace) -> None: ...


def indexed(instance: Instance) -> Indexed:
    """Returns the state of the instance and the keys of its index rows. An attempt that runs has none, unless it is
    watched."""
    state, watch_at_ms = instance.state, instance.watch_at_ms
    if state is _RUNNING:
        wake_at_ms = instance.wake_at_ms  # of one with parts, while there is something to be done about them
        if wake_at_ms is None and watch_at_ms is None:
            return _IS_RUNNING
        return state, (None, 0, None, wake_at_ms, None, None, watch_at_ms)
    if state is _LAUNCHED:
        return _IS_LAUNCHED if watch_at_ms is None else (state, (None, 0, None, None, None, None, watch_at_ms))
    permit = instance.permit
    if state is not _WAITING or instance.checking or (permit is not None and permit.state is _IN_LINE):
        return state, (None, 0, None, instance.wake_at_ms, instance.dead_at_ms, instance.purge_at_ms, watch_at_ms)
    if instance.held:
        return state, (None, 0, instance.ready_at_ms, instance.wake_at_ms, None, None, watch_at_ms)
    return state, (instance.lane, instance.score_ms, None, instance.wake_at_ms, None, None, watch_at_ms)


def reindex(tx: Rows, instance: Instance) -> None:
    """Brings the index rows in step with the instance before it is stored."""
    key = instance.key
    state, before = tx.indexed.get(key, NEW)
    now = indexed(instance)[1]
    tx.indexed[key] = state, now
    if now != before:
        move(tx, key, instance.job_id, before, now)


def move(tx: Rows, key: bytes, job_id: int, before: Keys, now: Keys) -> None:
    """Replaces index rows of an instance by others."""
    old_lane, old_score, old_held, old_wake, old_dead, old_purge, old_watch = before
    lane, score_ms, held_at_ms, wake_at_ms, dead_at_ms, purge_at_ms, watch_at_ms = now
    if lane != old_lane or score_ms != old_score:
        if old_lane is not None:
            _drop_wait(tx, READY, tx.ready_rows, ready_key(old_lane, old_score, key))
            if old_lane == LANE_NOBODY:
                tx.meta.unplaceable -= 1
        if lane is not None:
            tx.ready_rows[ready_key(lane, score_ms, key)] = None
            if lane == LANE_NOBODY:
                tx.meta.unplaceable += 1
            else:
                tx.actions.append(InstanceReady(key, lane, score_ms))
    if wake_at_ms != old_wake:
        if old_wake is not None:
            _drop_wait(tx, TIMERS, tx.timer_rows, timer_key(old_wake, key))
        if wake_at_ms is not None:
            tx.timer_rows[timer_key(wake_at_ms, key)] = None
            tx.actions.append(InstanceTimer(key, wake_at_ms))
    if purge_at_ms != old_purge:
        if old_purge is not None:
            tx.view.delete(PURGE, purge_key(old_purge, job_id, key))
        if purge_at_ms is not None:
            tx.view.put(PURGE, purge_key(purge_at_ms, job_id, key), b"")
    if held_at_ms != old_held:
        if old_held is not None:
            tx.view.delete(Table.HELD, held_key(job_id, old_held, key))
        if held_at_ms is not None:
            tx.view.put(Table.HELD, held_key(job_id, held_at_ms, key), b"")
    if dead_at_ms != old_dead:
        if old_dead is not None:
            tx.view.delete(Table.DEAD, dead_key(old_dead, key))
            tx.meta.dead_letters -= 1
        if dead_at_ms is not None:
            tx.view.put(Table.DEAD, dead_key(dead_at_ms, key), b"")
            tx.meta.dead_letters += 1
            if old_dead is None:
                tx.actions.append(DeadLettered(key))
    if watch_at_ms != old_watch:
        move_watch(tx, key, old_watch, watch_at_ms)


def move_watch(tx: Rows, about: bytes, old_at_ms: int | None, at_ms: int | None) -> None:
    """Replaces a row of WATCHES by another. `about`: the rest of its key."""
    if old_at_ms is not None:
        tx.view.delete(Table.WATCHES, watch_key(old_at_ms, about))
    if at_ms is not None:
        tx.view.put(Table.WATCHES, watch_key(at_ms, about), b"")
        tx.actions.append(WatchSet(about, at_ms))


def _drop_wait(tx: Rows, table: Table, unwritten: dict[bytes, None], key: bytes) -> None:
    if key in unwritten:
        del unwritten[key]
    else:
        tx.view.delete(table, key)


def listed_by_job(job: Job, instance: Instance) -> bool:
    """Returns whether the instance has rows in BY_JOB and PURGE. The one scheduled instance of a one-shot needs none:
    the job names it, and takes it along. A part has its parent."""
    if instance.parent is not None:
        return False
    return bool(instance.request) or instance.nominal_at_ms != scheduled_ms(job)


# ---------------------------------------------------------------- jobs


def reindex_job(tx: Rows, job: Job) -> None:
    """Brings the rows of DUE, DUE_LATER, PURGE, RESUMES and WATCHES in step with the job."""
    was = tx.indexed_jobs.get(job.id, NEW_JOB)
    now = job.fire_at_ms, job.purge_at_ms, job.resume_at_ms, job.watch_at_ms
    if now == was:
        return
    tx.indexed_jobs[job.id] = now
    old_fire, old_purge, old_resume, old_watch = was
    fire_at_ms, purge_at_ms, resume_at_ms, watch_at_ms = now
    if fire_at_ms != old_fire:
        if old_fire is not None:
            drop_due(tx, old_fire, job.id)
        if fire_at_ms is not None:
            put_due(tx, fire_at_ms, job.id)
            tx.actions.append(JobDue(job.id, job.revision, fire_at_ms))
    if purge_at_ms != old_purge:
        if old_purge is not None:
            tx.view.delete(PURGE, purge_key(old_purge, job.id))
        if purge_at_ms is not None:
            tx.view.put(PURGE, purge_key(purge_at_ms, job.id), b"")
    if resume_at_ms != old_resume:
        if old_resume is not None:
            tx.view.delete(Table.RESUMES, resume_key(old_resume, job.id))
        if resume_at_ms is not None:
            tx.view.put(Table.RESUMES, resume_key(resume_at_ms, job.id), b"")
            tx.actions.append(JobPaused(job.id, resume_at_ms))
    if watch_at_ms != old_watch:
        move_watch(tx, u64(job.id), old_watch, watch_at_ms)


def put_due(tx: Rows, fire_at_ms: int, job_id: int) -> None:
    """Stores a due time: in DUE_LATER when it is far ahead."""
    due_boundary = tx.meta.due_boundary
    if due_boundary and (key := due_later_key(fire_at_ms, job_id)) >= due_boundary:
        tx.view.put(DUE_LATER, key, u64(fire_at_ms))
    else:
        tx.view.put(DUE, due_key(fire_at_ms, job_id), b"")


def drop_due(tx: Rows, fire_at_ms: int, job_id: int) -> None:
    """Deletes a due time. One that is far ahead is in DUE all the same when it was stored before there was
    DUE_LATER."""
    due_boundary = tx.meta.due_boundary
    if due_boundary and (key := due_later_key(fire_at_ms, job_id)) >= due_boundary and tx.view.delete(DUE_LATER, key):
        return
    tx.view.delete(DUE, due_key(fire_at_ms, job_id))


def promote(tx: Rows, key: bytes, value: bytes) -> None:
    """Makes a row of DUE_LATER one of DUE. The caller sees to it that `due_boundary` is behind it."""
    fire_at_ms, job_id = from_u64(value), from_u64(key[4:])
    tx.view.delete(DUE_LATER, key)
    tx.view.put(DUE, due_key(fire_at_ms, job_id), b"")
    tx.actions.append(JobNear(job_id, fire_at_ms))


def count_job(tx: Rows, job: Job) -> None:
    """Counts the job in the state that it is in now, and tags it where that state is looked for."""
    counts = tx.meta.jobs
    before, state = job.counted, job.state
    if _IN_NAMESPACE[before] is not _IN_NAMESPACE[state]:
        _count_in_namespace(tx, job.namespace, 1 if _IN_NAMESPACE[state] else -1)
    if before:
        counts[before] -= 1
        if _IS_TAGGED[before]:
            tx.view.delete(Table.TAGS, state_tag(JobState(before)) + u64(job.id))
    counts[state] += 1
    if _IS_TAGGED[state]:
        tx.view.put(Table.TAGS, state_tag(state) + u64(job.id), b"")
    elif state is _DELETED:
        _put_tags(tx, job, b"")
        _count_follower(tx, job, False)
    job.counted = state


def count_scheduled(tx: Rows, namespace: str, jobs: int) -> None:
    """Counts so many new jobs of a namespace that are SCHEDULED. The caller notes in each that it is counted."""
    _count_in_namespace(tx, namespace, jobs)
    tx.meta.jobs[_SCHEDULED] += jobs


def uncount_job(tx: Rows, job: Job) -> None:
    """Takes a job that is about to be deleted out of the counts and of TAGS."""
    if job.tags:
        _put_tags(tx, job, b"")
        _count_follower(tx, job, False)
    if _IN_NAMESPACE[job.counted]:
        _count_in_namespace(tx, job.namespace, -1)
    if job.counted:
        tx.meta.jobs[job.counted] -= 1
        if _IS_TAGGED[job.counted]:
            tx.view.delete(Table.TAGS, state_tag(JobState(job.counted)) + u64(job.id))


def _count_in_namespace(tx: Rows, name: str, more: int) -> None:
    namespace = tx.namespace(name) or Namespace(name=name)
    jobs = namespace.jobs + more
    namespace.jobs = jobs if jobs > 0 else 0
    if jobs <= 1 or name not in tx.changed_namespaces:  # else it is written anyway
        tx.put_namespace(namespace)


def tag_job(tx: Rows, job: Job) -> None:
    """Brings the rows of TAGS in step with new content of the job. The caller stores the job."""
    tags = tags_of(job.namespace, job.body, job.policy)
    if tags != job.tags:
        _put_tags(tx, job, tags)
        _count_follower(tx, job, job.policy.trigger.after is not None)


def _count_follower(tx: Rows, job: Job, follows: bool) -> None:
    if job.follows is not follows:
        tx.meta.followers += 1 if follows else -1
        job.follows = follows


def _put_tags(tx: Rows, job: Job, tags: bytes) -> None:
    before, now = split_tags(job.tags), split_tags(tags)
    for tag in before:
        if tag not in now:
            tx.view.delete(Table.TAGS, tag + u64(job.id))
    for tag in now:
        if tag not in before:
            tx.view.put(Table.TAGS, tag + u64(job.id), b"")
    job.tags = tags
