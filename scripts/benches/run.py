"""Runs: throughput of no-op Python jobs that are due at once, and how late a burst due at one instant starts.

Both by the instances' own records, not from the client: from the creation of the first job to the end of the last run,
and from the due time to each start.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from scripts.benches.figures import emit, percentile
from scripts.benches.load import create_all, one_shot, rfc3339
from tests.support.cluster import Cluster, NodeProcess


def instances(node: NodeProcess, since_ms: int) -> list[dict[str, Any]]:
    """All instances scheduled from `since_ms` on."""
    found: list[dict[str, Any]] = []
    path: str | None = f"/v1/instances?limit=1000&from={rfc3339(since_ms)}"
    while path:
        page = node.get(path)
        found += page["items"]
        path = f"/v1/instances?limit=1000&from={rfc3339(since_ms)}&cursor={page['next']}" if page["next"] else None
    return found


def parse_ms(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


def done_count(cluster: Cluster) -> int:
    """Runs that ended, as the leader's metrics count them."""
    text = cluster.leader().request("GET", "/metrics").body.decode()
    total = 0.0
    for line in text.splitlines():
        if line.startswith("raftsched_attempts_ended_total"):
            total += float(line.rsplit(" ", 1)[1])
    return int(total)


async def wait_runs(cluster: Cluster, wanted: int, limit_s: float) -> None:
    deadline = time.perf_counter() + limit_s
    while (done := await asyncio.to_thread(done_count, cluster)) < wanted:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"only {done} of {wanted} runs ended within {limit_s:.0f} s")
        await asyncio.sleep(0.1)


async def bench_throughput(cluster: Cluster, count: int) -> None:
    """No-op Python jobs, due at once: from the first create to the last success, by the instances' own records."""
    node = cluster.leader()
    before = done_count(cluster)
    start_ms = int(time.time() * 1000)
    await create_all(node, [one_shot(start_ms) for _ in range(count)])
    created_s = time.time() - start_ms / 1000
    await wait_runs(cluster, before + count, 180)
    rows = [r for r in instances(node, start_ms) if parse_ms(r["scheduled_at"]) == start_ms]
    if len(rows) != count or any(r["state"] != "SUCCEEDED" for r in rows):
        raise RuntimeError(f"{len(rows)} instances of {count}: {sorted({r['state'] for r in rows})}")
    took = (max(parse_ms(r["ended_at"]) for r in rows) - start_ms) / 1000
    emit("run", runs=count, per_second=count / took, seconds=took, creating_seconds=created_s)


async def bench_burst(cluster: Cluster, count: int, lead_s: float) -> None:
    """`count` one-shots due at one instant: how late each started."""
    node = cluster.leader()
    before = done_count(cluster)
    due_ms = int(time.time() * 1000 + lead_s * 1000)
    await create_all(node, [one_shot(due_ms) for _ in range(count)])
    if time.time() * 1000 > due_ms:
        raise RuntimeError("creating took longer than the lead; use --lead")
    await wait_runs(cluster, before + count, lead_s + 180)
    rows = [r for r in instances(node, due_ms) if parse_ms(r["scheduled_at"]) == due_ms]
    if len(rows) != count or any(r["state"] != "SUCCEEDED" for r in rows):
        raise RuntimeError(f"{len(rows)} instances of {count}: {sorted({r['state'] for r in rows})}")
    late = [parse_ms(r["started_at"]) - due_ms for r in rows]
    emit(
        "burst",
        due_at_once=count,
        lateness_p50_ms=percentile(late, 0.5),
        lateness_p99_ms=percentile(late, 0.99),
        last_start_ms=max(late),
    )
