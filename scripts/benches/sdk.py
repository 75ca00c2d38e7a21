"""Create rates through raftsched.AsyncClient."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import raftsched
from scripts.benches.figures import percentile
from scripts.benches.load import far, rfc3339
from scripts.benches.machine import Load
from scripts.benches.usage import Meter
from tests.support.cluster import Cluster, NodeProcess

HANDLER: raftsched.JobSpec = {"handler": {"python": "raftsched.samples:noop"}}


async def sdk_rate(cluster: Cluster, node: NodeProcess, in_flight: int, seconds: float) -> dict[str, Any]:
    """So many tasks, each creating one job after the other. `client_us`: what a job costs the client's process."""
    async with raftsched.AsyncClient([f"127.0.0.1:{node.http_port}"]) as client:
        await _load(client, in_flight, min(1.0, seconds))
        leader, meter, load = cluster.leader(), Meter(cluster), Load()
        own = time.process_time()
        took, latencies = await _load(client, in_flight, seconds)
        return {
            "per_second": len(latencies) / took,
            "p50_ms": percentile(latencies, 0.5),
            "p99_ms": percentile(latencies, 0.99),
            "client_us": (time.process_time() - own) / len(latencies) * 1e6,
            **meter.per_job(leader, len(latencies)),
            **load.shares(),
        }


async def _load(client: raftsched.AsyncClient, tasks: int, seconds: float) -> tuple[float, list[float]]:
    """(seconds, latencies in ms)"""
    start = time.perf_counter()
    latencies: list[float] = []

    async def work() -> None:
        sent = time.perf_counter()
        while True:  # once at the least, however slow the machine is
            await client.jobs.create(HANDLER, trigger={"at": rfc3339(far())})
            now = time.perf_counter()
            latencies.append((now - sent) * 1000)
            if now - start >= seconds:
                return
            sent = now

    await asyncio.gather(*(work() for _ in range(tasks)))
    return time.perf_counter() - start, latencies
