"""What holds between the replicated tables after every entry, whatever was asked of them."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from raftsched.core.apply.tx import decode_instance, decode_job, decode_meta, decode_session
from raftsched.core.model import FINAL, Instance, Job, JobState, KeyUse, Overlap, TriggerKind
from raftsched.core.model import InstanceState as I
from raftsched.core.tables import (
    ReadView,
    Table,
    assigned_key,
    by_job_key,
    due_key,
    from_u64,
    held_key,
    name_key,
    purge_key,
    ready_key,
    timer_key,
    u64,
)


def violations(view: ReadView) -> list[str]:
    """Empty when all is well."""
    jobs = {from_u64(k): decode_job(v) for k, v in view.scan(Table.JOBS)}
    rows = {k: decode_instance(v) for k, v in view.scan(Table.INSTANCES)}
    found: list[str] = []
    _jobs(view, jobs, found)
    _instances(view, jobs, rows, found)
    _counters(view, jobs, rows, found)
    _sessions(view, found)
    _attempts(view, rows, found)
    _keys(view, found)
    return found


def _same(found: list[str], view: ReadView, table: Table, wanted: dict[bytes, bytes]) -> None:
    there = dict(view.scan(table))
    for key in there.keys() - wanted.keys():
        found.append(f"{table.name} row {key.hex()} belongs to nobody")
    for key in wanted.keys() - there.keys():
        found.append(f"{table.name} row {key.hex()} is missing")
    for key in there.keys() & wanted.keys():
        if there[key] != wanted[key]:
            found.append(f"{table.name} row {key.hex()} holds {there[key]!r} instead of {wanted[key]!r}")


def _jobs(view: ReadView, jobs: dict[int, Job], found: list[str]) -> None:
    due: dict[bytes, bytes] = {}
    names: dict[bytes, bytes] = {}
    unscheduled = {from_u64(k) for k, _ in view.scan(Table.UNSCHEDULED)}
    last_id = decode_meta(view.get(Table.META, b"meta")).last_id
    for job_id, job in jobs.items():
        trigger = job.policy.trigger
        what = f"job {job_id} ({job.state.name}, {trigger.kind.name})"
        if job.id != job_id or job_id > last_id:
            found.append(f"{what} has the id {job.id}, the last one made is {last_id}")
        if job.fire_at_ms is not None:
            due[due_key(job.fire_at_ms, job_id)] = b""
            if job.nominal_at_ms is None or not 0 <= job.fire_at_ms - job.nominal_at_ms <= max(0, trigger.jitter_ms):
                found.append(f"{what} fires at {job.fire_at_ms} for {job.nominal_at_ms}")
            if job.state is not JobState.SCHEDULED:
                found.append(f"{what} is due")
        elif job.nominal_at_ms is not None and (job.state is JobState.SCHEDULED or not trigger.once):
            found.append(f"{what} has a nominal time and is not due")
        if job.name is not None and job.state is not JobState.DELETED:
            names[name_key(job.namespace, job.name)] = u64(job_id)
        if job_id in unscheduled and (
            job.state is not JobState.SCHEDULED or not trigger.needs_calendar or job.nominal_at_ms is not None
        ):
            found.append(f"{what} waits for its next time")
        idle = job.fire_at_ms is None and job_id not in unscheduled and not job.active
        if job.state is JobState.SCHEDULED and idle and trigger.kind is not TriggerKind.MANUAL:
            found.append(f"{what} will never fire again and does not say so")
        done = job.state is JobState.DELETED or (job.state is JobState.EXPIRED and trigger.once)
        if done and not job.active and job.purge_at_ms is None:
            found.append(f"{what} is done and never goes")
        if job.purge_at_ms is not None and (job.active or not done):
            found.append(f"{what} is to be purged")
        if job.gap is not None and view.get(Table.INSTANCES, job.gap) is None:
            found.append(f"{what} names a gap that is gone")
    _same(found, view, Table.DUE, due)
    _same(found, view, Table.NAMES, names)
    for job_id in unscheduled - jobs.keys():
        found.append(f"UNSCHEDULED holds {job_id}, which is gone")
    for key, _ in view.scan(Table.REVISIONS):
        owner = jobs.get(from_u64(key[:8]))
        if owner is None or not owner.active or from_u64(key[8:]) >= owner.revision:
            found.append(f"REVISIONS row {key.hex()} is of no use to anybody")


def _instances(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    ready: dict[bytes, bytes] = {}
    held: dict[bytes, bytes] = {}
    timers: dict[bytes, bytes] = {}
    purge = {purge_key(j.purge_at_ms, i): b"" for i, j in jobs.items() if j.purge_at_ms is not None}
    assigned: dict[bytes, bytes] = {}
    listed: dict[bytes, Instance] = {}
    for key, row in rows.items():
        what = f"instance {key.hex()} ({row.state.name})"
        job = jobs.get(row.job_id)
        if row.key != key:
            found.append(f"{what} has the key {row.key.hex()}")
        if job is None:
            found.append(f"{what} has no job")
            continue
        if row.state is I.WAITING and not row.held:
            ready[ready_key(row.priority, row.ready_at_ms, key)] = b""
        if row.held:
            held[held_key(row.job_id, row.ready_at_ms, key)] = b""
            if row.state is not I.WAITING:
                found.append(f"{what} is held")
        if row.wake_at_ms is not None:
            timers[timer_key(row.wake_at_ms, key)] = b""
            if row.state not in (I.WAITING, I.RETRYING):
                found.append(f"{what} has a timer")
        elif row.state is I.RETRYING:
            found.append(f"{what} has no timer")
        if row.purge_at_ms is not None:
            purge[purge_key(row.purge_at_ms, row.job_id, key)] = b""
            if row.state not in FINAL:
                found.append(f"{what} is to be purged")
        live = row.live
        if (live is not None) != (row.state in (I.LAUNCHED, I.RUNNING)):
            found.append(f"{what} and its attempts disagree")
        if live is not None:
            assigned[assigned_key(live.session, live.token)] = key
        if (row.ended_at_ms is not None) != (row.state in FINAL):
            found.append(f"{what} ended at {row.ended_at_ms}")
        if row.state in FINAL and row.purge_at_ms is None and not _own(job, row):
            found.append(f"{what} is kept forever")
        if not _own(job, row):
            listed[by_job_key(key)] = row
    _same(found, view, Table.READY, ready)
    _same(found, view, Table.HELD, held)
    _same(found, view, Table.TIMERS, timers)
    _same(found, view, Table.PURGE, purge)
    _same(found, view, Table.ASSIGNED, assigned)
    there = dict(view.scan(Table.BY_JOB))
    for key in there.keys() ^ listed.keys():
        found.append(f"BY_JOB row {key.hex()} is {'unowned' if key in there else 'missing'}")
    for key in there.keys() & listed.keys():
        state = I(there[key][0])
        if (state in FINAL or listed[key].state in FINAL) and state is not listed[key].state:
            found.append(f"BY_JOB says {state.name} of an instance that is {listed[key].state.name}")


def _own(job: Job, row: Instance) -> bool:
    """The one scheduled instance of a one-shot: the job itself names it."""
    trigger = job.policy.trigger
    if row.request or not trigger.once:
        return False
    nominal = trigger.at_ms if trigger.kind is TriggerKind.AT else job.anchor_at_ms + trigger.period_ms
    return row.nominal_at_ms == nominal


def _counters(view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], found: list[str]) -> None:
    states: dict[int, Counter[I]] = defaultdict(Counter)
    held: Counter[int] = Counter()
    live: Counter[int] = Counter()
    for row in rows.values():
        states[row.job_id][row.state] += 1
        held[row.job_id] += row.held
        live[row.job_id] += row.live is not None
    shared = {from_u64(k[:8]) for k, v in view.scan(Table.REVISIONS) if decode_job(v).policy.overlap is Overlap.ALLOW}
    for job_id, job in jobs.items():
        count = states[job_id]
        active = sum(n for state, n in count.items() if state not in FINAL)
        failed, others = count[I.FAILED] + count[I.TIMED_OUT], count[I.KILLED] + count[I.SKIPPED]
        wanted = (active, held[job_id], count[I.SUCCEEDED], failed, others)
        counted = (job.active, job.held, job.succeeded, job.failed, job.others)
        if counted != wanted:
            found.append(f"job {job_id} counts {counted}; there are {wanted} (active, held, succeeded, failed)")
        if job.held and job.active <= job.held:
            found.append(f"job {job_id} holds {job.held} and nothing else runs")
        if job.policy.overlap is not Overlap.ALLOW and job_id not in shared:
            if active - held[job_id] > 1:
                found.append(f"job {job_id} has {active - held[job_id]} going at once")
            if live[job_id] > 1:
                found.append(f"job {job_id} runs {live[job_id]} times at once")


def _sessions(view: ReadView, found: list[str]) -> None:
    sessions = {from_u64(k): decode_session(v) for k, v in view.scan(Table.SESSIONS)}
    nodes = {k.decode(): from_u64(v) for k, v in view.scan(Table.NODES)}
    last = decode_meta(view.get(Table.META, b"meta")).last_session
    for number, session in sessions.items():
        if session.id != number or number > last:
            found.append(f"session {number} is numbered {session.id}, the last one is {last}")
        if nodes.get(session.node) != number:
            found.append(f"session {number} of {session.node} is not its newest")
    for node, number in nodes.items():
        if number not in sessions:
            found.append(f"the session {number} of {node} is gone")
    for key, _ in view.scan(Table.ASSIGNED):
        owner = sessions.get(from_u64(key[:8]))
        if owner is None or not owner.open:
            found.append(f"ASSIGNED row {key.hex()} is of a session that is over")


def _attempts(view: ReadView, rows: dict[bytes, Instance], found: list[str]) -> None:
    last = decode_meta(view.get(Table.META, b"meta")).last_token
    seen: set[int] = set()
    for key, row in rows.items():
        tokens = [attempt.token for attempt in row.attempts]
        if tokens != sorted(set(tokens)) or (tokens and tokens[-1] > last) or not seen.isdisjoint(tokens):
            found.append(f"instance {key.hex()} has the tokens {tokens}; the last one given is {last}")
        seen.update(tokens)
        if any(attempt.outcome is None for attempt in row.attempts[:-1]):
            found.append(f"instance {key.hex()} has an earlier attempt that never ended")


def _keys(view: ReadView, found: list[str]) -> None:
    meta = decode_meta(view.get(Table.META, b"meta"))
    uses = {k: msgspec.msgpack.decode(v, type=KeyUse) for k, v in view.scan(Table.KEYS)}
    _same(found, view, Table.KEY_TIMES, {u64(use.at_ms) + key: b"" for key, use in uses.items()})
    if meta.keys != len(uses):
        found.append(f"meta counts {meta.keys} keys; there are {len(uses)}")
    for key, use in uses.items():
        if len(key) != 32 or len(use.digest) != 32 or use.job_id > meta.last_id:
            found.append(f"key {key.hex()} holds {use}")
