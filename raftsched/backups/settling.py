"""Settles what was due, or waited, when a backup was made: the old cluster may have run it until it was stopped.

What is to run at most once is never run again by a restore, whatever is said: neither what waited or ran in the backup,
nor what was due since. Other due times are run, as each job's misfire policy says, or recorded as skipped. The leader's
room computes the times, as it would when the new cluster begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice

import msgspec
from msgspec.structs import replace

from raftsched.core.apply.cluster import restored
from raftsched.core.apply.tx import Tx
from raftsched.core.commands import Fire, ResumeJob, ScheduleJob
from raftsched.core.limits import KEY_SIZE
from raftsched.core.model import Delivery, Job, JobState
from raftsched.core.subjects.calendar import RescheduleJob
from raftsched.core.subjects.operations import ROWS_MAX, BulkAction, Operation, StepOperation
from raftsched.core.tables import ASSIGNED, DUE, DUE_LATER, JOBS, READY, TIMERS, Table, day_key, due_day, from_u64, u64
from raftsched.leader.due.firing import fire_command
from raftsched.leader.due.scheduling import schedule_command
from raftsched.leader.due.triggers import with_calendars

_AT_ONCE = 1_000  # jobs or instances of which the rows are held in memory
_STEPS_MAX = 16  # of one job, until what is due next of it is known: its calendar may have been changed
_MAKE_RUNS = (BulkAction.RUN, BulkAction.RESUME)
_ROUNDS_MAX = 100  # each run that ends may start one that follows it


@dataclass
class Settled:
    """Counts what a restore did about due times and runs, and what is left to be run."""

    skipped: int = 0  # due times that were recorded as SKIPPED,
    skipped_jobs: int = 0  # of so many jobs
    ended: int = 0  # runs that waited, or were to be retried, and are to run at most once
    due_jobs: int = 0  # jobs that have due times, which the new cluster runs as their misfire policies say
    waiting: int = 0  # runs that wait, and are run by the new cluster
    live: int = 0  # runs that were live: they are lost, and run again unless they are to run at most once


def settle(tx: Tx, index: int, term: int, now_ms: int, *, skip: bool) -> Settled:
    """Settles a state as of `now_ms`, by the wall clock. `index`: of the newest entry in it, and its term. `skip`: all
    that was due since is skipped, not only what is to run at most once."""
    now_ms = max(now_ms, tx.meta.now_ms)
    done = Settled()
    entries = count(index + 1)  # few: those of the new cluster are far above (new_cluster.ahead)
    for operation in restored.operations(tx):
        if operation.action in _MAKE_RUNS:
            _end_operation(tx, operation, entries, term, now_ms)
    due, owed, paused = _due_ids(tx, now_ms), _owed_ids(tx), _resumed_ids(tx, now_ms)
    if not skip:
        at_most_once = {job_id for job_id in (*due, *owed, *paused) if _is_at_most_once(tx, job_id)}
        done.due_jobs = len(set(due) - at_most_once)
        due, owed, paused = ([one for one in ids if one in at_most_once] for ids in (due, owed, paused))
    for ids in _parts(list(dict.fromkeys((*due, *owed, *paused)))):
        index = next(entries)
        restored.begin(tx, index, term, now_ms)
        for job_id in ids:
            _settle_job(tx, job_id, now_ms, done)
        restored.end(tx, index)
    for _ in range(_ROUNDS_MAX):
        before = done.ended
        for keys in _parts(_waiting_keys(tx)):
            index = next(entries)
            restored.begin(tx, index, term, now_ms)
            done.ended += sum(restored.end_at_most_once(tx, key) for key in keys)
            restored.end(tx, index)
        if done.ended == before:
            break
    done.waiting = len(_waiting_keys(tx))
    done.live = sum(1 for _ in tx.view.scan(ASSIGNED))
    return done


def _end_operation(tx: Tx, operation: Operation, entries: Iterator[int], term: int, now_ms: int) -> None:
    """Takes all steps of the operation that are left, as the old cluster may have: what it runs waits then, or is
    due."""
    for step in count(operation.steps):
        index = next(entries)
        restored.begin(tx, index, term, now_ms)
        going = restored.step(tx, StepOperation(operation.id, step, ROWS_MAX, _AT_ONCE))
        restored.end(tx, index)
        if not going:
            return


def _settle_job(tx: Tx, job_id: int, now_ms: int, done: Settled) -> None:
    """Records all of the job's times up to now as skipped. One that was paused until now, or before, is resumed."""
    paused = tx.job(job_id)
    if paused is not None and paused.resume_at_ms is not None and paused.resume_at_ms <= now_ms:
        restored.take_up(tx, ResumeJob(job_id, paused.resume_at_ms))
    counted = 0
    for _ in range(_STEPS_MAX):
        job = tx.job(job_id)
        if job is None or job.state is not JobState.SCHEDULED:
            return
        command = _next_command(tx, job, now_ms)
        if isinstance(command, Fire):
            number = restored.skip(tx, replace(command, zones=tx.meta.zones))
            done.skipped_jobs += number > 0 and not counted
            done.skipped += number
            counted += number
            if not number:
                return
        elif command is not None:
            restored.take_up(tx, command)
        else:
            return


def _next_command(tx: Tx, job: Job, now_ms: int) -> Fire | ScheduleJob | RescheduleJob | None:
    """Returns what a leader would do next about the job's times. None: none of them is due, or they cannot be computed
    here, which suspends the job when the cluster begins."""
    found = with_calendars(tx.view, job)
    since = tx.view.get(Table.UNSCHEDULED, u64(job.id))
    command: object = None
    if since is not None:
        command = schedule_command(found, from_u64(since), now_ms, tx.meta.zones)
    elif job.fire_at_ms is not None and job.fire_at_ms <= now_ms:
        command = fire_command(found, now_ms, tx.meta.settings.catch_up_max)
    return command if isinstance(command, Fire | ScheduleJob | RescheduleJob) else None


class _PolicyHead(msgspec.Struct, array_like=True):
    """The first fields of a Policy."""

    trigger: msgspec.Raw
    priority: int
    queue: str
    timeout_ms: int
    delivery: Delivery


class _JobHead(msgspec.Struct, array_like=True):
    """The first fields of a Job."""

    id: int
    namespace: msgspec.Raw
    name: msgspec.Raw
    revision: int
    state: JobState
    policy: _PolicyHead


_head = msgspec.msgpack.Decoder(_JobHead)


def _is_at_most_once(tx: Tx, job_id: int) -> bool:
    """Decodes no more than it has to: this is asked of all jobs that are due."""
    raw = tx.view.get(JOBS, u64(job_id))
    return raw is not None and _head.decode(raw).policy.delivery is Delivery.AT_MOST_ONCE


def _due_ids(tx: Tx, now_ms: int) -> list[int]:
    """Returns the jobs that are due."""
    view = tx.view
    ids = [from_u64(key[8:]) for key, _ in view.scan(DUE, b"", u64(now_ms + 1))]
    far = view.scan(DUE_LATER, b"", day_key(due_day(now_ms) + 1))
    return ids + [from_u64(key[4:]) for key, at_ms in far if from_u64(at_ms) <= now_ms]


def _owed_ids(tx: Tx) -> list[int]:
    """Returns the jobs whose next time a leader owes: they may be due as well."""
    return [from_u64(key) for key, _ in tx.view.scan(Table.UNSCHEDULED)]


def _resumed_ids(tx: Tx, now_ms: int) -> list[int]:
    """Returns the jobs that were paused until now, or before: what was due since then is owed."""
    return [from_u64(key[8:]) for key, _ in tx.view.scan(Table.RESUMES, b"", u64(now_ms + 1))]


def _waiting_keys(tx: Tx) -> list[bytes]:
    """Returns the instances that wait: for a worker, for another run of their job, for a permit, for a moment."""
    tables = (READY, Table.HELD, Table.KEY_LINES, TIMERS)
    return list(dict.fromkeys(key[-KEY_SIZE:] for table in tables for key, _ in tx.view.scan(table)))


def _parts(items: Iterable[bytes] | Iterable[int]) -> Iterator[list]:  # type: ignore[type-arg]
    """Gives them in lists that are not long."""
    left = iter(items)
    while part := list(islice(left, _AT_ONCE)):
        yield part
