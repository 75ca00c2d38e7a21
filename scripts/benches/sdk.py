"""Create rates through raftsched.AsyncClient: so many tasks, each creating one job after the other.

The client gathers what is under way at one time into batches by itself. `client_us` is what a job costs the client's
process; client and nodes share the machine.
"""

from __future__ import annotations

import asyncio
import time

import raftsched
from scripts.benches.figures import emit, percentile
from scripts.benches.load import far, rfc3339
from tests.support.cluster import Cluster

HANDLER: raftsched.JobSpec = {"handler": {"python": "raftsched.samples:noop"}}


async def bench_sdk(cluster: Cluster, seconds: float) -> None:
    servers = [f"127.0.0.1:{node.http_port}" for node in cluster.nodes]
    for in_flight in (1, 32, 256, 1_000):
        async with raftsched.AsyncClient(servers) as client:
            await _load(client, in_flight, min(1.0, seconds))
            used = time.process_time()
            took, latencies = await _load(client, in_flight, seconds)
            count = len(latencies)
            emit(
                "create-sdk",
                in_flight=in_flight,
                per_second=count / took,
                p50_ms=percentile(latencies, 0.5),
                p99_ms=percentile(latencies, 0.99),
                client_us=(time.process_time() - used) / count * 1_000_000,
            )


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
