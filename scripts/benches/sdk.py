"""Create rates through raftsched.AsyncClient: so many tasks, each creating one job after the other.

The client gathers what is under way at one time into batches by itself. `client_us`, `leader_us` and `follower_us` (of
the costlier follower) are what a job costs these processes, in microseconds of CPU time: client and nodes share the
machine, and those figures say more than the rate when others use it too.
"""

from __future__ import annotations

import asyncio
import time

import raftsched
from scripts.benches.figures import emit, percentile
from scripts.benches.load import far, rfc3339
from scripts.benches.machine import used_s
from tests.support.cluster import Cluster

HANDLER: raftsched.JobSpec = {"handler": {"python": "raftsched.samples:noop"}}


async def bench_sdk(cluster: Cluster, seconds: float) -> None:
    servers = [f"127.0.0.1:{node.http_port}" for node in cluster.nodes]
    for in_flight in (1, 32, 256, 1_000):
        async with raftsched.AsyncClient(servers) as client:
            await _load(client, in_flight, min(1.0, seconds))
            leader = cluster.leader()
            used, nodes = time.process_time(), _used(cluster)
            took, latencies = await _load(client, in_flight, seconds)
            count = len(latencies)
            client_us = (time.process_time() - used) / count * 1_000_000
            node_us = {node: (after - nodes[node]) / count * 1_000_000 for node, after in _used(cluster).items()}
            emit(
                "create-sdk",
                in_flight=in_flight,
                per_second=count / took,
                p50_ms=percentile(latencies, 0.5),
                p99_ms=percentile(latencies, 0.99),
                client_us=client_us,
                leader_us=node_us.pop(leader.id),
                follower_us=max(node_us.values()),
            )


def _used(cluster: Cluster) -> dict[str, float]:
    """CPU seconds of each node's process up to now."""
    return {node.id: used_s(node.process.pid) for node in cluster.nodes if node.process is not None}


async def _load(client: raftsched.AsyncClient, tasks: int, seconds: float) -> tuple[float, list[float]]:
    """(seconds, latencies in ms)"""
    start = time.perf_counter()
    latencies: list[float] = []

    async def work() -> None:
        while (sent := time.perf_counter()) - start < seconds:
            await client.jobs.create(HANDLER, trigger={"at": rfc3339(far())})
            latencies.append((time.perf_counter() - sent) * 1000)

    await asyncio.gather(*(work() for _ in range(tasks)))
    return time.perf_counter() - start, latencies
