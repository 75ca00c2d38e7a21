"""Limits by key: permits are taken and given back, in the log's order, and the lines of those that wait for one.

A run needs a permit of its key when it could be given to a worker: after overlap and conditions. It keeps it in READY
and while it runs, and gives it back with the end of the attempt: one that waits for its retry does not run. Runs that
find none wait in KEY_LINES, outside of READY, in the order that READY has: nobody passes the first of a line. What the
job of the first one says now is what it is held against, so that runs of jobs with other limits share a line.

A rate is counted where a run starts. Its permit keeps a start for it in the bucket: there are never more permits than
starts left, so that a start is not refused, and what waits for a worker for an hour does not start in one burst.

This module alone writes RUN_KEYS, KEY_LINES and KEY_TIMERS. The lines of an entry are looked at when all its commands
are done: each instance and job is stored by then.
"""

from __future__ import annotations

import msgspec

from raftsched.core import rows
from raftsched.core.actions import KeyTimer
from raftsched.core.apply.steps import add_step
from raftsched.core.apply.tx import Tx
from raftsched.core.apply.versions import STALE
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.model import Instance, Job, StepKind
from raftsched.core.rules.admission import full_at_ms, take_rate
from raftsched.core.rules.key_templates import KeyTemplateError, pointer
from raftsched.core.rules.run_keys import (
    HOLDERS_MAX,
    Blocked,
    Concurrency,
    KeyRate,
    Permit,
    PermitState,
    RunKey,
    WakeKey,
    blocked_by,
    bucket_of,
    from_line,
    key_of,
    line_key,
    line_of,
    look_again_ms,
    run_key,
    take_permit,
)
from raftsched.core.tables import KEY_MAX, Table, after, timer_key

LET_GO_MAX = 500  # runs that one entry lets go; a line where more could go has a timer for the rest
AGAIN_MS = 20  # between two looks at a line: at a high rate several go at a time
WAITS = "key"  # the reason of an instance that waits in the line of its key
_HELD, _IN_LINE, _NONE = PermitState.HELD, PermitState.IN_LINE, PermitState.NONE


def permit_of(job: Job, params: bytes | None) -> Permit | None:
    """Returns the key of a run, None where the job has no limits by key. `params`: its own, in which `refused_by_key`
    has found nothing wrong; None: it has the job's."""
    limits = job.policy.concurrency
    return None if limits is None else Permit(job.namespace, key_of(limits, job.name, job.id, params))


def refused_by_key(job: Job, params: bytes | None) -> Rejected | None:
    """Refuses params of a run that have not what its key asks for."""
    limits = job.policy.concurrency
    if limits is None or params is None:
        return None
    try:
        key_of(limits, job.name, job.id, params)
    except KeyTemplateError as error:
        return Rejected("invalid-body", str(error), "/params" + pointer(error.param or ()), meaning="inconsistent")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Rejected(
            "invalid-body",
            "is no object, and the key of the runs asks for names in it",
            "/params",
            meaning="inconsistent",
        )
    return None


def ask(tx: Tx, job: Job, instance: Instance) -> None:
    """Takes a permit of its key for an instance that could be given to a worker, or puts it into the line. The caller
    has set its score, and stores it."""
    permit = instance.permit
    assert permit is not None
    assert permit.state is _NONE
    key = run_key(permit.namespace, permit.key)
    row = tx.run_key(key) or RunKey()
    own = line_key(key, instance.score_ms, instance.key)
    head = _head(tx, key) if row.waiting else None
    if (head is None or own < head) and blocked_by(row, job.policy.concurrency, tx.now) is None:
        _give(row, job.policy.concurrency, instance)
    else:
        permit.state = _IN_LINE
        row.waiting += 1
        tx.view.put(Table.KEY_LINES, own, b"")
        instance.reason = WAITS
        add_step(tx, instance, StepKind.IN_LINE, permit.key)
        tx.lines[key] = None  # for the timer that it may need
    tx.put_run_key(key, row)


def give_back(tx: Tx, instance: Instance) -> None:
    """Gives back the permit of an instance, or takes it out of the line. Nothing is done where it has neither. The
    caller stores it."""
    permit = instance.permit
    if permit is None or permit.state is _NONE:
        return
    key = run_key(permit.namespace, permit.key)
    row = tx.run_key(key)
    assert row is not None, "it counts in it"
    if permit.state is _IN_LINE:
        row.waiting -= 1
        tx.view.delete(Table.KEY_LINES, line_key(key, instance.score_ms, instance.key))
    else:
        row.running -= 1
        own = instance.key
        if own in row.holders:
            row.holders.remove(own)
        if permit.rate_count is not None:
            _bucket(row, instance).kept -= 1
    permit.state, permit.rate_count, permit.rate_period_ms = _NONE, None, 0
    tx.lines[key] = None
    tx.put_run_key(key, row)


def count_start(tx: Tx, instance: Instance) -> None:
    """Counts the start of an instance that has a permit. The caller stores it."""
    permit = instance.permit
    assert permit is not None
    if permit.rate_count is None:
        return
    key = run_key(permit.namespace, permit.key)
    row = tx.run_key(key)
    assert row is not None, "it counts in it"
    bucket = _bucket(row, instance)
    bucket.kept -= 1
    take_rate(bucket, tx.now)
    permit.rate_count, permit.rate_period_ms = None, 0
    if row.waiting:
        tx.lines[key] = None
    tx.put_run_key(key, row)


def look_at_line(tx: Tx, instance: Instance) -> None:
    """Has the line of the instance's key looked at."""
    if instance.permit is not None:
        tx.lines[run_key(instance.permit.namespace, instance.permit.key)] = None


def wake_key(tx: Tx, c: WakeKey) -> Answer:
    row = tx.run_key(c.key) if 0 < len(c.key) <= KEY_MAX else None
    if row is None or row.wake_at_ms != c.at_ms:
        return STALE
    tx.lines[c.key] = None
    return Accepted()


def let_go(tx: Tx) -> None:
    """Lets those go that may, of all lines that something has changed for."""
    room = LET_GO_MAX
    for key in tx.lines:
        room -= _let_go(tx, key, room)
    tx.lines.clear()


def _let_go(tx: Tx, key: bytes, most: int) -> int:
    """Returns how many were let go."""
    row = tx.run_key(key)
    if row is None:
        return 0
    gone, again_ms = 0, None
    while (place := _head(tx, key) if row.waiting else None) is not None:
        if gone >= most:
            again_ms = tx.now
            break
        instance = tx.instance(from_line(place))
        assert instance is not None, "it waits"
        job = rows.JOBS.get(tx.view, instance.job_id)
        limits = None if job is None else job.policy.concurrency
        blocked = blocked_by(row, limits, tx.now)
        if blocked is not None:
            again_ms = look_again_ms(row, limits, tx.now) if blocked is not Blocked.FULL else None
            break
        row.waiting -= 1
        tx.view.delete(Table.KEY_LINES, place)
        _give(row, limits, instance)
        instance.reason = None
        add_step(tx, instance, StepKind.PERMIT)
        tx.put_instance(instance)
        gone += 1
    row.rates = [one for one in row.rates if one.kept or full_at_ms(one, tx.now) > tx.now]
    if not row.running and not row.waiting:
        again_ms = max((full_at_ms(one, tx.now) for one in row.rates), default=None)
    _set_timer(tx, key, row, again_ms)
    tx.put_run_key(key, row)
    return gone


def _head(tx: Tx, key: bytes) -> bytes | None:
    """Returns the first row of the line of a key."""
    prefix = line_of(key)
    return next((place for place, _ in tx.view.scan(Table.KEY_LINES, prefix, after(prefix))), None)


def _give(row: RunKey, limits: Concurrency | None, instance: Instance) -> None:
    permit = instance.permit
    assert permit is not None
    permit.state = _HELD
    take_permit(row, limits)
    if len(row.holders) < HOLDERS_MAX:
        row.holders.append(instance.key)
    if limits is not None and limits.rate_count is not None:
        permit.rate_count, permit.rate_period_ms = limits.rate_count, limits.rate_period_ms


def _bucket(row: RunKey, instance: Instance) -> KeyRate:
    assert instance.permit is not None
    bucket = bucket_of(row, instance.permit.rate_count, instance.permit.rate_period_ms)
    assert bucket is not None, "it is kept while a start in it is"
    return bucket


def _set_timer(tx: Tx, key: bytes, row: RunKey, at_ms: int | None) -> None:
    if at_ms is not None:
        at_ms = max(at_ms, tx.now + AGAIN_MS)
    elif row.wake_at_ms is None:
        return
    if row.wake_at_ms is not None:
        tx.view.delete(Table.KEY_TIMERS, timer_key(row.wake_at_ms, key))
    row.wake_at_ms = at_ms
    if at_ms is not None:
        tx.view.put(Table.KEY_TIMERS, timer_key(at_ms, key), b"")
        tx.actions.append(KeyTimer(key, at_ms))


def why_blocked(tx: Tx, job: Job, instance: Instance) -> str:
    """Returns what an instance in line waits for, to follow a colon."""
    permit = instance.permit
    row = None if permit is None else tx.run_key(run_key(permit.namespace, permit.key))
    if permit is None or row is None:
        return "it waited for a permit of its key"
    if blocked_by(row, job.policy.concurrency, tx.now) in (Blocked.RATE, Blocked.RATES):
        return f"its key {permit.key} had started as many as the rate allows"
    return f"{row.running} runs with its key {permit.key} were going, and {row.waiting} waited"
