"""Many jobs `every 10s`: first due at random within a period (`spread`), and all at one instant (`aligned`).

They are created before the first is due. Each run reads the wall clock as the first thing that it does and writes it
down; every time that was due within the measured time counts, and one that never ran counts with all that it was waited
for: the load is the clock, it does not wait for anybody. `not_run` must be 0. `cpu_per_start_us` is the processor time
of all nodes with the processes below them for one run.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from scripts.benches.figures import emit, note
from scripts.benches.load import create_all, rfc3339
from scripts.benches.machine import Load
from scripts.benches.run import warm
from scripts.benches.starts import account, handler, marks_file, read_marks, wait_marks
from scripts.benches.usage import Meter
from tests.support.cluster import Cluster

LAYOUTS = ("spread", "aligned")
PERIOD_MS = 10_000
CREATES_PER_S = 2_000  # what creating the jobs beforehand is expected to reach at least
SETTLE_S = 3.0  # from the last create to the first start
LAST_S = 30.0  # for the last to start


def plan(count: int, layout: str, begin_ms: int, end_ms: int) -> tuple[list[int], dict[tuple[str, int], float]]:
    """(first due time of each job, every target as (job, due time) -> due time)"""
    spread = layout == "spread"
    first = [begin_ms + (random.randrange(PERIOD_MS) if spread else 0) for _ in range(count)]
    due = {(str(job), at): float(at) for job in range(count) for at in range(first[job], end_ms, PERIOD_MS)}
    return first, due


async def bench_periodic(cluster: Cluster, layout: str, count: int, seconds: float) -> bool:
    """False: not all that was due has started. Needs a cluster with starts.JOBS."""
    await warm(cluster)
    node = await asyncio.to_thread(cluster.leader)
    begin_ms = int(1000 * (time.time() + SETTLE_S + count / CREATES_PER_S))
    end_ms = begin_ms + int(1000 * seconds)
    first, due = plan(count, layout, begin_ms, end_ms)
    with marks_file() as file:
        note(f"creating {count:,} jobs for {len(due):,} starts in {seconds:.0f} s, {layout} ...")
        jobs: list[dict[str, Any]] = []
        for number, at in enumerate(first):
            every = {"every": f"{PERIOD_MS}ms", "starts_at": rfc3339(at), "ends_at": rfc3339(end_ms - 1)}
            jobs.append({"trigger": every, **handler(file, number)})
        await create_all(node, jobs)
        if time.time() * 1000 > begin_ms:
            raise RuntimeError("creating the jobs took so long that the first were due: the machine is too busy")
        await asyncio.sleep(max(0.0, begin_ms / 1000 - 0.1 - time.time()))
        meter, load = Meter(cluster), Load()
        await asyncio.sleep(max(0.0, end_ms / 1000 - time.time()))
        until_ms = await asyncio.to_thread(wait_marks, file, len(due), LAST_S)
        spent, shares = meter.per_start(len(due)), load.shares()
        starts: dict[tuple[str, int], list[float]] = {}
        for mark in read_marks(file):
            starts.setdefault((mark.which, round(mark.due_ms)), []).append(mark.at_ms)
    found = account(due, starts, until_ms)
    emit(
        "periodic",
        layout=layout,
        jobs=count,
        seconds=seconds,
        **found.figures(),
        **spent,
        **shares,
    )
    return found.not_run == 0
