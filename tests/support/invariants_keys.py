"""What holds between the keys of runs, their lines, and the instances that have permits or wait for one."""

from __future__ import annotations

from collections import Counter, defaultdict

from raftsched.core.model import FINAL, Instance, Job
from raftsched.core.model import InstanceState as I
from raftsched.core.rows import decode_run_key
from raftsched.core.rules.run_keys import (
    HOLDERS_MAX,
    RATES_MAX,
    Blocked,
    PermitState,
    blocked_by,
    from_line,
    line_key,
    line_of,
    look_again_ms,
    run_key,
)
from raftsched.core.tables import LANE_NOBODY, ReadView, Table, after, timer_key
from tests.support.invariants_cluster import same


def keys_violations(
    view: ReadView, jobs: dict[int, Job], rows: dict[bytes, Instance], now_ms: int, found: list[str]
) -> None:
    running: defaultdict[bytes, set[bytes]] = defaultdict(set)
    lines: dict[bytes, bytes] = {}
    waiting: Counter[bytes] = Counter()
    kept: Counter[tuple[bytes, int, int]] = Counter()
    for key, row in rows.items():
        permit = row.permit
        if permit is None:
            continue
        what = f"instance {key.hex()} ({row.state.name}) of key {permit.key}"
        own = run_key(permit.namespace, permit.key)
        ready = row.state is I.WAITING and not row.held and not row.checking
        aside = ready and permit.state is not PermitState.IN_LINE and row.lane == LANE_NOBODY
        goes = row.state in (I.LAUNCHED, I.RUNNING)
        if permit.state is PermitState.HELD:
            running[own].add(key)
            if not (ready or goes) or aside:
                found.append(f"{what} has a permit")
        elif permit.state is PermitState.IN_LINE:
            lines[line_key(own, row.score_ms, key)] = b""
            waiting[own] += 1
            if not ready:
                found.append(f"{what} is in line")
        elif goes or (ready and not aside):
            found.append(f"{what} has no permit")
        if permit.rate_count is not None:
            kept[own, permit.rate_count, permit.rate_period_ms] += 1
            if permit.state is not PermitState.HELD or not ready:
                found.append(f"{what} has a start kept for it")
        if row.parent is not None or (row.state in FINAL and permit.state is not PermitState.NONE):
            found.append(f"{what} is a part, or at its end")
    same(found, view, Table.KEY_LINES, lines)
    timers: dict[bytes, bytes] = {}
    there = {key: decode_run_key(raw) for key, raw in view.scan(Table.RUN_KEYS)}
    for key in (running.keys() | waiting.keys()) - there.keys():
        found.append(f"the key {key!r} is in use and has no row")
    for key, row in there.items():
        what = f"the key {key!r}"
        if (row.running, row.waiting) != (len(running[key]), waiting[key]):
            found.append(f"{what} counts {row.running}, {row.waiting}; there are {len(running[key])}, {waiting[key]}")
        if not row.is_needed:
            found.append(f"{what} is of no use")
        if not set(row.holders) <= running[key] or len(set(row.holders)) < len(row.holders) <= HOLDERS_MAX:
            found.append(f"{what} names {row.holders}")
        if len(row.rates) > RATES_MAX:
            found.append(f"{what} counts {len(row.rates)} rates")
        for one in row.rates:
            if one.kept != kept[key, one.rate_count or 0, one.rate_period_ms] or one.kept > (one.rate_count or 0):
                found.append(f"{what} keeps {one.kept} starts at {one.rate_count} in {one.rate_period_ms}")
        if row.wake_at_ms is not None:
            timers[timer_key(row.wake_at_ms, key)] = b""
        elif not row.running and not row.waiting:
            found.append(f"{what} is never looked at again")
        first = next((place for place, _ in view.scan(Table.KEY_LINES, line_of(key), after(line_of(key)))), None)
        if first is not None and row.wake_at_ms is None:
            limits = jobs[rows[from_line(first)].job_id].policy.concurrency
            blocked = blocked_by(row, limits, now_ms)
            if blocked is None or (blocked is not Blocked.FULL and look_again_ms(row, limits, now_ms) is not None):
                found.append(f"{what} has nobody who lets the first of its line go ({blocked})")
    same(found, view, Table.KEY_TIMERS, timers)
