"""Lateness: jobs that are due at a steady rate, at random milliseconds, and how late each began by its own clock.

Half are one-shots, half runs of recurring jobs (each 10 s); all are created before the first is due. A job writes the
wall clock as the first thing that it does (`p50_ms` and so on); `recorded_*` is what the cluster's records say. With
`leader_killed` the leader was killed with -9 halfway and stayed dead: then `max_ms` counts, and `late_over_1_s` says
how many were hit. `cpu_others` is the share of the machine that others took meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.benches.figures import emit, note, percentile
from scripts.benches.load import create_all, rfc3339
from scripts.benches.machine import Load
from scripts.benches.run import instances
from scripts.benches.starts import parse_ms, read_marks
from tests.support.cluster import Cluster, NodeProcess

PERIOD_MS = 10_000
CREATES_PER_S = 3_000  # what creating the jobs beforehand is expected to reach at least
SETTLE_S = 3.0  # from the last create to the first start
LAST_S = 30.0  # for the last to start
WARM = 300  # runs before, so that processes are there


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: list[dict[str, Any]]
    due: int  # starts
    begin_ms: int
    end_ms: int


def plan(per_second: int, seconds: float, file: Path) -> Plan:
    handler = {"handler": {"python": "marking:mark"}, "params": {"file": str(file)}}
    spread_ms = min(PERIOD_MS, int(1000 * seconds))  # of the recurring jobs' first times
    recurring = max(1, round(per_second / 2 * spread_ms / 1000))
    once = max(1, round(per_second * seconds / 2))
    begin_ms = int(1000 * (time.time() + SETTLE_S + (recurring + once) / CREATES_PER_S))
    end_ms = begin_ms + int(1000 * seconds)
    jobs, due = [], once
    for _ in range(once):
        jobs.append({"trigger": {"at": rfc3339(random.randrange(begin_ms, end_ms))}, **handler})
    for _ in range(recurring):
        first = begin_ms + random.randrange(spread_ms)
        due += len(range(first, end_ms, PERIOD_MS))
        every = {"every": f"{PERIOD_MS}ms", "starts_at": rfc3339(first), "ends_at": rfc3339(end_ms - 1)}
        jobs.append({"trigger": every, **handler})
    random.shuffle(jobs)
    return Plan(jobs, due, begin_ms, end_ms)


def marks(file: Path) -> dict[str, tuple[float, float]]:
    """instance -> (due, first start), in ms"""
    found: dict[str, tuple[float, float]] = {}
    for mark in read_marks(file):
        found.setdefault(mark.which, (mark.due_ms, mark.at_ms))
    return found


def all_marks(file: Path, count: int) -> dict[str, tuple[float, float]]:
    """As many as are due; fewer when the last do not come."""
    deadline = time.time() + LAST_S
    while len(found := marks(file)) < count and time.time() < deadline:
        time.sleep(0.2)
    return found


async def until(at_ms: float) -> None:
    await asyncio.sleep(max(0.0, at_ms / 1000 - time.time()))


async def bench_lateness(cluster: Cluster, file: Path, per_second: int, seconds: float, kill: bool) -> bool:
    """False when not all that was due has started."""
    leader = await asyncio.to_thread(cluster.leader)
    warm = file.with_suffix(".warm")
    handler = {"handler": {"python": "marking:mark"}, "params": {"file": str(warm)}}
    await create_all(leader, [{"trigger": {"in": "1ms"}, **handler} for _ in range(WARM)])
    await asyncio.to_thread(cluster.wait, "the processes to be warm", lambda: len(marks(warm)) == WARM)
    planned = plan(per_second, seconds, file)
    note(f"creating {len(planned.jobs)} jobs for {planned.due} starts in {seconds:.0f} s ...")
    await create_all(leader, planned.jobs)
    if time.time() * 1000 > planned.begin_ms:
        raise RuntimeError("creating the jobs took so long that the first were due: the machine is too busy")
    await until(planned.begin_ms)
    load = Load()
    killed_ms = None
    if kill:
        await until((planned.begin_ms + planned.end_ms) / 2)
        leader = await asyncio.to_thread(cluster.leader)
        killed_ms = time.time() * 1000
        await asyncio.to_thread(leader.kill)
        note(f"killed {leader.id}")
    await until(planned.end_ms)
    shares = load.shares()
    found = await asyncio.to_thread(all_marks, file, planned.due)
    late = [start - due for due, start in found.values()]
    recorded = await asyncio.to_thread(recorded_ms, cluster.alive()[0], planned.begin_ms, set(found))
    figures: dict[str, Any] = {}
    if killed_ms is not None:
        figures["late_over_1_s"] = sum(ms > 1000 for ms in late)
        leader.start()
    emit(
        "lateness",
        asked_per_second=per_second,
        seconds=seconds,
        leader_killed=kill,
        due=planned.due,
        started=len(found),
        p50_ms=percentile(late, 0.5),
        p90_ms=percentile(late, 0.9),
        p99_ms=percentile(late, 0.99),
        max_ms=max(late, default=float("nan")),
        early=sum(ms < 0 for ms in late),
        recorded_p50_ms=percentile(recorded, 0.5),
        recorded_p99_ms=percentile(recorded, 0.99),
        recorded_max_ms=max(recorded, default=float("nan")),
        **figures,
        **shares,
    )
    return len(found) == planned.due


def recorded_ms(node: NodeProcess, begin_ms: int, wanted: set[str]) -> list[float]:
    """Lateness of the last attempt of each, by the records of a node."""
    return [
        parse_ms(row["started_at"]) - parse_ms(row["scheduled_at"])
        for row in instances(node, begin_ms)
        if row["id"] in wanted and row["started_at"] is not None
    ]
